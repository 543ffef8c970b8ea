import { sql } from "kysely";
import { z } from "zod";
import { noEffects, type Effects } from "../../evaluation/effects.ts";
import { evaluateEvent, openTurn } from "../../evaluation/evaluate.ts";
import { EventCost } from "../../evaluation/event-cost.ts";
import type { PlayerState } from "../../evaluation/player-state.ts";
import type { ProjectPlan } from "../../evaluation/project-plan.ts";
import { add, assetName } from "../../evaluation/running/stats.ts";
import { createSharedCounters, type SharedCounters } from "../../evaluation/shared-counters.ts";
import { createTrace, type EventTrace, failingLeaf, truncateTrace } from "../../evaluation/trace/trace.ts";
import { invalid } from "../../kernel/errors.ts";
import type { Json } from "../../kernel/events/events.ts";
import { NIL_ID } from "../../kernel/ids.ts";
import type { Work } from "../../kernel/work.ts";

export const DAY_MS = 86_400_000;

/** @throws DomainError VALIDATION_ERROR for a span in which nothing lies, or of more than `daysMax` days */
export const checkSpan = (fromMs: number, toMs: number, daysMax: number): void => {
  if (fromMs >= toMs) throw invalid("from", "must be before `to`");
  if (toMs - fromMs > daysMax * DAY_MS) throw invalid("from", `may be at most ${daysMax} days before \`to\``);
};

/** A processed tracked event of a player; `at` is the time used by evaluation, no later than its arrival. */
export type HistoryEvent = { id: string; type: string; at: number; properties: Json };

/** Maximum number of events per statement. */
export const HISTORY_PAGE = 2_000;

export type HistorySpan = {
  /** By the event's time: from inclusive, to exclusive. */
  fromMs?: number;
  toMs?: number;
};

type Row = { o: number; id: string; event_type: string; properties: Json; at: Date };

const bound = (ms: number | undefined, otherwise: number): string => {
  if (ms !== undefined) return new Date(ms).toISOString();
  return otherwise < 0 ? "-infinity" : "infinity";
};

/** The limit makes the planner use one look-up per event. */
const rowOf = (table: "event_q" | "event_due" | "event_results") =>
  sql`select 1 from ${sql.ref(table)} x where x.project_id = e.project_id and x.event_id = e.id limit 1`;

const IS_PROCESSED = sql`e.event_type not like 'system.%'
  and (${rowOf("event_q")}) is null and (${rowOf("event_due")}) is null
  and (${rowOf("event_results")}) is null`;

/** Identifies a set of events: their number, and the combination of their ids. */
export type HistoryDigest = { count: number; xor: number };

export const NO_EVENTS: HistoryDigest = { count: 0, xor: 0 };

const HASHED_DIGITS = 8;

/** Returns the digest extended by further events. */
export const withEvents = (
  { count, xor }: HistoryDigest,
  events: readonly Pick<HistoryEvent, "id">[],
): HistoryDigest => ({
  count: count + events.length,
  xor: events.reduce((sum, { id }) => sum ^ Number.parseInt(id.slice(-HASHED_DIGITS), 16), xor),
});

/**
 * Returns the digest of a player's processed events up to `upTo`, as `playerHistory` would return them now.
 */
export const readDigest = async (
  { db }: Work,
  { projectId, playerId, upTo }: { projectId: string; playerId: string; upTo: string },
): Promise<HistoryDigest> => {
  const found = await sql<{ count: number; xor: number | null }>`
    select count(*) as count,
      bit_xor(('x' || right(e.id::text, ${sql.lit(HASHED_DIGITS)}))::bit(32)::int) as xor
    from players p
    join tracked_events e on e.project_id = p.project_id and e.external_user_id = p.external_user_id
    where p.project_id = ${projectId} and (p.id = ${playerId} or p.merged_into = ${playerId})
      and e.id <= ${upTo}::uuid and ${IS_PROCESSED}`.execute(db);
  const { count, xor } = found.rows[0]!;
  return { count, xor: xor ?? 0 };
};

/** A player whose history is read, from behind an event on. */
export type HistoryOf = { playerId: string; afterId: string };

/**
 * Returns the processed events of players, in the order of `players` and for each in that of their arrival,
 * `limit` at most; those of players merged into one are the player's own. Waiting, failed, rejected and
 * reverted events are left out. Read by the index of players: in the order of ids alone the planner would
 * read every event of the project. No player's index is read before those of the players before are
 * exhausted.
 * @returns each event with the place of its player in `players`
 */
