import { sql } from "kysely";
import type { CallerTenant } from "../kernel/caller.ts";
import type { DomainError } from "../kernel/errors.ts";
import { eventsTakenOf, limitsOf, planLimitExceeded } from "../kernel/plans.ts";
import { kept } from "../kernel/statements.ts";
import { monthOf, monthStart } from "../kernel/usage-counters.ts";
import type { Work } from "../kernel/work.ts";
import type { NewEvent } from "./event-input.ts";
import { type Lack, lackRoom, noteUsed, usedAtLeast } from "./grants.ts";
import { dedupeKey, findExisting, type Ingested, type Payer, storeEvents } from "./ingest.ts";

/** Who sends events, with what their plan takes of them. */
export type Sender = { tenantId: string; tenant: Pick<CallerTenant, "plan" | "planOverrides"> };

/** The events of one request: they are stored together, or refused together. */
export type MeteredRequest = { sender: Sender; events: readonly NewEvent[] };

/** How the events of a commit are stored: `chunk` rows a statement, counted in the rows of `slot`. */
export type Storing = { chunk: number; slot: number };

/**
 * Stores the events of requests as `storeEvents` does, and counts those that are new for the month of their
 * tenants. A request with more new events than its tenant's plan has left is refused as a whole.
 * @returns for each request the results of its events, or PAYMENT_REQUIRED PLAN_LIMIT_EXCEEDED
 * @throws RoomLacking
 */
export const storeMetered = async <R extends MeteredRequest>(
  work: Work,
  requests: readonly R[],
  { chunk, slot }: Storing,
): Promise<Map<R, Ingested[] | DomainError>> => {
  const refused = await refuseExcess(work, requests);
  const taken = refused.size === 0 ? requests : requests.filter((request) => !refused.has(request));
  const payers = payersOf(taken);
  const lacking = (tenantIds: readonly string[]): Error =>
    lackRoom(work, slot, lacksOf(taken, payers, tenantIds));
  const stored = await storeEvents(
    work,
    taken.flatMap(({ events }) => events),
    { chunk, counting: { payers, slot, lacking } },
  );
  const results = new Map<R, Ingested[] | DomainError>(refused);
  let start = 0;
  for (const request of taken) {
    results.set(request, stored.slice(start, start + request.events.length));
    start += request.events.length;
  }
  return results;
};

/** Of a tenant whose plan was just changed, senders may know both plans: the larger one counts. */
const payersOf = (requests: readonly MeteredRequest[]): Payer[] => {
  const caps = new Map<string, number | null>();
  const owners = new Map<string, string>();
  for (const { sender, events } of requests) {
    const cap = eventsTakenOf(sender.tenant);
    const known = caps.get(sender.tenantId);
    const isLarger = known === undefined || (known !== null && (cap === null || cap > known));
    if (isLarger) caps.set(sender.tenantId, cap);
    for (const { p } of events) owners.set(p, sender.tenantId);
  }
  return [...owners].map(([p, t]) => ({ p, t, m: caps.get(t)! }));
};

/** Of each of these tenants: room for all its events, whatever of them may be repetitions. */
const lacksOf = (
  requests: readonly MeteredRequest[],
  payers: readonly Payer[],
  tenantIds: readonly string[],
): Lack[] => {
  const caps = new Map(payers.map(({ t, m }) => [t, m]));
  return tenantIds.map((tenantId) => ({
    tenantId,
    cap: caps.get(tenantId)!,
    need: sentOf(requests.filter(({ sender }) => sender.tenantId === tenantId)),
  }));
};

const sentOf = (requests: readonly MeteredRequest[]): number =>
  requests.reduce((sum, { events }) => sum + events.length, 0);

const isLimited = ({ tenant }: Sender): boolean => eventsTakenOf(tenant) !== null;

/**
 * Refuses requests with more new events than their tenants have left for sure, without locks: what is used
 * only grows. Where it is not sure, counting finds no room, and what is used is looked at.
 */
