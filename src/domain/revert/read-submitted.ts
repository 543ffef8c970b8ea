import { sql } from "kysely";
import type { Board } from "../evaluation/boards/board.ts";
import { nextEntry, RANK_MAX } from "../evaluation/boards/lists.ts";
import type { RecordedScore } from "../evaluation/effects.ts";
import type { AggregateState } from "../evaluation/metrics/aggregates.ts";
import type { EntryState, PlayerState } from "../evaluation/player-state.ts";
import type { ProjectPlan } from "../evaluation/project-plan.ts";
import { pastEvent } from "../evaluation/rule-event.ts";
import { stateOf } from "../evaluation/streaks/advance.ts";
import type { CompiledStreak } from "../evaluation/streaks/compile.ts";
import { periodAt, periodName } from "../evaluation/streaks/periods.ts";
import { conflict, type DomainError } from "../kernel/errors.ts";
import type { Json } from "../kernel/events/events.ts";
import { idFloor, NIL_ID } from "../kernel/ids.ts";
import { Pace, type Steps } from "../kernel/slices.ts";
import type { Work } from "../kernel/work.ts";
import type {
  CausedEvent,
  CausedFiring,
  OtherScores,
  RevertedEvent,
  StreakDay,
  StreakDays,
  SubmittedScores,
} from "./record.ts";
import { extensionsOf } from "./reverse-streaks.ts";
import { HISTORY_PAGE, type HistoryEvent, type HistoryOf, readHistories } from "../rules/insight/history.ts";

export const tooLarge = (why: string): DomainError =>
  conflict("EVENT_TOO_LARGE", `the event is too large to be reverted: ${why}`);

type EventRow = {
  id: string;
  root_id: string;
  event_type: string;
  external_user_id: string;
  properties: Json;
  occurred_at: Date;
  received_at: Date;
  rows_read: number;
};

const eventOf = (row: EventRow): RevertedEvent => {
  const receivedMs = row.received_at.getTime();
  return {
    id: row.id,
    rootId: row.root_id,
    type: row.event_type,
    at: Math.min(row.occurred_at.getTime(), receivedMs),
    receivedMs,
    properties: row.properties,
    externalUserId: row.external_user_id,
  };
};

/**
 * Maximum number of events that those reverted together may have sent directly and indirectly; more are too
 * much for one transaction.
 */
export const SENT_EVENTS_MAX = 1_000;

/**
 * Reads events and all events that they have sent to other players or later times, directly and indirectly,
 * in the order of their arrival. An event that another of them has sent has that one as its root.
 * @throws DomainError CONFLICT EVENT_TOO_LARGE
 */
export const readEvents = async (
  { db }: Work,
  projectId: string,
  eventIds: readonly string[],
): Promise<RevertedEvent[]> => {
  const most = SENT_EVENTS_MAX + eventIds.length - 1;
  // An event comes once for each of those that it descends from.
  const rowsMax = 2 * most;
  const found = await sql<EventRow>`
    with recursive sent(id, root, n) as (
      select u.id, u.id, 0 from unnest(${`{${eventIds.join(",")}}`}::uuid[]) as u(id)
      union
      select e.id, s.root, s.n + 1 from sent s cross join lateral (
        select e.id from tracked_events e
        where e.project_id = ${projectId} and e.properties->>'rootEventId' = s.id::text
          and e.event_type in ('system.grant', 'system.delayed_action') limit ${most + 1}) e
      where s.n < 10),
    read as materialized (select id, root from sent limit ${rowsMax + 1}),
    own as (select id, min(root::text)::uuid as root_id from read group by id)
    select e.id, own.root_id, e.event_type, e.external_user_id, e.properties, e.occurred_at, e.received_at,
      (select count(*) from read) as rows_read
    from own join tracked_events e on e.project_id = ${projectId} and e.id = own.id
    order by e.id`.execute(db);
  const [first] = found.rows;
  if (found.rows.length > most || (first?.rows_read ?? 0) > rowsMax)
    throw tooLarge(`it has reached more than ${SENT_EVENTS_MAX} others`);
  return found.rows.map(eventOf);
};

