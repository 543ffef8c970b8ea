import { sql } from "kysely";
import type { Board, List } from "../evaluation/boards/board.ts";
import { compileScore, type ScoreOf } from "../evaluation/boards/holdings.ts";
import {
  BREAKDOWN_VALUES_MAX,
  findList,
  isEnough,
  nextEntry,
  toRankScore,
  toUs,
} from "../evaluation/boards/lists.ts";
import type { Metric } from "../evaluation/boards/period.ts";
import type { EntryState } from "../evaluation/player-state.ts";
import { pastEvent } from "../evaluation/rule-event.ts";
import { isInAudience } from "../evaluation/segments/audience.ts";
import { conflict } from "../kernel/errors.ts";
import type { Json } from "../kernel/events/events.ts";
import { NIL_ID } from "../kernel/ids.ts";
import { Pace } from "../kernel/slices.ts";
import type { Work } from "../kernel/work.ts";
import { makePeriods } from "./periods/open.ts";

/** Maximum number of events that a backfill counts; it blocks the project's processing while it runs. */
export const BACKFILL_EVENTS_MAX = 200_000;
/** How long that may take, in ms: the project's definitions are locked meanwhile. */
const BACKFILL_MS = 15_000;
const BACKFILL_PAGE = 2_000;
const WRITE_PAGE = 500;

/** Deletes all entries of an all-time board, and its periods. */
export const deleteEntries = async (
  { db }: Work,
  { projectId, id, periodId }: { projectId: string; id: string; periodId: string },
): Promise<void> => {
  await sql`
    with p as (
      delete from leaderboard_periods
      where project_id = ${projectId} and leaderboard_id = ${id} and status = 'OPEN' returning id)
    delete from leaderboard_entries
    where project_id = ${projectId} and period_id in (
      select id from p union all select ${periodId}::uuid)`.execute(db);
};

/**
 * Counts events that were processed before, with the same function as live ones and in order of arrival. Must
 * be called under the project's config lock: then a queued event (not counted here) is evaluated later with
 * this board, and no event falls in between.
 * @throws DomainError CONFLICT (BACKFILL_TOO_LARGE) beyond BACKFILL_EVENTS_MAX events of the board's types
 */
export const fillFromEvents = async (work: Work, projectId: string, board: Board): Promise<void> => {
  if (board.metric.source !== "EVENT") return;
  const scoreOf = compileScore(board.metric);
  const pace = new Pace(BACKFILL_MS);
  const filling: Filling = { board, lists: new Map(), values: new Map(), scoreOf };
  let count = 0;
  for await (const events of processedEvents(work, projectId, board.metric)) {
    count += events.length;
    if (count > BACKFILL_EVENTS_MAX) {
      throw conflict(
        "BACKFILL_TOO_LARGE",
        `backfill counts at most ${BACKFILL_EVENTS_MAX} events; create without it`,
      );
    }
    for (const event of events) {
      addEvent(filling, event);
      checkTime(pace);
      await pace.pause();
    }
  }
  const filled = [...filling.lists.values()];
  await makePeriods(
    work,
    projectId,
    filled.map(({ list }) => list),
  );
  for (const { list, entries } of filled)
    await writeEntries(work, { projectId, periodId: list.id, entries: [...entries] });
};

type ProcessedEvent = {
  id: string;
  playerId: string;
  type: string;
  at: number;
  properties: Json;
  attributes: Json;
  segments: readonly string[] | null;
};

/** Entries by player. */
type Filled = { list: List; entries: Map<string, EntryState> };

/** Entries by list and player. */
type Filling = {
  board: Board;
  lists: Map<string, Filled>;
  /** Number of lists by the key of their window. */
  values: Map<string, number>;
  scoreOf: ScoreOf;
};

const checkTime = (pace: Pace): void => {
  if (!pace.isOver) return;
  throw conflict("BACKFILL_TOO_LARGE", "the filter takes too long for so many events; create without it");
};

/**
 * Returns the list of an event that scores, with what was filled of it. A new value counts as long as its
 * window has room for it, as it does when scores come one by one.
 */
const listFor = ({ board, lists, values }: Filling, event: ProcessedEvent): Filled | undefined => {
  const list = findList(board, event, event);
  if (typeof list === "string") return undefined;
  const filled = lists.get(list.id);
  if (filled) return filled;
  const { key } = list.window;
  const hasRoom = (values.get(key) ?? 0) < BREAKDOWN_VALUES_MAX;
  return hasRoom ? { list, entries: new Map<string, EntryState>() } : undefined;
};