export const readHistories = async (
  { db }: Work,
  projectId: string,
  players: readonly HistoryOf[],
  { fromMs, toMs, limit }: HistorySpan & { limit: number },
): Promise<{ place: number; event: HistoryEvent }[]> => {
  const wanted = JSON.stringify(players.map(({ playerId, afterId }, o) => ({ o, i: playerId, a: afterId })));
  const { rows } = await sql<Row>`
    with w as materialized (select * from json_to_recordset(${wanted}::json) as w(o int, i uuid, a uuid)),
    names as materialized (
      select w.o, w.a, p.u from w cross join lateral (
        (select p.external_user_id as u from players p
        where p.project_id = ${projectId} and p.id = w.i limit 1)
        union all
        (select p.external_user_id from players p
        where p.project_id = ${projectId} and p.merged_into = w.i offset 0)) p)
    select n.o, e.* from (select * from names order by o) n cross join lateral (
      select e.id, e.event_type, e.properties, least(e.occurred_at, e.received_at) as at
      from tracked_events e
      where e.project_id = ${projectId} and e.external_user_id = n.u and e.id > n.a
        and e.occurred_at >= ${bound(fromMs, -Infinity)}::timestamptz
        and e.occurred_at < ${bound(toMs, Infinity)}::timestamptz
        and ${IS_PROCESSED}
      order by e.external_user_id, e.id limit ${limit}) e
    order by n.o, e.id limit ${limit}`.execute(db);
  return rows.map(({ o, id, event_type, properties, at }) => ({
    place: o,
    event: { id, type: event_type, at: at.getTime(), properties },
  }));
};

/** Yields a player's processed events in pages, as `readHistories` returns them. */
export async function* playerHistory(
  work: Work,
  { projectId, playerId }: { projectId: string; playerId: string },
  { afterId = NIL_ID, ...span }: HistorySpan & { afterId?: string } = {},
): AsyncGenerator<HistoryEvent[]> {
  for (let after: string | undefined = afterId; after !== undefined;) {
    const of = [{ playerId, afterId: after }];
    const found = await readHistories(work, projectId, of, { ...span, limit: HISTORY_PAGE });
    after = found.length < HISTORY_PAGE ? undefined : found.at(-1)!.event.id;
    yield found.map(({ event }) => event);
  }
}

/** Maximum number of traces shown of firings, and of events that did not fire. */
const SAMPLES_OF_EACH = 10;
/** Maximum characters of one sample as JSON. */
const SAMPLE_MAX_CHARACTERS = 8_192;
/** Maximum number of conditions named in the result. */
const TOP_CONDITIONS = 10;
const DAY_LENGTH = "2026-01-31".length;

const Count = z.number().default(0);
const Counts = z.record(z.string(), z.number()).default(() => ({}));

/** Progress of a replay, as a job stores it between its steps. */
export const ReplayState = z.object({
  events: Count,
  failed: Count,
  players: Count,
  playersReached: Count,
  playersCut: Count,
  evaluated: Count,
  fired: Count,
  /** Actions on other players or for later times, which are not followed. */
  sent: Count,
  reasons: Counts,
  leafFails: Counts,
  cost: Counts,
  days: z.record(z.string(), z.object({ evaluated: Count, fired: Count, cost: Counts })).default(() => ({})),
  shared: z
    .array(z.object({ s: z.string(), w: z.number(), u: z.number(), t: z.array(z.number()).nullable() }))
    .default(() => []),
  fires: z.array(z.unknown()).default(() => []),
  misses: z.array(z.unknown()).default(() => []),
});
export type ReplayState = z.output<typeof ReplayState>;

type ReplayedPlayer = {
  state: PlayerState;
  events(): number;
  note(hasFired: boolean): void;
  end(): void;
};

/** A replay of a plan with one rule. `state` is up to date between events, except for shared counters. */
export type Replay = {
  plan: ProjectPlan;
  state: ReplayState;
  shared: SharedCounters;
  player(player: PlayerState): ReplayedPlayer;
  /** Returns the complete state, to continue from. */
  end(): ReplayState;
};

const counterOf = ({ projectId }: ProjectPlan, { s: scope, w: windowNo }: ReplayState["shared"][number]) => ({
  projectId,
  scope,
  windowNo,
});

/** Continues a replay, or begins one. Limits over all players continue where they were. */
export const startOf = (plan: ProjectPlan, before: ReplayState | undefined): Replay => {
  const state = before ?? ReplayState.parse({});
  const shared = createSharedCounters("FROM_ZERO");
  for (const counter of state.shared) {
    if (counter.u > 0) shared.add(counterOf(plan, counter), counter.u);
    if (counter.t) shared.setTimes(counterOf(plan, counter), counter.t);
  }
  const end = (): ReplayState => ({
    ...state,
    shared: shared.changes().map(({ s, w, u, t }) => ({ s, w, u, t: t === null ? null : [...t] })),
  });
  return { plan, state, shared, player: (player) => replayedPlayer(state, player), end };
};

