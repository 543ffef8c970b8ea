import { setTimeout as delay } from "node:timers/promises";
import { sql } from "kysely";
import {
  type Backlog,
  BACKLOG_LEAST,
  type Backlogs,
  type RelaySchedule,
  type RoundPlan,
  SHARE_BYTES,
} from "./relay-schedule.ts";
import { fromRankScore } from "../../evaluation/boards/lists.ts";
import type { RankStore, Standing } from "../../evaluation/boards/ranks.ts";
import { DomainError } from "../../kernel/errors.ts";
import { type MessageFor, noticeTopic, periodTopic, type Topics } from "../../kernel/topics.ts";
import type { Events, EventType, PlayerNotice } from "../../kernel/events/domain-events.ts";
import type { EntryChange, Json } from "../../kernel/events/events.ts";
import { NIL_ID } from "../../kernel/ids.ts";
import { type Line, lineData, linesOf } from "../../kernel/outbox.ts";
import { kept } from "../../kernel/statements.ts";
import type { Transact, Work } from "../../kernel/work.ts";
import {
  type ChangedList,
  type NoticeList,
  type NotifiedPlayer,
  readNoticeLists,
  type SeenRanks,
  seeRanks,
} from "../../leaderboards/notices/notice-lists.ts";
import { deferNotices, sendNotices, type SentNotices } from "../../leaderboards/notices/send.ts";

/** Limits of a round: commits per partition, projects, and minimum commits per project. */
const RELAY_COMMITS = 50;
const RELAY_PROJECTS = 10;
const COMMITS_EACH = RELAY_COMMITS / RELAY_PROJECTS;

/** A queue row, which announces the outbox rows of a commit to the relay. */
type QueueRow = { project_id: string; part: number; seq: number; outbox_ids: string[] };
/** The part of a commit taken by a round: its first rows, out of `waiting` ones. */
export type TakenCommit = QueueRow & { waiting: number };
/** A line, or another row. */
export type OutboxRow = {
  id: string;
  /** The row that holds it, by which it is queued: `id` unless that holds several lines. */
  row_id: string;
  project_id: string;
  type: EventType;
  player_id: string | null;
  player_seq: number | null;
  /** Parsed when it is first read: of most lines nobody listens, and no webhook is told. */
  readonly data: Json;
  created_at: Date;
  /** Size of `data` as text; of a line that shares a row, its part of the row's. */
  bytes: number;
};

/** The part of the queue in a round, and the partitions in which more may wait. */
type Taken = { queued: TakenCommit[]; rows: OutboxRow[]; again: number[] };

type Taking = {
  plan: RoundPlan;
  schedule: RelaySchedule;
  /** Those that are left out; absent: none. */
  backlogs?: Backlogs | undefined;
  /** Receives the projects of the round as soon as they are known. */
  seen(projects: Set<string>): void;
  /** Receives each backlog that the round has added to `backlogs`. */
  found(backlog: Backlog): void;
};

/**
 * Takes the next rows of some partitions: from each the oldest commits of a few projects, which alternate by
 * bytes, so that no project's rows block those of others. The order within each project and partition is
 * kept. A project with more than a shared round takes of it becomes a backlog.
 */
export const takeRows = async (work: Work, parts: readonly number[], of: Taking): Promise<Taken> => {
  const { plan, schedule, backlogs, seen } = of;
  const queue = await readQueue(work, parts, of);
  seen(new Set(queue.map(({ project_id }) => project_id)));
  const lanes = [...Map.groupBy(queue, ({ part, project_id }) => `${part}:${project_id}`).values()];
  const laneBytes = backlogs && plan.only === undefined ? SHARE_BYTES : plan.bytes;
  const taken = await readRows(work, requestRows(lanes, plan.rows), { bytes: plan.bytes, laneBytes });
  if (plan.only !== undefined || schedule.hasReady) return { ...taken, again: [...parts] };
  return { ...taken, again: partsAgain(parts, of, { lanes, ...taken }) };
};

/**
 * Returns the partitions in which more may wait for a shared round; also sets where the next round of each
 * begins, and adds backlogs.
 */