/** A window that is over when its board is created accepts events as if they came late. */
const addEvent = (filling: Filling, event: ProcessedEvent): void => {
  const { board, scoreOf } = filling;
  const score = scoreOf(pastEvent(event));
  const filled = score === undefined ? undefined : listFor(filling, event);
  if (score === undefined || !filled) return;
  const old = filled.entries.get(event.playerId);
  const operation = { operator: board.operator, rankScore: toRankScore(board, score), atUs: toUs(event.at) };
  const entry = nextEntry(board, old, operation);
  if (!entry || (!old && !mayEnter(board, event, entry))) return;
  filled.entries.set(event.playerId, entry);
  keepList(filling, filled);
};

const keepList = ({ lists, values }: Filling, filled: Filled): void => {
  const { id, window } = filled.list;
  if (lists.has(id)) return;
  lists.set(id, filled);
  values.set(window.key, (values.get(window.key) ?? 0) + 1);
};

/** Uses the current audience: past membership is not stored. */
const mayEnter = (board: Board, { segments }: ProcessedEvent, { rankScore }: EntryState): boolean =>
  isEnough(board, rankScore) && isInAudience(board.audience, new Set(segments));

type EventRow = Omit<ProcessedEvent, "at"> & { at: Date };

/**
 * Yields processed events of the metric's types in pages, by id: without pending, failed or rejected ones.
 */
async function* processedEvents(
  { db }: Work,
  projectId: string,
  { event }: Extract<Metric, { source: "EVENT" }>,
): AsyncGenerator<ProcessedEvent[]> {
  const isPrefix = (pattern: string): boolean => pattern.endsWith("*");
  const exact = event.eventTypes.filter((pattern) => !isPrefix(pattern));
  const prefixes = event.eventTypes.filter(isPrefix).map((pattern) => pattern.slice(0, -1));
  for (let after: string | undefined = NIL_ID; after !== undefined;) {
    const result: { rows: EventRow[] } = await sql<EventRow>`
      select e.id, coalesce(p.merged_into, p.id) as "playerId", e.event_type as type, e.properties,
        least(e.occurred_at, e.received_at) as at, t.attributes, (
          select json_agg(s.segment_key) from player_segments s
          where s.project_id = t.project_id and s.player_id = t.id) as segments
      from tracked_events e
      join players p on p.project_id = e.project_id and p.external_user_id = e.external_user_id
      join players t on t.project_id = p.project_id and t.id = coalesce(p.merged_into, p.id)
      where e.project_id = ${projectId} and e.id > ${after}::uuid
        and (e.event_type in (select json_array_elements_text(${JSON.stringify(exact)}::json))
          or exists (select 1 from json_array_elements_text(${JSON.stringify(prefixes)}::json) as x(prefix)
            where starts_with(e.event_type, x.prefix)))
        and not exists (select 1 from event_q q where q.project_id = e.project_id and q.event_id = e.id)
        and not exists (select 1 from event_due d where d.project_id = e.project_id and d.event_id = e.id)
        and not exists (select 1 from event_results r where r.project_id = e.project_id and r.event_id = e.id)
      order by e.id limit ${BACKFILL_PAGE}`.execute(db);
    after = result.rows.length < BACKFILL_PAGE ? undefined : result.rows.at(-1)!.id;
    yield result.rows.map(({ at, ...row }) => ({ ...row, at: at.getTime() }));
  }
}

type Entries = { projectId: string; periodId: string; entries: [playerId: string, entry: EntryState][] };

const writeEntries = async ({ db, now }: Work, { projectId, periodId, entries }: Entries): Promise<void> => {
  for (let start = 0; start < entries.length; start += WRITE_PAGE) {
    const rows = entries
      .slice(start, start + WRITE_PAGE)
      .map(([playerId, entry]) => ({ playerId, ...entry }));
    await sql`
      insert into leaderboard_entries
        (project_id, period_id, player_id, rank_score, rank_tie, latest_us, version, updated_at)
      select ${projectId}::uuid, ${periodId}::uuid, r."playerId", r."rankScore", r."rankTie", r."latestUs",
        r.version, ${now.toISOString()}::timestamptz
      from json_to_recordset(${JSON.stringify(rows)}::json) as r(
        "playerId" uuid, "rankScore" bigint, "rankTie" bigint, "latestUs" bigint, version int)`.execute(db);
  }
};
