import { sql } from "kysely";
import { ALL_TIME_KEY, type Board, keyWithResets } from "../../evaluation/boards/board.ts";
import { DEFAULT_RANK_CHANGE, type RankChange } from "../../evaluation/boards/definition.ts";
import { fromRankScore } from "../../evaluation/boards/lists.ts";
import type { PeriodRef, RankStore, Standing, Ties } from "../../evaluation/boards/ranks.ts";
import type { Events } from "../../kernel/events/domain-events.ts";
import { kept } from "../../kernel/statements.ts";
import type { Work } from "../../kernel/work.ts";

/** A player who enters within this rank is notified. */
const ENTERED_RANK_MAX = 100;

/** The notable part of a change of rank. */
type Significance = {
  reason: "BAND" | "DELTA" | "ENTERED";
  direction: "UP" | "DOWN" | "NEW";
  /** The crossed edges, ascending. */
  crossed: number[];
};

type Rule = Pick<RankChange, "bands" | "minAbsolute" | "minPercent" | "maxRank">;

/**
 * Evaluates the change from the last known rank to the current one. A band is entered and left over its edge:
 * from 11 to 10, from 3 to 4. Without a known rank only an appearance near the top counts.
 */
export const significanceOf = (
  { bands, minAbsolute, minPercent, maxRank = Infinity }: Rule,
  before: number | null,
  now: number,
): Significance | undefined => {
  if (Math.min(before ?? Infinity, now) > maxRank) return undefined;
  if (before === null)
    return now <= ENTERED_RANK_MAX ? { reason: "ENTERED", direction: "NEW", crossed: [] } : undefined;
  const direction = now < before ? "UP" : "DOWN";
  const crossed = bands.filter((edge) => before <= edge !== now <= edge);
  if (crossed.length > 0) return { reason: "BAND", direction, crossed };
  const least = Math.max(minAbsolute, Math.ceil((before * minPercent) / 100));
  return Math.abs(now - before) >= least ? { reason: "DELTA", direction, crossed } : undefined;
};

/** A first place: the player, and the score as in the index (smaller is better). */
type Lead = { playerId: string; rankScore: number };

/** The outcome for the lead: who is announced from now on, and whether that is a notice. */
type LeadChange = { leader: Lead; isAnnounced: boolean };

/**
 * Compares the last announced leader with the current first place. A leader who merely disappeared causes no
 * notice about the next, unless the next would have overtaken anyway. An equal score takes the lead only
 * where ties favour the latest.
 * @param still the current place of the last announced leader; undefined without one
 */
const leadChange = (
  ties: Ties,
  { named, still, first }: { named: Lead | undefined; still: Lead | undefined; first: Lead | undefined },
): LeadChange | undefined => {
  if (!first) return undefined;
  if (!named) return { leader: first, isAnnounced: true };
  if (first.playerId === named.playerId)
    return first.rankScore === named.rankScore ? undefined : { leader: first, isAnnounced: false };
  if (!still) return { leader: first, isAnnounced: first.rankScore < named.rankScore };
  if (first.rankScore === still.rankScore && ties !== "LATEST") return undefined;
  return { leader: first, isAnnounced: true };
};

/** Players of a list whose entries have changed. */
export type ChangedList = { projectId: string; periodId: string; playerIds: ReadonlySet<string> };

/** An open list with rank notices. */
export type NoticeList = {
  ref: PeriodRef;
  leaderboardId: string;
  leaderboardKey: string;
  periodKey: string;
  board: string;
  scoring: Pick<Board, "sort" | "scoreDecimals">;
  rule: RankChange;
  /** Increases with every notice of the list: data read in an earlier round may be stale. */
  round: number;
  /** The last announced leader. */
  named: Lead | undefined;
  /** The only list of a board without periods may have entries before it has its row. */
  hasRow: boolean;
};

type Row = Pick<NoticeList, "leaderboardId" | "leaderboardKey"> &
  PeriodRef & {
    /** Null before the list has its row, as those that follow. */
    periodKey: string | null;
    board: string | null;
    round: number | null;
    leaderId: string | null;
    leaderScore: number | null;
    resets: number;
    sort: Board["sort"];
    decimals: number;
    rankChange: RankChange | null;
  };

