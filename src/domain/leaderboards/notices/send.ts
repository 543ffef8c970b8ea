import { sql } from "kysely";
import { newId } from "../../kernel/ids.ts";
import type { Work } from "../../kernel/work.ts";
import { kept } from "../../kernel/statements.ts";
import { decide, type Decision, type NotifiedPlayer } from "./decide.ts";
import { FEED_MAX, type FeedRow } from "./feed.ts";
import { lockNoticeLists } from "./notice-lists.ts";
import type { SeenRanks } from "./seen-ranks.ts";

type KnownRow = {
  period_id: string;
  player_id: string;
  external_user_id: string;
  display_name: string | null;
  rank: string | number | null;
  previous_rank: string | number | null;
  told_at: Date | string | null;
  due_at: Date | string | null;
};

const numberOf = (value: string | number | null): number | null => (value === null ? null : Number(value));
const msOf = (at: Date | string | null): number | null => (at === null ? null : new Date(at).getTime());

const knownOf = (row: KnownRow): NotifiedPlayer => ({
  playerId: row.player_id,
  externalUserId: row.external_user_id,
  displayName: row.display_name,
  rank: numberOf(row.rank),
  previousRank: numberOf(row.previous_rank),
  notifiedAtMs: msOf(row.told_at),
  dueAtMs: msOf(row.due_at),
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
    select r.w as period_id, p.id as player_id, p.external_user_id, p.display_name,
      n.rank, n.previous_rank, n.told_at, n.due_at
    from json_to_recordset(${JSON.stringify(asked)}::json) as r(p uuid, w uuid, i uuid)
    join players p on p.project_id = r.p and p.id = r.i
    left join leaderboard_notices n on n.project_id = r.p and n.period_id = r.w
      and n.player_id = r.i`,
  );
  const known = new Map<string, Map<string, NotifiedPlayer>>();
  for (const row of found.rows) {
    const ofList = known.get(row.period_id) ?? new Map<string, NotifiedPlayer>();
    known.set(row.period_id, ofList.set(row.player_id, knownOf(row)));
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

const isoOf = (ms: number | null): string | null => (ms === null ? null : new Date(ms).toISOString());

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