const replayedPlayer = (state: ReplayState, player: PlayerState): ReplayedPlayer => {
  // State that the replay is to produce must not exist before it begins.
  const { l: _limits, c: _counters, g: _capped, ...doc } = player.doc;
  const own: PlayerState = { ...player, doc, streaks: new Map() };
  const before = state.events;
  let isReached = false;
  return {
    state: own,
    events: () => state.events - before,
    note: (hasFired) => void (isReached ||= hasFired),
    end: () => {
      if (state.events === before) return;
      state.players++;
      if (isReached) state.playersReached++;
    },
  };
};

/** Whether evaluation must be traced: only for events that can trigger the rule. */
const isWatched = ({ rules }: ProjectPlan, type: string): boolean =>
  rules.listeners(type).length > 0 || rules.all.some(followsPlayer);

const followsPlayer = ({ definition }: ProjectPlan["rules"]["all"][number]): boolean =>
  definition.triggers.some(
    (trigger) => "eventTypes" in trigger && trigger.eventTypes.some((type) => type.startsWith("player.")),
  );

/** Evaluates one past event of a player, and adds up the rule's effects. @returns the steps that it took */
export const replay = (run: Replay, one: ReplayedPlayer, event: HistoryEvent): number => {
  const { plan, state, shared } = run;
  const effects = noEffects();
  const trace = isWatched(plan, event.type) ? createTrace(plan.rules, { eventId: event.id }) : undefined;
  const root = { id: event.id, type: event.type, at: event.at, properties: event.properties, depth: 0 };
  const parts = { plan, player: one.state, event: root, nowMs: event.at, effects, shared };
  state.events++;
  const cost = new EventCost();
  try {
    evaluateEvent(openTurn({ ...parts, trace, isTracked: true, cost }));
  } catch {
    // It failed when it was live, too, or would have; the others are sufficient.
    state.failed++;
    return cost.steps.spent;
  }
  if (trace) one.note(addUp(state, { trace: trace.result(), effects, at: event.at }));
  return cost.steps.spent;
};

type Evaluated = { trace: EventTrace; effects: Effects; at: number };

const dayOf = (state: ReplayState, at: number) => {
  const name = new Date(at).toISOString().slice(0, DAY_LENGTH);
  return (state.days[name] ??= { evaluated: 0, fired: 0, cost: {} });
};

/** @returns whether the rule fired */
const addUp = (state: ReplayState, { trace, effects, at }: Evaluated): boolean => {
  const rules = rulesIn(trace);
  if (rules.length === 0) return false;
  const day = dayOf(state, at);
  for (const { reason, fired, conditions } of rules) {
    add(state.reasons, reason, 1);
    state.evaluated++;
    day.evaluated++;
    const leaf = conditions && reason === "CONDITIONS_NOT_MET" ? failingLeaf(conditions) : undefined;
    if (leaf !== undefined) add(state.leafFails, leaf, 1);
    if (!fired) continue;
    state.fired++;
    day.fired++;
  }
  for (const { cause, asset, currencyKey, amount } of effects.ledger) {
    if (cause.kind !== "RULE") continue;
    add(state.cost, assetName(asset, currencyKey), amount);
    add(day.cost, assetName(asset, currencyKey), amount);
  }
  state.sent += effects.spawned.length;
  const hasFired = rules.some(({ fired }) => fired);
  keepSample(hasFired ? state.fires : state.misses, trace);
  return hasFired;
};

const rulesIn = ({ rules, derived }: EventTrace): EventTrace["rules"] => [
  ...rules,
  ...derived.flatMap(rulesIn),
];

const keepSample = (samples: unknown[], trace: EventTrace): void => {
  if (samples.length >= SAMPLES_OF_EACH) return;
  const short = truncateTrace(trace);
  if (JSON.stringify(short).length <= SAMPLE_MAX_CHARACTERS) samples.push(short);
};

const NOTES = [
  "Other rules did not run.",
  "Players began as they are now, but with counters, streaks and limits from nothing.",
  "Limits over all players and budgets were used up in the order of players, not of time.",
];

/** Returns the job's result. Days are in UTC. */
export const resultOf = ({ state }: Replay): Json => ({
  events: state.events,
  eventsFailed: state.failed,
  players: state.players,
  playersReached: state.playersReached,
  playersCut: state.playersCut,
  evaluated: state.evaluated,
  fired: state.fired,
  reasons: state.reasons,
  cost: state.cost,
  perDay: Object.entries(state.days)
    .toSorted(([a], [b]) => (a < b ? -1 : 1))
    .map(([day, counts]) => ({ day, ...counts })),
  topFailingConditions: Object.entries(state.leafFails)
    .toSorted(([, a], [, b]) => b - a)
    .slice(0, TOP_CONDITIONS)
    .map(([path, events]) => ({ path, events })),
  samples: [...state.fires, ...state.misses],
  notes: [
    ...NOTES,
    ...(state.sent > 0 ? [`${state.sent} actions for other players or for later were not followed.`] : []),
  ],
});