const listOf = ({ projectId, periodId, ties, leaderId, leaderScore, ...row }: Row): NoticeList => ({
  ref: { projectId, periodId, ties },
  leaderboardId: row.leaderboardId,
  leaderboardKey: row.leaderboardKey,
  periodKey: row.periodKey ?? keyWithResets(ALL_TIME_KEY, row.resets),
  board: row.board ?? "",
  scoring: { sort: row.sort, scoreDecimals: row.decimals },
  rule: row.rankChange ?? DEFAULT_RANK_CHANGE,
  round: row.round ?? 0,
  hasRow: row.periodKey !== null,
  named: leaderId === null ? undefined : { playerId: leaderId, rankScore: leaderScore! },
});

/**
 * Returns those of the lists that are open and have rank notices, in locking order. A window that was over
 * when its first score came has none: nobody waits for the ranks of imported history.
 */
export const readNoticeLists = async (
  { db }: Work,
  lists: readonly Pick<ChangedList, "projectId" | "periodId">[],
): Promise<NoticeList[]> => {
  if (lists.length === 0) return [];
  const keys = lists.map(({ projectId, periodId }) => ({ p: projectId, w: periodId }));
  const found = await kept(
    db,
    sql<Row>`
    select r.p as "projectId", r.w as "periodId", b.id as "leaderboardId", b.key as "leaderboardKey",
      w.period_key as "periodKey", w.board, b.resets, w.notice_round as round, w.leader_id as "leaderId",
      w.leader_score as "leaderScore", b.definition->>'ties' as ties, b.definition->>'sort' as sort,
      (b.definition->>'scoreDecimals')::int as decimals, b.definition->'rankChange' as "rankChange"
    from json_to_recordset(${JSON.stringify(keys)}::json) as r(p uuid, w uuid)
    left join leaderboard_periods w on w.project_id = r.p and w.id = r.w
    join leaderboards b on b.project_id = r.p and b.status <> 'ARCHIVED'
      and b.id = coalesce(w.leaderboard_id,
        (select o.id from leaderboards o where o.project_id = r.p and o.period_id = r.w limit 1))
    where coalesce(w.status, 'OPEN') = 'OPEN' and w.is_late is not true order by r.p, r.w`,
  );
  return found.rows.map(listOf).filter(({ rule }) => rule.enabled);
};

/** Creates missing rows of lists, unless they were reset meanwhile. */
const makeRows = async ({ db, now }: Work, lists: readonly NoticeList[]): Promise<void> => {
  const rows = lists
    .filter(({ hasRow }) => !hasRow)
    .map(({ ref, leaderboardId, periodKey }) => ({
      p: ref.projectId,
      w: ref.periodId,
      l: leaderboardId,
      k: periodKey,
    }));
  if (rows.length === 0) return;
  const at = sql`${now.toISOString()}::timestamptz`;
  await sql`
    insert into leaderboard_periods (project_id, id, leaderboard_id, period_key, created_at, written_at)
    select x.p, x.w, x.l, x.k, ${at}, ${at}
    from (
      select x.* from json_to_recordset(${JSON.stringify(rows)}::json) as x(p uuid, w uuid, l uuid, k text)
      join leaderboards b on b.project_id = x.p and b.id = x.l and b.period_id = x.w
      order by x.w for share of b) x
    on conflict do nothing`.execute(db);
};

/**
 * Locks the lists for sending notices. @returns those that are still open, and whether one of them has sent a
 * notice since it was read
 */