const partsAgain = (
  parts: readonly number[],
  { schedule, backlogs, found }: Taking,
  { lanes, queued }: { lanes: readonly QueueRow[][]; queued: readonly TakenCommit[] },
): number[] => {
  const whole = new Set(
    queued.filter(({ outbox_ids: of, waiting }) => of.length === waiting).map(({ seq }) => seq),
  );
  const isWhole = (lane: readonly QueueRow[]): boolean => lane.every(({ seq }) => whole.has(seq));
  return parts.filter((part) => {
    const here = lanes.filter(([first]) => first!.part === part);
    const isFull = here.length >= RELAY_PROJECTS;
    const hadBefore = schedule.placeOf(part) !== NIL_ID;
    schedule.goOnBehind(part, isFull ? here.at(-1)![0]!.project_id : undefined);
    // Maximum number of commits per project.
    const each = Math.max(COMMITS_EACH, Math.floor(RELAY_COMMITS / Math.max(1, here.length)));
    const longer = here.filter((lane) => lane.length >= each || !isWhole(lane));
    const shared = longer.filter((lane) => {
      const backlog = { part, projectId: lane[0]!.project_id };
      const isBacklog = lane.length >= BACKLOG_LEAST || !isWhole(lane);
      if (!isBacklog || !backlogs?.add(backlog)) return true;
      found(backlog);
      return false;
    });
    return isFull || hadBefore || shared.length > 0;
  });
};

/** Reads the oldest commits of each partition and project, in that order. */
const readQueue = async (
  { db }: Work,
  parts: readonly number[],
  { plan: { only, without }, schedule, backlogs }: Taking,
): Promise<QueueRow[]> => {
  const wanted = new Set(parts);
  const apart = (backlogs?.all ?? []).filter(({ part }) => wanted.has(part));
  const leftOut = sql`json_to_recordset(${JSON.stringify(apart)}::json)
    as b(part smallint, "projectId" uuid)`;
  const asked = JSON.stringify(parts.map((part) => ({ p: part, a: schedule.placeOf(part) })));
  const from = sql`json_to_recordset(${asked}::json) as x(p smallint, a uuid)`;
  // One index step per project.
  const next = (part: string, after: string) => sql`(select q.project_id from outbox_q q
    where q.part = ${sql.raw(part)} and q.project_id > ${sql.raw(after)} order by q.project_id limit 1)`;
  const lanes =
    only === undefined
      ? sql`recursive w(part, project_id, n) as (
          select x.p, ${next("x.p", "x.a")}, 1 from ${from}
          union all
          select w.part, ${next("w.part", "w.project_id")}, w.n + 1 from w
          where w.project_id is not null and w.n < ${RELAY_PROJECTS + without.length + apart.length}),
        lane as (
          select part, project_id, row_number() over (partition by part order by n) as place from w
          where project_id is not null and project_id <> all(${`{${without.join(",")}}`}::uuid[])
            and (part, project_id) not in (select b.part, b."projectId" from ${leftOut}))`
      : sql`lane as (select x.p as part, ${only}::uuid as project_id, 1 as place from ${from}
          where (x.p, ${only}::uuid) not in (select b.part, b."projectId" from ${leftOut}))`;
  const found = await kept(
    db,
    sql<QueueRow>`
    with ${lanes},
    picked as (
      select *, greatest(${COMMITS_EACH}::int,
        ${RELAY_COMMITS}::int / count(*) over (partition by part)) as each
      from lane where place <= ${RELAY_PROJECTS})
    select q.* from picked cross join lateral (
      select project_id, part, seq, outbox_ids from outbox_q
      where part = picked.part and project_id = picked.project_id order by seq limit picked.each) q
    order by q.part, q.project_id, q.seq`,
  );
  return found.rows;
};

/** Reads the oldest commits of a backlog. */
export const readCommits = async (
  { db }: Work,
  { part, projectId }: Backlog,
  limit: number,
): Promise<QueueRow[]> => {
  const found = await kept(
    db,
    sql<QueueRow>`
    select project_id, part, seq, outbox_ids from outbox_q
    where part = ${part}::smallint and project_id = ${projectId}::uuid order by seq limit ${limit}::int`,
  );
  return found.rows;
};