/** Maximum number of one player's events read to revert some of them. */
const EVENTS_READ_MAX = 50_000;
/** How long that may take for all players, in ms. */
const READ_MS = 10_000;

/** Is shown the events of one player; may look at each in pieces. */
export type HistoryVisitor = { visit(event: HistoryEvent): Steps<void> | void };

type Reading = HistoryVisitor & { playerId: string };

/** How much was read of one player. */
type Progress = { read: number; isOver: boolean };

/**
 * Shows the processed events of players in the order of their arrival, with those to be reverted. Statements
 * depend on the number of events, not of players.
 * @returns the players of whom that was all: others have too many
 * @throws DomainError CONFLICT EVENT_TOO_LARGE when several players have more than one may have, or it takes too long
 */
export const visitHistories = async (
  work: Work,
  projectId: string,
  readings: readonly Reading[],
): Promise<Set<string>> => {
  const progress = new Map<string, Progress>(
    readings.map(({ playerId }) => [playerId, { read: 0, isOver: false }]),
  );
  const pace = new Pace(READ_MS);
  const visitors = new Map(readings.map((reading) => [reading.playerId, reading]));
  let rest: HistoryOf[] = readings.map(({ playerId }) => ({ playerId, afterId: NIL_ID }));
  while (rest.length > 0) {
    const page = await readHistories(work, projectId, rest, { limit: HISTORY_PAGE });
    for (const { place, event } of page) {
      const { playerId } = rest[place]!;
      await show(visitors.get(playerId)!, event, { pace, of: progress.get(playerId)! });
    }
    checkTogether([...progress.values()]);
    const last = page.at(-1);
    if (!last || page.length < HISTORY_PAGE) break;
    const [{ playerId }, ...others] = rest.slice(last.place) as [HistoryOf, ...HistoryOf[]];
    rest = progress.get(playerId)!.isOver ? others : [{ playerId, afterId: last.event.id }, ...others];
  }
  return new Set([...progress].filter(([, { isOver }]) => !isOver).map(([playerId]) => playerId));
};

const show = async (
  visitor: HistoryVisitor,
  event: HistoryEvent,
  { pace, of }: { pace: Pace; of: Progress },
): Promise<void> => {
  of.read++;
  of.isOver ||= of.read > EVENTS_READ_MAX;
  if (of.isOver) return;
  const steps = visitor.visit(event);
  if (steps) await pace.run(steps);
  pace.check();
  await pace.pause();
};

const checkTogether = (all: readonly Progress[]): void => {
  if (all.length < 2) return;
  const read = all.reduce((sum, one) => sum + one.read, 0);
  if (read > EVENTS_READ_MAX) throw tooLarge("the players have too many other events");
};

/** When streaks were defined, in ms by id: earlier events did not count for them. */
export type StreakStarts = ReadonlyMap<string, number>;

/** Reads when the project's streaks were defined. */
export const readStreakStarts = async (
  { db }: Work,
  { projectId, streaks }: ProjectPlan,
): Promise<StreakStarts> => {
  if (streaks.size === 0) return new Map();
  const found = await sql<{ id: string; at: Date }>`
    select id, created_at as at from definitions
    where project_id = ${projectId} and kind = 'streak' and status = 'ACTIVE'`.execute(db);
  return new Map(found.rows.map(({ id, at }) => [id, at.getTime()]));
};

type StreakPlayer = {
  plan: Pick<ProjectPlan, "streaks" | "timezone">;
  player: PlayerState;
  /** The player's own events that are reverted together. */
  parts: readonly { event: RevertedEvent; own: { emitted: readonly CausedEvent[] } }[];
  starts: StreakStarts;
};

/** Gathers the progress of streaks' periods from a player's other events. */
type StreakGathering = HistoryVisitor & {
  /** To be called after the last event. By key of the streak and number of the period. */
  result(): Map<string, StreakDays>;
};

type Gathering = {
  streak: CompiledStreak;
  zone: string;
  floorId: string;
  days: Map<number, { states: (AggregateState | null)[]; isExtendedHere: boolean }>;
};