export const lockNoticeLists = async (
  work: Work,
  lists: readonly NoticeList[],
): Promise<{ open: ReadonlySet<string>; isOld: boolean }> => {
  await makeRows(work, lists);
  const keys = lists.map(({ ref }) => ({ p: ref.projectId, w: ref.periodId }));
  const found = await kept(
    work.db,
    sql<{ id: string; notice_round: number }>`
    select w.id, w.notice_round from leaderboard_periods w
    join json_to_recordset(${JSON.stringify(keys)}::json) as r(p uuid, w uuid)
      on w.project_id = r.p and w.id = r.w
    where w.status = 'OPEN' order by w.project_id, w.id for update of w`,
  );
  const rounds = new Map(found.rows.map((row) => [row.id, row.notice_round]));
  const isOld = lists.some(({ ref, round }) => (rounds.get(ref.periodId) ?? round) !== round);
  return { open: new Set(rounds.keys()), isOld };
};

/** How far from a band's edge displaced players are searched. */
const REACH_MAX = 1_000;

/** The relevant part of a list's ranking: positions of those who may have to be notified. */
export type SeenRanks = {
  list: NoticeList;
  /** The players whose entries have changed. */
  changed: ReadonlySet<string>;
  standings: ReadonlyMap<string, Standing>;
  first: Standing | undefined;
  participants: number;
};

type Region = { start: number; end: number };

/**
 * Positions near the edges of bands: when the entries of `count` players change, nobody else moves further
 * than that. Positions are ranks less 1.
 */
const regionsOf = (bands: readonly number[], count: number): Region[] => {
  const reach = Math.min(count, REACH_MAX);
  const regions: Region[] = [{ start: 0, end: 1 }];
  for (const edge of bands) {
    const region = { start: Math.max(0, edge - reach), end: edge + reach };
    const last = regions.at(-1)!;
    if (region.start <= last.end) last.end = Math.max(last.end, region.end);
    else regions.push(region);
  }
  return regions;
};

/** Queries the rank index for the changed players, and for those whom they may have displaced. */
export const seeRanks = async (
  ranks: RankStore,
  list: NoticeList,
  changed: ReadonlySet<string>,
): Promise<SeenRanks> => {
  const asked = new Set(changed);
  if (list.named) asked.add(list.named.playerId);
  const [own, ...pages] = await Promise.all([
    ranks.standings(list.ref, [...asked]),
    ...regionsOf(list.rule.bands, changed.size).map(({ start, end }) =>
      ranks.page(list.ref, start, end - start),
    ),
  ]);
  const standings = [...own, ...pages.flatMap((page) => page.standings)];
  return {
    list,
    changed,
    standings: new Map(standings.map((standing) => [standing.playerId, standing])),
    first: pages[0]?.standings[0],
    participants: pages[0]?.total ?? 0,
  };
};

/** A player and the list's record of notices to them; ranks and times are null before the first. */
export type NotifiedPlayer = {
  playerId: string;
  externalUserId: string;
  displayName: string | null;
  rank: number | null;
  previousRank: number | null;
  notifiedAtMs: number | null;
  dueAtMs: number | null;
};

/** The list's new record. */
type Remembered = Pick<NotifiedPlayer, "playerId" | "rank" | "previousRank" | "notifiedAtMs" | "dueAtMs">;

export type Decision = {
  list: NoticeList;
  remembered: Remembered[];
  /** The newly announced leader, if that changes. */
  leader: Lead | undefined;
  changes: Events["leaderboard.rank_changed"][];
  newLeader: Events["leaderboard.new_leader"] | undefined;
};

const boardPeriodOf = ({ leaderboardKey, leaderboardId, periodKey, board }: NoticeList) => ({
  leaderboardKey,
  leaderboardId,
  periodKey,
  board,
});

/** Decides which notices of a list are sent, to whom, and which wait until a player may get another one. */
export const decide = (
  seen: SeenRanks,
  known: ReadonlyMap<string, NotifiedPlayer>,
  nowMs: number,
): Decision => {
  const remembered: Remembered[] = [];
  const changes: Events["leaderboard.rank_changed"][] = [];
  for (const one of known.values()) {
    const standing = seen.standings.get(one.playerId);
    const { next, change } = standing
      ? judgeStanding(seen, one, { standing, nowMs })
      : { next: withoutDue(one), change: undefined };
    if (next) remembered.push(next);
    if (change) changes.push(change);
  }
  return { list: seen.list, remembered, changes, ...decideLeader(seen, known) };
};