/** A row of a round before it is read: `lane` is an index into the lanes. */
type RequestedRow = { lane: number; commit: QueueRow; id: string };

/** Number of rows of some commits: each may hold several lines. */
export const countRows = (queued: readonly QueueRow[]): number =>
  queued.reduce((sum, { outbox_ids: ids }) => sum + ids.length, 0);

/** Divides `rowsMax` among lanes: each has as many as the others, or all that it needs. */
const sharesOf = (lanes: readonly QueueRow[][], rowsMax: number): Map<QueueRow[], number> => {
  let left = rowsMax;
  const bySize = lanes
    .map((lane) => ({ lane, size: countRows(lane) }))
    .toSorted((one, other) => one.size - other.size);
  return new Map(
    bySize.map(({ lane, size }, nth) => {
      const share = Math.min(size, left, Math.max(1, Math.floor(left / (bySize.length - nth))));
      left -= share;
      return [lane, share];
    }),
  );
};

/**
 * Selects up to `rowsMax` rows: those of the first commit of each lane, of the second of each, and so on. The
 * last commit of a lane may be taken in part.
 */
export const requestRows = (lanes: readonly QueueRow[][], rowsMax: number): RequestedRow[] => {
  const shares = sharesOf(lanes, rowsMax);
  const requested: RequestedRow[] = [];
  const turns = Math.max(0, ...lanes.map(({ length }) => length));
  for (let turn = 0; turn < turns; turn++) {
    for (const [lane, commits] of lanes.entries()) {
      const commit = commits[turn];
      if (!commit) continue;
      const left = shares.get(commits)!;
      const ids = commit.outbox_ids.slice(0, left);
      shares.set(commits, left - ids.length);
      for (const id of ids) requested.push({ lane, commit, id });
    }
  }
  return requested;
};

/** Returns the commits of rows that were taken. */
export const takenOf = (taken: readonly RequestedRow[]): TakenCommit[] => {
  const commits = new Map<QueueRow, TakenCommit>();
  for (const { commit, id } of taken) {
    const known = commits.get(commit);
    if (known) known.outbox_ids.push(id);
    else commits.set(commit, { ...commit, outbox_ids: [id], waiting: commit.outbox_ids.length });
  }
  return [...commits.values()];
};

/** A row as it is read, with its data as JSON. */
type SentRow = Omit<OutboxRow, "data" | "row_id"> & { text: string; lines: number | null };
/** A row found by its index, with a null id where it no longer exists. */
type FoundRow = { place: number } & (SentRow | { id: null });

/** A line of a row that was read. A class since rounds make thousands, and objects with getters cost ten times as much. */
class ReadLine implements OutboxRow {
  readonly id: string;
  readonly row_id: string;
  readonly project_id: string;
  readonly type: EventType;
  readonly player_id: string | null;
  readonly player_seq: number | null;
  readonly created_at: Date;
  readonly bytes: number;
  readonly #line: Line;
  readonly #parsed: () => Json;

  constructor(row: SentRow, line: Line, parsed: () => Json) {
    this.id = line.id;
    this.row_id = row.id;
    this.project_id = row.project_id;
    this.type = row.type;
    this.player_id = row.player_id;
    this.player_seq = line.seq;
    this.created_at = row.created_at;
    this.bytes = row.bytes / (row.lines ?? 1);
    this.#line = line;
    this.#parsed = parsed;
  }

