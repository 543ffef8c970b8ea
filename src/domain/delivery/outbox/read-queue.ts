import { sql } from "kysely";
import { NIL_ID } from "../../kernel/ids.ts";
import type { EventType } from "../../kernel/events/domain-events.ts";
import type { Json } from "../../kernel/events/events.ts";
import type { Work } from "../../kernel/work.ts";
import { lineData, linesOf } from "../../kernel/outbox-row.ts";
import { kept } from "../../kernel/statements.ts";
import { type Backlog, BACKLOG_LEAST, type Backlogs, SHARE_BYTES } from "./backlogs.ts";
import type { RelaySchedule, RoundPlan } from "./relay-schedule.ts";

/** Limits of a round: commits per partition, projects, and minimum commits per project. */
const RELAY_COMMITS = 50;
const RELAY_PROJECTS = 10;
const COMMITS_EACH = RELAY_COMMITS / RELAY_PROJECTS;

/** A queue row, which announces the outbox rows of a commit to the relay. */
export type QueueRow = { project_id: string; part: number; seq: string | number; outbox_ids: string[] };
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
  player_seq: string | number | null;
  /** Parsed when it is first read: of most lines nobody listens, and no webhook is told. */
  readonly data: Json;
  created_at: Date | string;
  /** Size of `data` as text; of a line that shares a row, its part of the row's. */
  bytes: number;
};

/** The part of the queue in a round, and the partitions in which more may wait. */
export type Taken = { queued: TakenCommit[]; rows: OutboxRow[]; again: number[] };

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
    queued.filter(({ outbox_ids: of, waiting }) => of.length === waiting).map(({ seq }) => String(seq)),
  );
  const isWhole = (lane: readonly QueueRow[]): boolean => lane.every(({ seq }) => whole.has(String(seq)));
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

const sizeOf = (lane: readonly QueueRow[]): number =>
  lane.reduce((sum, { outbox_ids: { length } }) => sum + length, 0);

/** Divides `rowsMax` among lanes: each has as many as the others, or all that it needs. */
const sharesOf = (lanes: readonly QueueRow[][], rowsMax: number): Map<QueueRow[], number> => {
  let left = rowsMax;
  const bySize = lanes
    .map((lane) => ({ lane, size: sizeOf(lane) }))
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

/** A row as it is read, with its data as JSON. */
type SentRow = Omit<OutboxRow, "data" | "row_id"> & { text: string; lines: number | null };
/** A row found by its index, with a null id where it no longer exists. */
type FoundRow = { place: number } & (SentRow | { id: null });

const outboxRowsOf = ({ text, lines, ...row }: SentRow): OutboxRow[] => {
  let parsed: Json | undefined;
  return linesOf({ id: row.id, seq: row.player_seq, lines }).map((line) => ({
    ...row,
    id: line.id,
    row_id: row.id,
    player_seq: line.seq,
    bytes: row.bytes / (lines ?? 1),
    get data() {
      return lineData((parsed ??= JSON.parse(text) as Json), line);
    },
  }));
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
  const commits = new Map<QueueRow, TakenCommit>();
  for (const { place } of found.rows) {
    const { commit, id } = asked[place]!;
    const taken = commits.get(commit);
    if (taken) taken.outbox_ids.push(id);
    else commits.set(commit, { ...commit, outbox_ids: [id], waiting: commit.outbox_ids.length });
  }
  const rows = found.rows.flatMap(({ place: _place, ...row }) => (row.id === null ? [] : outboxRowsOf(row)));
  return { queued: [...commits.values()], rows };
};