/**
 * Opens the computation of what other events have gathered in the periods that the events count for: of
 * streaks whose latest period is among them. A period that is complete counts no further events, so that its
 * stored progress does not say whether it is complete without some of them. Undefined where there is none.
 */
export const openStreakDays = (whose: StreakPlayer): StreakGathering | undefined => {
  const gatherings = [...whose.plan.streaks.values()].flatMap((streak) => gatheringOf(whose, streak) ?? []);
  if (gatherings.length === 0) return undefined;
  const reverted = new Set(whose.parts.map(({ event }) => event.id));
  return {
    visit: (other) => {
      if (reverted.has(other.id)) return;
      for (const gathering of gatherings) gather(gathering, other);
    },
    result: () =>
      new Map(
        gatherings.map(({ streak, days }) => [streak.definition.key, new Map<number, StreakDay>(days)]),
      ),
  };
};

/** Undefined where the streak loses nothing, or where it is not known what has counted. */
const gatheringOf = (
  { plan, player, parts, starts }: StreakPlayer,
  streak: CompiledStreak,
): Gathering | undefined => {
  const { definition, calendar, graceMs, id } = streak;
  const { run, zone, floor = -Infinity } = stateOf(streak, { player, project: plan }).doc;
  // In the time of grace, the period of an event depends on what had counted before it.
  if (definition.mode !== "PERIODIC" || graceMs > 0 || !run || zone === undefined) return undefined;
  const counted = parts.filter(({ event }) => streak.impactOf(event.type).parts.length > 0);
  const periods = counted.map(({ event }) => periodAt(calendar, zone, event.at));
  if (!periods.includes(run.last)) return undefined;
  const extended = new Set(
    parts
      .flatMap(({ own }) => extensionsOf(own.emitted))
      .filter(({ streakKey }) => streakKey === definition.key)
      .map(({ period }) => period),
  );
  const days: Gathering["days"] = new Map();
  for (const period of periods) {
    if (period <= floor) continue;
    const isExtendedHere = extended.has(periodName(definition.period, period));
    days.set(period, { states: streak.parts.map(() => null), isExtendedHere });
  }
  return { streak, zone, days, floorId: idFloor(starts.get(id) ?? 0) };
};

const gather = (
  { streak, zone, floorId, days }: Gathering,
  { id, type, at, properties }: HistoryEvent,
): void => {
  const { parts } = streak.impactOf(type);
  // Ids are in order of arrival.
  if (parts.length === 0 || id < floorId) return;
  const day = days.get(periodAt(streak.calendar, zone, at));
  if (!day) return;
  const context = pastEvent({ id, type, at, properties });
  for (const part of parts) day.states[part] = streak.parts[part]!.add(day.states[part] ?? null, context);
};

/** Maximum number of firings of one player read for the scores that they submitted. */
const FIRINGS_READ_MAX = 50_000;

/** A player with the firings of all events that are reverted together. */
type Scored = { player: PlayerState; firings: readonly CausedFiring[] };
type Query = { plan: ProjectPlan; players: readonly Scored[]; eventIds: readonly string[] };

/** What the entry of a list is without reverted events, by list; absent where that is not known. */
export type OthersOfLists = ReadonlyMap<string, OtherScores>;

/**
 * Reads what players' other scores give on the lists on which rules have submitted scores for events, by
 * player. That is known where rules alone have submitted scores, and their firings are still kept.
 * @throws DomainError CONFLICT EVENT_TOO_LARGE when several players have more than one may have, or it takes too long
 */
export const readSubmitted = async (
  work: Work,
  { plan, players, eventIds }: Query,
): Promise<Map<string, OthersOfLists>> => {
  const scored = players.filter(({ firings }) => firings.some(({ scores }) => (scores ?? []).length > 0));
  const all = await readRecorded(work, plan.projectId, { players: scored, eventIds });
  const found = new Map<string, OthersOfLists>();
  for (const { player, firings } of scored) {
    const lists = new Set(firings.flatMap(({ scores }) => scores ?? []).map(([listId]) => listId));
    const recorded = all?.get(player.id);
    const others = new Map<string, OtherScores>();
    for (const listId of lists) {
      const board = boardOf(plan, player, listId);
      const entry = player.entries.get(listId);
      const other =
        board && entry && recorded && foldOthers(board, { entry, recorded: recorded.get(listId) ?? [] });
      if (other !== undefined) others.set(listId, other);
    }
    found.set(player.id, others);
  }
  return found;
};