  get data(): Json {
    return lineData(this.#parsed(), this.#line);
  }
}

const outboxRowsOf = (row: SentRow): OutboxRow[] => {
  let data: Json | undefined;
  const parsed = (): Json => (data ??= JSON.parse(row.text) as Json);
  return linesOf({ id: row.id, seq: row.player_seq, lines: row.lines }).map(
    (line) => new ReadLine(row, line, parsed),
  );
};

/**
 * Reads rows up to a number of bytes of all lanes, and of each: the lane with the fewest bytes so far comes
 * first, and each lane gets at least one row. Rows that are not taken are not read.
 */
export const readRows = async (
  { db }: Work,
  asked: readonly RequestedRow[],
  { bytes, laneBytes }: { bytes: number; laneBytes: number },
): Promise<{ queued: TakenCommit[]; rows: OutboxRow[] }> => {
  if (asked.length === 0) return { queued: [], rows: [] };
  const places = asked.map(({ lane, commit, id }, n) => ({ n, l: lane, p: commit.project_id, i: id }));
  const found = await kept(
    db,
    sql<FoundRow>`
    with r as (
      select r.n as place, r.l as lane, o.*, coalesce(o.bytes, octet_length(o.data::text), 0) as size
      from json_to_recordset(${JSON.stringify(places)}::json) as r(n int, l int, p uuid, i uuid)
      left join outbox o on o.project_id = r.p and o.id = r.i),
    lanes as (
      select r.*, sum(size) over by_lane as lane_size, row_number() over by_lane as nth from r
      window by_lane as (partition by lane order by place)),
    summed as (select lanes.*, sum(size) over (order by lane_size, place) as total from lanes)
    select place, id, project_id, type, player_id, player_seq, lines, data::text as text, created_at,
      size as bytes
    from summed
    where (total <= ${bytes} and lane_size <= ${laneBytes}) or nth = 1 order by place`,
  );
  const rows = found.rows.flatMap((row) => (row.id === null ? [] : outboxRowsOf(row)));
  return { queued: takenOf(found.rows.map(({ place }) => asked[place]!)), rows };
};

/** The last change of each entry of a list, and the outbox rows that they and earlier ones came from. */
type ChangedEntries = {
  projectId: string;
  periodId: string;
  entries: Map<string, EntryChange>;
  rowIds: string[];
};

/** Whether a row is a change of boards. */
export const isOfRanks = ({ type }: Pick<OutboxRow, "type">): boolean =>
  type === "leaderboard.entries_changed";

/** The entries that rows of one round have changed: of each only the newest version, whatever came before. */
export class EntriesOfRound {
  readonly #periods = new Map<string, ChangedEntries>();
  #size = 0;

  /** Number of entries. */
  get size(): number {
    return this.#size;
  }

  /** The lists with changes. */
  get lists(): ChangedList[] {
    return [...this.#periods.values()].map(({ projectId, periodId, entries }) => ({
      projectId,
      periodId,
      playerIds: new Set(entries.keys()),
    }));
  }

  /** Ids of the rows that changed entries. */
  get rowIds(): ReadonlySet<string> {
    return new Set([...this.#periods.values()].flatMap(({ rowIds }) => rowIds));
  }

  /** Adds rows of any type, and ignores those that are no changes of boards. */
  add(rows: readonly OutboxRow[]): void {
    for (const row of rows.filter(isOfRanks)) {
      const { periodId, entries } = row.data as Events["leaderboard.entries_changed"];
      const period = this.#periods.get(periodId) ?? {
        projectId: row.project_id,
        periodId,
        entries: new Map<string, EntryChange>(),
        rowIds: [],
      };
      this.#periods.set(periodId, period);
      period.rowIds.push(row.id);
      const before = period.entries.size;
      for (const entry of entries) {
        const other = period.entries.get(entry[0]);
        if (!other || other[3] < entry[3]) period.entries.set(entry[0], entry);
      }
      this.#size += period.entries.size - before;
    }
  }

  /** Applies the entries to the rank index, and tells the boards' rooms where ranks have changed. */
  async apply({ ranks, topics }: { ranks: RankStore; topics: Topics }): Promise<void> {
    const applying = [...this.#periods.values()].map(async ({ projectId, periodId, entries }) => {
      const moved = await ranks.apply(projectId, periodId, [...entries.values()]);
      // A repetition moves nothing: if the first attempt died before this, rooms notice with their next read.
      if (moved) topics.publish(periodTopic(projectId, periodId), moved);
    });
    await Promise.all(applying);
  }
}

/** How long a relay waits for ranks, in ms: building a large index takes longer. */
const RANKS_PATIENCE_MS = 500;
/** As above, for a backlog: nobody else waits for its round. */
const BACKLOG_PATIENCE_MS = 5_000;
/**
 * Attempts to read ranks when another relay sends notices of the same lists; then they are left to the sweep.
 */
