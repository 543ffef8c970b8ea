import { sql } from "kysely";
import { retryLater } from "../kernel/errors.ts";
import { Unprepared } from "../kernel/unprepared.ts";
import { MAIN_SLOT, monthOf, noteUsageChange } from "../kernel/usage-counters.ts";
import type { Transact, Work } from "../kernel/work.ts";

/**
 * Events of a tenant whose plan limits them are counted in rows that transactions seldom share. Each has a
 * room: the events that it may still count, so that no two commits compare with the limit in one row. Rooms
 * are given here, in short transactions of their own that hold locks of one tenant's rows alone. The sum of
 * what is counted and what was given never exceeds the limit (`cap`).
 */
export type Lack = { tenantId: string; cap: number; need: number };

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
export const lackRoom = (work: Work, slot: number, lacks: readonly Lack[]): Error =>
  work.lanes.undone < TRIES_MAX
    ? new RoomLacking(slot, lacks)
    : retryLater("too many requests take the last events of the month: try again", "SERVER_BUSY");

/** What tenants had used at least, by tenant: usage of a month only grows. The eldest are forgotten. */
const seen = new Map<string, { month: number; used: number }>();
const SEEN_MAX = 10_000;

/** Returns how many events a tenant has used in the month at least. */
export const usedAtLeast = (tenantId: string, now: Date): number => {
  const last = seen.get(tenantId);
  return last?.month === monthOf(now) ? last.used : 0;
};

/** Notes what a tenant has used, as committed. */
export const noteUsed = (tenantId: string, now: Date, used: number): void => {
  seen.delete(tenantId);
  if (seen.size >= SEEN_MAX) seen.delete(seen.keys().next().value!);
  seen.set(tenantId, { month: monthOf(now), used });
};

type Counter = { slot: number; events: number; granted: number; cap: number | null };
type CounterRow = { slot: number; events: string | number; granted: string | number; cap: string | null };

const countersOf = async (
  { db, serverNow }: Work,
  tenantId: string,
  isLocking: boolean,
): Promise<Counter[]> => {
  const lock = sql.raw(isLocking ? "for update" : "");
  // Rows of players have no events, and claims may hold them for long.
  const { rows } = await sql<CounterRow>`
    select slot, events, granted, cap from usage_counters
    where tenant_id = ${tenantId}::uuid and month = ${monthOf(serverNow)}::int and slot >= ${MAIN_SLOT}
    order by slot ${lock}`.execute(db);
  return rows.map(({ slot, events, granted, cap }) => ({
    slot,
    events: Number(events),
    granted: Number(granted),
    cap: cap === null ? null : Number(cap),
  }));
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