/** Returns the scores that rules have submitted for an event, by list. */
export const submittedBy = (
  plan: ProjectPlan,
  { player, firings }: Scored,
  others: OthersOfLists | undefined,
): SubmittedScores[] => {
  const own = Map.groupBy(
    firings.flatMap(({ scores }) => scores ?? []),
    ([listId]) => listId,
  );
  return [...own].map(([listId, scores]) => {
    const other = others?.get(listId);
    return {
      listId,
      board: boardOf(plan, player, listId),
      scores,
      ...(other === undefined ? {} : { other }),
    };
  });
};

const boardOf = (plan: ProjectPlan, player: PlayerState, listId: string): Board | undefined =>
  player.lists.get(listId)?.board ?? plan.boards.find(({ periodId }) => periodId === listId);

type Recorded = { score: RecordedScore; isReverted: boolean };

type RecordedRow = { playerId: string; scores: RecordedScore[]; isReverted: boolean };

/** @returns by player and list, in the order of submission; undefined when a single player has too many */
const readRecorded = async (
  { db }: Work,
  projectId: string,
  { players, eventIds }: Pick<Query, "players" | "eventIds">,
): Promise<Map<string, Map<string, Recorded[]>> | undefined> => {
  if (players.length === 0) return undefined;
  const ids = `{${players.map(({ player }) => player.id).join(",")}}`;
  const { rows } = await sql<RecordedRow>`
    select player_id as "playerId", effects->'scores' as scores,
      event_id = any(${`{${eventIds.join(",")}}`}::uuid[]) as "isReverted"
    from rule_executions
    where project_id = ${projectId} and player_id = any(${ids}::uuid[])
      and effects is not null and mode = 'LIVE' and reverted_at is null and effects ? 'scores'
    order by created_at, id limit ${sql.lit(FIRINGS_READ_MAX + 1)}`.execute(db);
  if (rows.length > FIRINGS_READ_MAX) {
    if (players.length > 1) throw tooLarge("the players have too many other scores");
    return undefined;
  }
  const byPlayer = Map.groupBy(rows, ({ playerId }) => playerId);
  return new Map([...byPlayer].map(([playerId, own]) => [playerId, byList(own)]));
};

const byList = (rows: readonly RecordedRow[]): Map<string, Recorded[]> =>
  Map.groupBy(
    rows.flatMap(({ scores, isReverted }) => scores.map((score) => ({ score, isReverted }))),
    ({ score: [listId] }) => listId,
  );

type Fold = { entry: EntryState; recorded: readonly Recorded[] };

/** Returns the entry of the other scores; undefined where the recorded ones are not all, or give another. */
const foldOthers = (board: Board, { entry, recorded }: Fold): OtherScores | undefined => {
  if (entry.recorded !== recorded.length) return undefined;
  const fold = (some: readonly Recorded[]): EntryState | undefined =>
    some.reduce<EntryState | undefined>((old, { score: [, rankScore, atUs] }) => {
      const { operator } = board;
      return nextEntry(board, old, { operator, rankScore, atUs }) ?? old;
    }, undefined);
  if (fold(recorded)?.rankScore !== entry.rankScore) return undefined;
  const other = fold(recorded.filter(({ isReverted }) => !isReverted));
  if (!other) return null;
  const { rankScore, rankTie, latestUs } = other;
  return { rankScore, rankTie, latestUs };
};

/** Returns a score of a board that adds up, without some of its parts. */
export const withoutParts = (
  { operator }: Board,
  rankScore: number,
  parts: readonly RecordedScore[],
): number => {
  const sum = parts.reduce((total, [, part]) => total + part, 0);
  const rest = operator === "DECR" ? rankScore + sum : rankScore - sum;
  return Math.max(-RANK_MAX, Math.min(RANK_MAX, rest)) + 0;
};
