import { type RawBuilder, sql } from "kysely";
import { z } from "zod";
import type { RankStore } from "../../evaluation/boards/ranks.ts";
import { newId } from "../../kernel/ids.ts";
import { isoOf } from "../../kernel/iso-time.ts";
import type { RowOf } from "../../kernel/json.ts";
import { kept } from "../../kernel/statements.ts";
import type { Transact, Work } from "../../kernel/work.ts";
import {
  type ChangedList,
  decide,
  type Decision,
  lockNoticeLists,
  type NoticeList,
  type NotifiedPlayer,
  readNoticeLists,
  type SeenRanks,
  seeRanks,
} from "./notice-lists.ts";
import type { Json } from "../../kernel/events/events.ts";
import { getLeaderboard } from "../leaderboards.ts";
import { type Name, readNames } from "../live-list.ts";

type KnownRow = Omit<NotifiedPlayer, "notifiedAtMs" | "dueAtMs"> &
  Record<"toldAt" | "dueAt", Date | null> & { periodId: string };

const knownOf = ({ periodId: _period, toldAt, dueAt, ...player }: KnownRow): NotifiedPlayer => ({
  ...player,
  notifiedAtMs: toldAt?.getTime() ?? null,
  dueAtMs: dueAt?.getTime() ?? null,
});

/** Reads the lists' records of the players who may have to be notified. */
const readKnown = async (
  { db }: Work,
  seen: readonly SeenRanks[],
): Promise<Map<string, Map<string, NotifiedPlayer>>> => {
  const asked = seen.flatMap(({ list: { ref, named }, changed, standings }) => {
    const ids = new Set([...standings.keys(), ...changed, ...(named ? [named.playerId] : [])]);
    return [...ids].map((playerId) => ({ p: ref.projectId, w: ref.periodId, i: playerId }));
  });
  const found = await kept(
    db,
    sql<KnownRow>`
    select r.w as "periodId", p.id as "playerId", p.external_user_id as "externalUserId",
      p.display_name as "displayName", n.rank, n.previous_rank as "previousRank", n.told_at as "toldAt",
      n.due_at as "dueAt"
    from json_to_recordset(${JSON.stringify(asked)}::json) as r(p uuid, w uuid, i uuid)
    join players p on p.project_id = r.p and p.id = r.i
    left join leaderboard_notices n on n.project_id = r.p and n.period_id = r.w
      and n.player_id = r.i`,
  );
  const known = new Map<string, Map<string, NotifiedPlayer>>();
  for (const row of found.rows) {
    const ofList = known.get(row.periodId) ?? new Map<string, NotifiedPlayer>();
    known.set(row.periodId, ofList.set(row.playerId, knownOf(row)));
  }
  return known;
};

/** Notices and records of each list; undefined when the ranks that were read are stale. */
export type SentNotices = {
  known: ReadonlyMap<string, ReadonlyMap<string, NotifiedPlayer>>;
  decisions: Decision[];
};

/**
 * Sends notices of rank changes to players, and of new leaders to boards, based on the ranks that were read.
 * The record is written in the same commit as the notices' outbox rows, so each notice is sent once, even
 * after a crash.
 * @returns undefined, without any effect, when another transaction has sent notices of a list since it was
 * read: the ranks may be older than those
 */
export const sendNotices = async (
  work: Work,
  seen: readonly SeenRanks[],
): Promise<SentNotices | undefined> => {
  if (seen.length === 0) return { known: new Map(), decisions: [] };
  const { open, isOld } = await lockNoticeLists(
    work,
    seen.map(({ list }) => list),
  );
  if (isOld) return undefined;
  const still = seen.filter(({ list }) => open.has(list.ref.periodId));
  const known = await readKnown(work, still);
  const decisions = still.map((one) =>
    decide(one, known.get(one.list.ref.periodId) ?? new Map(), work.now.getTime()),
  );
  await write(work, decisions);
  for (const { list } of still) work.changed(list.ref.projectId);
  return { known, decisions };
};