const refuseExcess = async <R extends MeteredRequest>(
  work: Work,
  requests: readonly R[],
): Promise<Map<R, DomainError>> => {
  const refused = new Map<R, DomainError>();
  const limited = Map.groupBy(
    requests.filter(({ sender }) => isLimited(sender)),
    ({ sender }) => sender.tenantId,
  );
  const isFar = (own: readonly R[], used: number): boolean => {
    const sent = sentOf(own);
    return own.every(({ sender }) => used + sent <= eventsTakenOf(sender.tenant)!);
  };
  const near = [...limited].filter(([id, own]) => !isFar(own, usedAtLeast(id, work.serverNow)));
  if (near.length === 0) return refused;
  const usedBy = await usedOf(
    work,
    near.map(([id]) => id),
  );
  for (const [tenantId, own] of near) {
    const used = usedBy.get(tenantId) ?? 0;
    noteUsed(tenantId, work.serverNow, used);
    if (!isFar(own, used)) await refuseOf(work, { used, own }, refused);
  }
  return refused;
};

type OfTenant<R> = { used: number; own: readonly R[] };

const refuseOf = async <R extends MeteredRequest>(
  work: Work,
  { used, own }: OfTenant<R>,
  refused: Map<R, DomainError>,
): Promise<void> => {
  // Near the limit it matters which of them are repetitions: those are answered as always.
  const keyed = own.flatMap(({ events }) => events.filter(({ k }) => k !== null));
  const known = new Set(keyed.length === 0 ? [] : (await findExisting(work, keyed)).keys());
  let total = used;
  for (const request of own) {
    const { fresh, keys } = freshOf(request.events, known);
    const max = eventsTakenOf(request.sender.tenant)!;
    if (total + fresh > max && fresh > 0) {
      refused.set(request, exceeded(request.sender, { used: total, fresh, max, now: work.serverNow }));
    } else {
      total += fresh;
      for (const key of keys) known.add(key);
    }
  }
};

/** Returns how many of the events are new, and their keys. */
const freshOf = (
  events: readonly NewEvent[],
  known: ReadonlySet<string>,
): { fresh: number; keys: Set<string> } => {
  const keys = new Set<string>();
  let fresh = 0;
  for (const { p, k } of events) {
    const key = k === null ? undefined : dedupeKey(p, k);
    if (key !== undefined && (known.has(key) || keys.has(key))) continue;
    if (key !== undefined) keys.add(key);
    fresh++;
  }
  return { fresh, keys };
};

type Excess = { used: number; fresh: number; max: number; now: Date };

const exceeded = ({ tenant }: Sender, { used, fresh, max, now }: Excess): DomainError => {
  const { eventsPerMonth } = limitsOf(tenant);
  const over = used + fresh - max;
  const taken = max === eventsPerMonth ? "" : ` and takes ${max}`;
  return planLimitExceeded(
    `The plan ${tenant.plan} includes ${eventsPerMonth} events a month${taken}; ${used} are used, so of ` +
      `the ${fresh} new ones of this request ${over} are too many and none was stored. The next month ` +
      `begins at ${monthStart(now, 1).toISOString()}`,
    [{ field: "eventsPerMonth", message: `limit ${max}, used ${used}, sent ${fresh}, over by ${over}` }],
  );
};

/** Returns the events of tenants in this month, as committed; without those that have none. */
const usedOf = async (
  { db, serverNow }: Work,
  tenantIds: readonly string[],
): Promise<Map<string, number>> => {
  const { rows } = await kept(
    db,
    sql<{ id: string; used: string | number }>`
      select tenant_id as id, sum(events) as used from usage_counters
      where tenant_id = any(${`{${tenantIds.join(",")}}`}::uuid[]) and month = ${monthOf(serverNow)}::int
      group by 1`,
  );
  return new Map(rows.map(({ id, used }) => [id, Number(used)]));
};