type Judged = {
  next: Remembered | undefined;
  change: Events["leaderboard.rank_changed"] | undefined;
};

const NOTHING: Judged = { next: undefined, change: undefined };

/** Clears a pending notice that has become obsolete. */
const withoutDue = (one: NotifiedPlayer): Remembered | undefined =>
  one.dueAtMs === null ? undefined : remember(one, { dueAtMs: null });

const remember = (
  { playerId, rank, previousRank, notifiedAtMs, dueAtMs }: NotifiedPlayer,
  values: Partial<Remembered>,
): Remembered => ({ playerId, rank, previousRank, notifiedAtMs, dueAtMs, ...values });

const judgeStanding = (
  seen: SeenRanks,
  one: NotifiedPlayer,
  at: { standing: Standing; nowMs: number },
): Judged => {
  const { list, changed } = seen;
  const { rank } = at.standing;
  const hasChanged = changed.has(one.playerId);
  const found = significanceOf(list.rule, one.rank, rank);
  if (one.rank === null) {
    // A player whom others have moved before the first evaluation had entered some time ago.
    if (found && hasChanged) return issue(seen, one, { ...at, found });
    return { ...NOTHING, next: remember(one, { rank, dueAtMs: null }) };
  }
  // A player whom others have moved is notified only at the edges of bands; a pending notice stays.
  if (!hasChanged && found?.reason !== "BAND") return NOTHING;
  return found ? issue(seen, one, { ...at, found }) : { ...NOTHING, next: withoutDue(one) };
};

/** Issues a notice, or defers it until the player may get another one. */
const issue = (
  { list, participants }: SeenRanks,
  one: NotifiedPlayer,
  { standing, nowMs, found }: { standing: Standing; nowMs: number; found: Significance },
): Judged => {
  const dueAtMs = (one.notifiedAtMs ?? -Infinity) + list.rule.debounceSeconds * 1_000;
  if (dueAtMs > nowMs)
    return { ...NOTHING, next: one.dueAtMs === dueAtMs ? undefined : remember(one, { dueAtMs }) };
  const { playerId, externalUserId, rank: previousRank } = one;
  return {
    next: { playerId, rank: standing.rank, previousRank, notifiedAtMs: nowMs, dueAtMs: null },
    change: {
      playerId,
      externalUserId,
      ...boardPeriodOf(list),
      previousRank,
      newRank: standing.rank,
      direction: found.direction,
      score: fromRankScore(list.scoring, standing.rankScore),
      crossed: found.crossed,
      participants,
      reason: found.reason,
    },
  };
};

const decideLeader = (
  { list, first, standings }: SeenRanks,
  known: ReadonlyMap<string, NotifiedPlayer>,
): Pick<Decision, "leader" | "newLeader"> => {
  const { named, scoring, ref } = list;
  const still = named && standings.get(named.playerId);
  const change = leadChange(ref.ties, { named, still, first });
  const leader = change && known.get(change.leader.playerId);
  if (!leader) return { leader: undefined, newLeader: undefined };
  if (!change.isAnnounced) return { leader: change.leader, newLeader: undefined };
  const score = fromRankScore(scoring, change.leader.rankScore);
  const before = named && known.get(named.playerId);
  const scoreBefore = named && fromRankScore(scoring, (still ?? named).rankScore);
  const newLeader = {
    ...boardPeriodOf(list),
    leader: {
      playerId: leader.playerId,
      externalUserId: leader.externalUserId,
      displayName: leader.displayName,
      score,
    },
    previousLeader: before
      ? { playerId: before.playerId, externalUserId: before.externalUserId, score: scoreBefore! }
      : null,
    margin: before ? marginOf(score, scoreBefore!, scoring.scoreDecimals) : null,
  };
  return { leader: change.leader, newLeader };
};

/** The lead over the other score, without the noise of binary fractions. */
const marginOf = (score: number, other: number, decimals: number): number =>
  Number(Math.abs(score - other).toFixed(decimals));