const noticeRowsOf = ({ list: { ref }, remembered }: Decision) =>
  remembered.map(({ playerId, rank, previousRank, notifiedAtMs, dueAtMs }) => ({
    p: ref.projectId,
    w: ref.periodId,
    i: playerId,
    r: rank,
    b: previousRank,
    t: isoOf(notifiedAtMs),
    d: isoOf(dueAtMs),
  }));

/** Emits the notices, and returns their lines in the feeds of the boards. */
const emit = (work: Work, { list: { ref, leaderboardId }, changes, newLeader }: Decision): FeedRow[] => {
  const { projectId } = ref;
  const line = (type: FeedRow["type"], data: unknown): FeedRow => ({
    p: projectId,
    l: leaderboardId,
    i: newId(),
    type,
    data,
  });
  const lines: FeedRow[] = [];
  for (const change of changes) {
    work.emit(projectId, "leaderboard.rank_changed", change, { playerId: change.playerId });
    const { externalUserId: _, ...data } = change;
    lines.push(line("leaderboard.rank_changed", data));
  }
  if (!newLeader) return lines;
  // It names two players, so it is stored as no player's: erasing either finds it there.
  work.emit(projectId, "leaderboard.new_leader", newLeader);
  const { leader, previousLeader, ...rest } = newLeader;
  const before = previousLeader && { playerId: previousLeader.playerId, score: previousLeader.score };
  const named = { playerId: leader.playerId, score: leader.score };
  lines.push(line("leaderboard.new_leader", { ...rest, leader: named, previousLeader: before }));
  return lines;
};

/** Only the newest lines of each board are kept, so no more are written. */
const newestOfEach = (lines: readonly FeedRow[]): FeedRow[] =>
  [...Map.groupBy(lines, ({ l }) => l).values()].flatMap((ofBoard) => ofBoard.slice(-FEED_MAX));

/**
 * Writes notices and records in one statement. Expired lines of a feed are found before any is locked:
 * otherwise all kept lines would be locked as well, once for each.
 */
const write = async (work: Work, decisions: readonly Decision[]): Promise<void> => {
  const notices = decisions.flatMap(noticeRowsOf);
  const lines = newestOfEach(decisions.flatMap((decision) => emit(work, decision)));
  const lists = decisions
    .filter(({ remembered, leader }) => remembered.length > 0 || leader)
    .map(({ list: { ref }, leader }) => ({
      p: ref.projectId,
      w: ref.periodId,
      i: leader?.playerId ?? null,
      s: leader?.rankScore ?? null,
    }));
  if (lists.length === 0) return;
  const counts = [...Map.groupBy(lines, ({ l }) => l).values()].map((ofBoard) => ({
    p: ofBoard[0]!.p,
    l: ofBoard[0]!.l,
    n: FEED_MAX - ofBoard.length,
  }));
  const now = sql`${work.now.toISOString()}::timestamptz`;
  await kept(
    work.db,
    sql`
    with w as (
      update leaderboard_periods t set notice_round = t.notice_round + 1,
        leader_id = coalesce(x.i, t.leader_id), leader_score = coalesce(x.s, t.leader_score)
      from json_to_recordset(${JSON.stringify(lists)}::json) as x(p uuid, w uuid, i uuid, s bigint)
      where t.project_id = x.p and t.id = x.w),
    f as (
      insert into leaderboard_feed (project_id, leaderboard_id, id, type, data, created_at)
      select x.p, x.l, x.i, x.type, x.data, ${now}
      from json_to_recordset(${JSON.stringify(lines)}::json)
        as x(p uuid, l uuid, i uuid, type text, data jsonb)),
    o as materialized (
      select x.p, x.l, k.id
      from json_to_recordset(${JSON.stringify(counts)}::json) as x(p uuid, l uuid, n int)
      cross join lateral (
        select k.id from leaderboard_feed k where k.project_id = x.p and k.leaderboard_id = x.l
        order by k.id desc offset x.n) k),
    u as materialized (
      select k.project_id, k.leaderboard_id, k.id from o join leaderboard_feed k
        on k.project_id = o.p and k.leaderboard_id = o.l and k.id = o.id
      for update of k skip locked),
    g as (
      delete from leaderboard_feed t using u
      where t.project_id = u.project_id and t.leaderboard_id = u.leaderboard_id and t.id = u.id)
    insert into leaderboard_notices
      (project_id, period_id, player_id, rank, previous_rank, told_at, due_at)
    select x.p, x.w, x.i, x.r, x.b, x.t, x.d from json_to_recordset(${JSON.stringify(notices)}::json)
      as x(p uuid, w uuid, i uuid, r bigint, b bigint, t timestamptz, d timestamptz)
    on conflict (project_id, period_id, player_id) do update set rank = excluded.rank,
      previous_rank = excluded.previous_rank, told_at = excluded.told_at,
      due_at = excluded.due_at`,
  );
};

