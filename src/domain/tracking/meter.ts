import { sql } from "kysely";
import { type CallerTenant, eventsTakenOf, limitsOf, planLimitExceeded } from "../kernel/caller.ts";
import { type DomainError, retryLater } from "../kernel/errors.ts";
import { kept } from "../kernel/statements.ts";
import {
  MAIN_SLOT,
  monthOf,
  monthStart,
  noteUsageChange,
  type Transact,
  Unprepared,
  type Work,
} from "../kernel/work.ts";
import {
  dedupeKey,
  findExisting,
  type Ingested,
  type NewEvent,
  type Payer,
  storeEvents,
} from "./event-input.ts";

/**
 * Events of a tenant whose plan limits them are counted in rows that transactions seldom share. Each has a
 * room: the events that it may still count, so that no two commits compare with the limit in one row. Rooms
 * are given here, in short transactions of their own that hold locks of one tenant's rows alone. The sum of
 * what is counted and what was given never exceeds the limit (`cap`).
 */
type Lack = { tenantId: string; cap: number; need: number };

/** Of what is left, a room is at most this part: near the limit rooms are small. */
const PARTS_OF_REST = 64;
/** How often one transaction may lack room that others have taken meanwhile. */
const TRIES_MAX = 100;

/** Thrown by a commit whose rows have too little room: it is rolled back, given room, and repeated. */
class RoomLacking extends Unprepared {
  readonly #slot: number;
  readonly #lacks: readonly Lack[];

  constructor(slot: number, lacks: readonly Lack[]) {
    super("Counters of events have too little room.");
    this.#slot = slot;
    this.#lacks = lacks;
  }

  override async prepare(transact: Transact): Promise<void> {
    for (const lack of this.#lacks) await transact((work) => giveRoom(work, this.#slot, lack));
  }
}

/** Returns what a commit throws whose rows lack room. */
const lackRoom = (work: Work, slot: number, lacks: readonly Lack[]): Error =>
  work.lanes.undone < TRIES_MAX
    ? new RoomLacking(slot, lacks)
    : retryLater("too many requests take the last events of the month: try again", "SERVER_BUSY");

/** What tenants had used at least, by tenant: usage of a month only grows. The eldest are forgotten. */
const seen = new Map<string, { month: number; used: number }>();
const SEEN_MAX = 10_000;

/** Returns how many events a tenant has used in the month at least. */
const usedAtLeast = (tenantId: string, now: Date): number => {
  const last = seen.get(tenantId);
  return last?.month === monthOf(now) ? last.used : 0;
};

/** Notes what a tenant has used, as committed. */
const noteUsed = (tenantId: string, now: Date, used: number): void => {
  seen.delete(tenantId);
  if (seen.size >= SEEN_MAX) seen.delete(seen.keys().next().value!);
  seen.set(tenantId, { month: monthOf(now), used });
};

type Counter = { slot: number; events: number; granted: number; cap: number | null };

const countersOf = async (
  { db, serverNow }: Work,
  tenantId: string,
  isLocking: boolean,
): Promise<Counter[]> => {
  const lock = sql.raw(isLocking ? "for update" : "");
  // Rows of players have no events, and claims may hold them for long.
  const { rows } = await sql<Counter>`
    select slot, events, granted, cap from usage_counters
    where tenant_id = ${tenantId}::uuid and month = ${monthOf(serverNow)}::int and slot >= ${MAIN_SLOT}
    order by slot ${lock}`.execute(db);
  return rows;
};

const sumOf = (counters: readonly Counter[], of: (counter: Counter) => number): number =>
  counters.reduce((sum, counter) => sum + of(counter), 0);

/**
 * Gives a row room for `need` events, and for some more. Where too little is left that was not given, the
 * rooms of all other rows are taken back, also those of processes that are gone; the row then gets what is
 * left, be it less than `need`.
 */
const giveRoom = async (work: Work, slot: number, { tenantId, cap, need }: Lack): Promise<void> => {
  await lockMain(work, tenantId, slot);
  const counters = await countersOf(work, tenantId, false);
  const used = sumOf(counters, ({ events }) => events);
  const taken = sumOf(counters, ({ events, granted }) => Math.max(events, granted));
  const free = cap - taken;
  // Rooms within another limit, as after a change of the plan, count for nothing.
  const isOther = counters.some((one) => one.cap !== null && one.cap !== cap && one.granted > one.events);
  if (isOther || free < need) await takeBack(work, slot, { tenantId, cap, need });
  else {
    const room = Math.min(free, need + Math.floor((cap - used) / PARTS_OF_REST));
    await sql`update usage_counters set cap = ${cap}::bigint,
        granted = (case when cap = ${cap}::bigint then greatest(granted, events) else events end)
          + ${room}::bigint
      where tenant_id = ${tenantId}::uuid and month = ${monthOf(work.serverNow)}::int
        and slot = ${slot}::smallint`.execute(work.db);
    noteUsed(tenantId, work.serverNow, used);
  }
  await noteUsageChange(work, tenantId);
};

const takeBack = async (work: Work, slot: number, { tenantId, cap, need }: Lack): Promise<void> => {
  const used = sumOf(await countersOf(work, tenantId, true), ({ events }) => events);
  const left = Math.max(0, cap - used);
  const room = Math.min(left, need + Math.floor(left / PARTS_OF_REST));
  await sql`update usage_counters set cap = ${cap}::bigint,
      granted = events + case when slot = ${slot}::smallint then ${room}::bigint else 0 end
    where tenant_id = ${tenantId}::uuid and month = ${monthOf(work.serverNow)}::int
      and slot > ${MAIN_SLOT}`.execute(work.db);
  noteUsed(tenantId, work.serverNow, used);
};

/** Makes the rows that are missing, and locks the one without whose lock no room is given. */
const lockMain = async ({ db, serverNow }: Work, tenantId: string, slot: number): Promise<void> => {
  const month = monthOf(serverNow);
  await sql`insert into usage_counters (tenant_id, month, slot)
    values (${tenantId}::uuid, ${month}::int, ${MAIN_SLOT}::smallint),
      (${tenantId}::uuid, ${month}::int, ${slot}::smallint)
    on conflict do nothing`.execute(db);
  await sql`select from usage_counters where tenant_id = ${tenantId}::uuid and month = ${month}::int
    and slot = ${MAIN_SLOT} for update`.execute(db);
};

/** Who sends events, with what their plan takes of them. */
export type Sender = { tenantId: string; tenant: Pick<CallerTenant, "plan" | "planOverrides"> };

/** The events of one request: they are stored together, or refused together. */
export type MeteredRequest = { sender: Sender; events: readonly NewEvent[] };

/** How the events of a commit are stored: `chunk` rows a statement, counted in the rows of `slot`. */
type Storing = { chunk: number; slot: number };

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
    { metric: "eventsPerMonth", limit: max, used, more: `, sent ${fresh}, over by ${over}` },
  );
};

/** Returns the events of tenants in this month, as committed; without those that have none. */
const usedOf = async (
  { db, serverNow }: Work,
  tenantIds: readonly string[],
): Promise<Map<string, number>> => {
  const { rows } = await kept(
    db,
    sql<{ id: string; used: number }>`
      select tenant_id as id, sum(events) as used from usage_counters
      where tenant_id = any(${`{${tenantIds.join(",")}}`}::uuid[]) and month = ${monthOf(serverNow)}::int
      group by 1`,
  );
  return new Map(rows.map(({ id, used }) => [id, used]));
};