const TRIES = 3;

type Parts = { transact: Transact; ranks: RankStore; topics: Topics };

/** Data read with the rows of a round: players whose entries changed, and lists with notices. */
export type Changed = { changed: readonly ChangedList[]; lists: readonly NoticeList[] };
type Notifying = Changed & { isBacklog: boolean };

/** Returns the ranks of all lists; undefined when they cannot be read now. */
const seeInTime = async (
  ranks: RankStore,
  { changed, lists, isBacklog }: Notifying,
): Promise<SeenRanks[] | undefined> => {
  const players = new Map(changed.map(({ periodId, playerIds }) => [periodId, playerIds]));
  const seen = Promise.all(lists.map((list) => seeRanks(ranks, list, players.get(list.ref.periodId)!)));
  const patience = new AbortController();
  const patienceMs = isBacklog ? BACKLOG_PATIENCE_MS : RANKS_PATIENCE_MS;
  const late = delay(patienceMs, undefined, { signal: patience.signal }).catch(() => undefined);
  try {
    return await Promise.race([seen, late]);
  } catch (error) {
    if (error instanceof DomainError) return undefined;
    throw error;
  } finally {
    patience.abort();
    // A late failure is ignored.
    seen.catch(() => undefined);
  }
};

/**
 * Sends notices of a round's rank changes, in one transaction with `finish`, which removes the round's rows:
 * a crash before it repeats both, and a crash after it neither. If ranks cannot be read, the sweep sends
 * them.
 */
export const notifyChanged = async (
  { transact, ranks, topics }: Parts,
  round: Notifying,
  finish: (work: Work) => Promise<void>,
): Promise<void> => {
  if (round.lists.length === 0) return transact(finish);
  const open = new Set(round.lists.map(({ ref }) => ref.periodId));
  const changed = round.changed.filter(({ periodId }) => open.has(periodId));
  let lists = round.lists;
  for (let tried = 1; tried <= TRIES; tried++) {
    const seen = tried < TRIES ? await seeInTime(ranks, { ...round, changed, lists }) : undefined;
    const sent = await transact(async (work) => {
      const done = seen ? await sendNotices(work, seen) : "LATER";
      if (done === "LATER") await deferNotices(work, lists, changed);
      if (done) await finish(work);
      return done;
    });
    if (sent && sent !== "LATER") await publishPlaces(topics, seen!, sent);
    if (sent) return;
    lists = await transact((work) => readNoticeLists(work, changed));
  }
};

type PlaceNotice = Extract<PlayerNotice, { name: "leaderboard.me" }>;

/** Publishes players' current places on their own streams. Losing such a message is harmless. */
const publishPlaces = async (
  topics: Topics,
  seen: readonly SeenRanks[],
  { known, decisions }: SentNotices,
): Promise<void> => {
  const sentOf = new Map(
    decisions.map(({ list, changes }) => [list.ref.periodId, changes.map(({ playerId }) => playerId)]),
  );
  const notices = seen.flatMap((one) => {
    const { projectId, periodId } = one.list.ref;
    const playerIds = new Set([...one.changed, ...(sentOf.get(periodId) ?? [])]);
    return [...playerIds].flatMap((playerId): MessageFor[] => {
      const standing = one.standings.get(playerId);
      const before = known.get(periodId)?.get(playerId);
      return standing ? [[noticeTopic(projectId, playerId), () => placeOf(one, standing, before)]] : [];
    });
  });
  await topics.publishIfSubscribed(notices);
};

const placeOf = (
  { list, participants }: SeenRanks,
  { rank, rankScore }: Standing,
  before: NotifiedPlayer | undefined,
): PlaceNotice => ({
  name: "leaderboard.me",
  data: {
    leaderboardKey: list.leaderboardKey,
    periodKey: list.periodKey,
    board: list.board,
    rank,
    previousRank: before?.rank ?? null,
    score: fromRankScore(list.scoring, rankScore),
    participants,
  },
});