/** Maximum number of players per transaction. */
const DUE_AT_ONCE = 1_000;
/** Attempts when another transaction sends notices for the same lists at the same time. */
const TRIES = 3;

type DueRow = { projectId: string; periodId: string; playerId: string };

const dueNotices = (at: Date): RawBuilder<unknown> =>
  sql`from leaderboard_notices where due_at <= ${at.toISOString()}::timestamptz`;

/** Whether a deferred notice is due. */
export const areNoticesDue = (at: Date): RawBuilder<unknown> => sql`exists (select ${dueNotices(at)})`;

const readDue = async ({ db, now }: Work): Promise<DueRow[]> => {
  const found = await sql<DueRow>`
    select project_id as "projectId", period_id as "periodId", player_id as "playerId" ${dueNotices(now)}
    order by due_at limit ${DUE_AT_ONCE}`.execute(db);
  return found.rows;
};

const listsOf = (rows: readonly DueRow[]): ChangedList[] =>
  [...Map.groupBy(rows, (row) => row.periodId)].map(([periodId, ofList]) => ({
    projectId: ofList[0]!.projectId,
    periodId,
    playerIds: new Set(ofList.map((row) => row.playerId)),
  }));

/** Removes what is due for lists that are closed or send no notices any more. */
const forget = async ({ db }: Work, lists: readonly ChangedList[]): Promise<void> => {
  if (lists.length === 0) return;
  const keys = lists.map(({ projectId, periodId }) => ({ p: projectId, w: periodId }));
  await sql`
    update leaderboard_notices t set due_at = null
    from json_to_recordset(${JSON.stringify(keys)}::json) as x(p uuid, w uuid)
    where t.project_id = x.p and t.period_id = x.w and t.due_at is not null`.execute(db);
};

/**
 * Sends deferred notices with the players' current ranks.
 * @returns whether more may be due
 * @throws DomainError SERVICE_UNAVAILABLE while a rank index is being built
 */
export const sendDueNotices = async ({
  transact,
  ranks,
}: {
  transact: Transact;
  ranks: RankStore;
}): Promise<boolean> => {
  for (let tried = 0; tried < TRIES; tried++) {
    const { due, lists } = await transact(async (work) => {
      const found = listsOf(await readDue(work));
      return { due: found, lists: await readNoticeLists(work, found) };
    });
    if (due.length === 0) return false;
    const open = new Map(lists.map((list) => [list.ref.periodId, list]));
    const seen = await Promise.all(
      due.flatMap(({ periodId, playerIds }) => {
        const list = open.get(periodId);
        return list ? [seeRanks(ranks, list, playerIds)] : [];
      }),
    );
    const sent = await transact(async (work) => {
      const done = await sendNotices(work, seen);
      if (done)
        await forget(
          work,
          due.filter(({ periodId }) => !done.decisions.some(({ list }) => list.ref.periodId === periodId)),
        );
      return done;
    });
    if (sent) return due.reduce((sum, { playerIds }) => sum + playerIds.size, 0) === DUE_AT_ONCE;
  }
  return true;
};

/** Schedules changed players for an early evaluation, when their ranks cannot be read now. */
export const deferNotices = async (
  work: Work,
  lists: readonly NoticeList[],
  changed: readonly ChangedList[],
): Promise<void> => {
  const { db, now } = work;
  // A transaction that is sending notices for these lists does not know what is recorded here.
  await lockNoticeLists(work, lists);
  const rows = changed.flatMap(({ projectId, periodId, playerIds }) =>
    [...playerIds].map((playerId) => ({ p: projectId, w: periodId, i: playerId })),
  );
  if (rows.length === 0) return;
  await sql`
    insert into leaderboard_notices as t (project_id, period_id, player_id, due_at)
    select x.p, x.w, x.i, ${now.toISOString()}::timestamptz
    from json_to_recordset(${JSON.stringify(rows)}::json) as x(p uuid, w uuid, i uuid)
    on conflict (project_id, period_id, player_id)
      do update set due_at = coalesce(t.due_at, excluded.due_at)`.execute(db);
};

/** Maximum number of lines kept per leaderboard. */
export const FEED_MAX = 100;

const FEED_TYPES = ["leaderboard.rank_changed", "leaderboard.new_leader"] as const;
type FeedType = (typeof FEED_TYPES)[number];

/** A line as it is stored: project, leaderboard, id. Players are referenced by id only. */
type FeedRow = { p: string; l: string; i: string; type: FeedType; data: unknown };

/** A line as the API shows it: `data` is that of the event of this type. */
export const FeedLine = z
  .object({
    id: z.uuid(),
    type: z.enum(FEED_TYPES),
    createdAt: z.iso.datetime(),
    data: z.record(z.string(), z.unknown()),
  })
  .meta({ id: "LeaderboardFeedLine" });
type FeedLine = z.output<typeof FeedLine>;

type Row = RowOf<FeedLine> & { data: Json };
type Person = Json & { playerId: string };

const peopleOf = ({ type, data }: Row): Person[] => {
  if (type === "leaderboard.rank_changed") return [data as Person];
  return [data["leader"] as Person, ...(data["previousLeader"] ? [data["previousLeader"] as Person] : [])];
};

/** Omits lines whose players are hidden by now; a hidden former leader becomes null. */
const showLine = (row: Row, names: ReadonlyMap<string, Name>): FeedLine[] => {
  const name = (person: Person): Json | null => {
    const found = names.get(person.playerId);
    return found ? { ...person, externalUserId: found.externalUserId } : null;
  };
  const { id, type, data } = row;
  const createdAt = row.createdAt.toISOString();
  if (type === "leaderboard.rank_changed") {
    const shown = name(data as Person);
    return shown ? [{ id, type, createdAt, data: shown }] : [];
  }
  const [leader, previous] = peopleOf(row);
  const shown = name(leader!);
  if (!shown) return [];
  const { displayName = null } = names.get(leader!.playerId) ?? {};
  const previousLeader = previous ? name(previous) : null;
  return [{ id, type, createdAt, data: { ...data, leader: { ...shown, displayName }, previousLeader } }];
};

/** Returns the latest rank events of a leaderboard, newest first. */
export const readFeed = async (
  work: Work,
  projectId: string,
  leaderboardRef: string,
): Promise<FeedLine[]> => {
  const leaderboard = await getLeaderboard(work, projectId, leaderboardRef);
  const found = await sql<Row>`
    select id, type, data, created_at as "createdAt" from leaderboard_feed
    where project_id = ${projectId} and leaderboard_id = ${leaderboard.id}
    order by id desc limit ${FEED_MAX}`.execute(work.db);
  const people = new Set(found.rows.flatMap(peopleOf).map(({ playerId }) => playerId));
  const names = await readNames(
    work,
    projectId,
    [...people].map((playerId) => ({ playerId })),
  );
  return found.rows.flatMap((row) => showLine(row, names));
};
