import {
  fromRankScore,
  nextEntry,
  type Operation,
  reachedUs,
  removedVersion,
} from "../evaluation/boards/lists.ts";
import type { Json } from "../kernel/events/events.ts";
import { newId } from "../kernel/ids.ts";
import type { Board } from "../evaluation/boards/board.ts";
import { followsPlayer } from "../evaluation/boards/holdings.ts";
import {
  type CompiledMetric,
  compileMetric,
  type CounterState,
  mergeCounters,
} from "../evaluation/metrics/compile.ts";
import type { Steps } from "../kernel/slices.ts";
import { mergeScopes } from "../evaluation/caps/cap.ts";
import { isWithinRoom, type Turn, withoutUnread, write } from "../evaluation/turn.ts";
import type { EntryState, PlayerDoc, PlayerState, StreakState } from "../evaluation/player-state.ts";
import { attributesProblem, TAGS_MAX } from "../evaluation/profile.ts";
import type { ProjectPlan } from "../evaluation/project-plan.ts";
import { mergeLimits } from "../evaluation/running/budgets.ts";
import { endSpell, setMembership } from "../evaluation/segments/membership.ts";
import { runOf } from "../evaluation/streaks/advance.ts";
import type { CompiledStreak, Run, StreakDoc } from "../evaluation/streaks/compile.ts";
import { settle } from "../evaluation/streaks/settle.ts";
import { FREEZES_MAX } from "../evaluation/streaks/streak.ts";
import type { Merging } from "./merge-holdings.ts";

/** Merges counters by their aggregate, if those of both fit; limits count the firings of both. In pieces. */
export function* mergeDoc({ target, source, summary }: Merging): Steps<void> {
  const [mine, theirs] = [target.player.doc, source.player.doc];
  const counters = theirs.c && (yield* countersOf(target.project, mine.c, theirs.c));
  const limits = theirs.l && (yield* limitsOf(mine.l, theirs.l));
  const doc: PlayerDoc = {
    ...mine,
    ...(counters ? { c: counters } : {}),
    ...(limits ? { l: limits } : {}),
    ...sumsOfDocs(mine, theirs),
  };
  target.player.doc = fitting(doc, { target, summary });
  target.player.dirty.doc = true;
}

/** Merges what is counted of caps, rewards and the day's XP, and the boards from which one is banned. */
const sumsOfDocs = (mine: PlayerDoc, theirs: PlayerDoc): PlayerDoc => ({
  ...(theirs.g ? { g: mergeScopes(mine.g ?? {}, theirs.g) } : {}),
  ...(theirs.w ? { w: sumsOf(mine.w ?? {}, theirs.w) } : {}),
  ...(theirs.x ? { x: dayOf(mine.x, theirs.x) } : {}),
  ...(theirs.b ? { b: [...new Set([...(mine.b ?? []), ...theirs.b])] } : {}),
});

/** Returns the merged document; if it is too large, with the counters of the target alone. */
const fitting = (doc: PlayerDoc, { target, summary }: Pick<Merging, "target" | "summary">): PlayerDoc => {
  if (isWithinRoom(doc)) return doc;
  const read = withoutUnread(target.project, doc);
  if (isWithinRoom(read)) return read;
  summary.dropped.push("counters");
  return { ...read, c: target.player.doc.c ?? {} };
};

/** A counter that is no longer used stays as one of the two had it. */
function* countersOf(plan: ProjectPlan, mine: Json | undefined, theirs: Json): Steps<Json> {
  const definitions = [
    ...plan.rules.metrics,
    ...[...plan.badges.values()].flatMap(({ metrics }) => metrics),
    ...[...plan.segments.values()].flatMap(({ metrics }) => metrics),
  ];
  const known = new Map<string, CompiledMetric>();
  for (const definition of definitions) {
    yield;
    const metric = compileMetric(definition);
    known.set(metric.id, metric);
  }
  const merged = { ...theirs, ...mine };
  for (const [id, state] of Object.entries(theirs)) {
    const metric = known.get(id);
    yield;
    if (metric) merged[id] = mergeCounters(metric, mine?.[id] as CounterState, state as CounterState);
  }
  return merged;
}

function* limitsOf(mine: Json | undefined, theirs: Json): Steps<Json> {
  const merged = { ...mine };
  for (const [ruleId, state] of Object.entries(theirs)) {
    yield;
    merged[ruleId] = mergeLimits(mine?.[ruleId], state);
  }
  return merged;
}

type Counts = Readonly<Record<string, number>>;

const sumsOf = (mine: Counts, theirs: Counts): Counts => {
  const sums: Record<string, number> = { ...mine };
  // A reward may be called `constructor`.
  for (const [key, count] of Object.entries(theirs))
    sums[key] = (Object.hasOwn(mine, key) ? mine[key]! : 0) + count;
  return sums;
};

type DayXp = NonNullable<PlayerDoc["x"]>;

const dayOf = (mine: DayXp | undefined, theirs: DayXp): DayXp => {
  if (!mine || theirs[0] > mine[0]) return theirs;
  return theirs[0] === mine[0] ? [mine[0], mine[1] + theirs[1]] : mine;
};

/**
 * Merges streaks: of each the active run, of two the longer one; the longest of both ever, the freezes of
 * both up to the maximum. A replaced run goes into the history. In pieces.
 */
export function* mergeStreaks({ target, source, summary }: Merging): Steps<void> {
  for (const [key, theirs] of source.player.streaks) {
    yield;
    const compiled = target.project.streaks.get(key);
    const mine = target.player.streaks.get(key);
    const merged = mine ? joinStreaks(target, compiled, { mine, theirs }) : theirs;
    if (mine && compiled) archiveLoser(target, compiled, { winner: merged, both: [mine, theirs] });
    target.player.streaks.set(key, merged);
    target.player.dirty.streaks.add(key);
    const { current, longest, freezes } = merged;
    summary.streaks.push({ streakKey: key, current, longest, freezes });
  }
}

type Both = { mine: StreakState; theirs: StreakState };

const aliveLength = (turn: Turn, streak: CompiledStreak | undefined, state: StreakState): number =>
  streak ? settle(streak, state, turn.nowMs).state.current : state.current;

const joinStreaks = (turn: Turn, streak: CompiledStreak | undefined, { mine, theirs }: Both): StreakState => {
  const isTheirs = aliveLength(turn, streak, theirs) > aliveLength(turn, streak, mine);
  const best = isTheirs ? theirs : mine;
  const docs = [mine.doc as StreakDoc, theirs.doc as StreakDoc] as const;
  const freezesMax = streak?.definition.freeze?.max ?? FREEZES_MAX;
  const won = [...(docs[0].won ?? []), ...(docs[1].won ?? [])];
  return {
    ...best,
    longest: Math.max(mine.longest, theirs.longest),
    freezes: Math.max(mine.freezes, Math.min(freezesMax, mine.freezes + theirs.freezes)),
    doc: {
      ...best.doc,
      ...(won.length > 0 ? { won } : {}),
      runs: Math.max(docs[0].runs ?? 0, docs[1].runs ?? 0),
    },
  };
};

type Outcome = { winner: StreakState; both: readonly StreakState[] };

const archiveLoser = (turn: Turn, streak: CompiledStreak, { winner, both }: Outcome): void => {
  const kept = (winner.doc as StreakDoc).run;
  const loser = both.find(({ current, doc }) => current > 0 && (doc as StreakDoc).run !== kept);
  const run: Run | undefined = loser && (loser.doc as StreakDoc).run;
  if (!loser || !run) return;
  const { id: playerId, projectId } = turn.player;
  write(turn, "streakRuns", {
    id: newId(),
    projectId,
    playerId,
    streakKey: streak.definition.key,
    ...runOf(streak, { ...run, length: loser.current }, "MERGED" as const),
  });
};

/** Merges static segments; dynamic ones are evaluated for the target. */
export const mergeSegments = ({ target, source, summary }: Merging): void => {
  for (const key of source.player.segments.keys()) {
    endSpell(source, key);
    if (target.player.segments.has(key)) continue;
    if (setMembership(target, key, true) === undefined) summary.segments.push(key);
  }
};

/** Moves the source's boosts to the target. */
export const mergeBoosts = ({ target, source, summary }: Merging): void => {
  for (const boost of source.player.boosts.values()) {
    if (boost.expiresMs <= target.nowMs) continue;
    target.player.boosts.set(boost.id, boost);
    target.player.dirty.boosts.add(boost.id);
    summary.boosts++;
  }
};

/** Returns the board of a list in which the source may have an entry, and whether the list accepts scores. */
const boardOfList = ({ target }: Merging, listId: string): { board: Board; isOpen: boolean } | undefined => {
  const list = target.player.lists.get(listId);
  if (list) return { board: list.board, isOpen: list.status === null || list.status === "OPEN" };
  const board = target.project.boards.find(({ periodId }) => periodId === listId);
  return board && { board, isOpen: true };
};

/**
 * Merges scores by the boards' operators, in every open list. Boards of holdings follow the target by
 * themselves.
 */
export const mergeEntries = (merging: Merging): void => {
  for (const [listId, theirs] of merging.source.player.entries) {
    const found = boardOfList(merging, listId);
    if (found?.isOpen && !followsPlayer(found.board))
      mergeEntry(merging, { listId, theirs, board: found.board });
  }
};

const operationOf = (board: Board, { rankScore, rankTie, latestUs }: EntryState): Operation => ({
  // Deductions are negative already: both add up.
  operator: board.operator === "DECR" ? "SUM" : board.operator,
  rankScore,
  atUs: board.operator === "LATEST" ? latestUs : reachedUs(board, rankTie),
});

type MergedEntry = { listId: string; theirs: EntryState; board: Board };

const mergeEntry = (
  { target: { player }, strategy, summary }: Merging,
  { listId, theirs, board }: MergedEntry,
): void => {
  const mine = player.entries.get(listId);
  if (mine && strategy.leaderboards === "KEEP_TARGET") return;
  const entry = mine
    ? nextEntry(board, mine, operationOf(board, theirs))
    : { ...theirs, version: (removedVersion(player.doc, listId) ?? 0) + 1 };
  setUncounted(player, listId, entry ?? mine!);
  if (!entry || entry === mine) return;
  const score = fromRankScore(board, entry.rankScore);
  summary.leaderboards.push({ leaderboardKey: board.key, score });
};

/** Sets an entry whose scores are not recorded in one place, since they are those of two players. */
const setUncounted = (player: PlayerState, listId: string, entry: EntryState): void => {
  const { recorded, ...merged } = entry;
  if (recorded === undefined && player.entries.get(listId) === entry) return;
  player.entries.set(listId, merged);
  player.dirty.entries.add(listId);
};

/** Merges attributes key by key, and the tags of both. Values beyond a limit are left out and reported. */
export const mergeAttributes = ({ target, source, strategy, summary }: Merging): void => {
  const [mine, theirs] = [target.player, source.player];
  const isSource = strategy.profile === "SOURCE_WINS";
  const attributes = isSource
    ? { ...mine.attributes, ...theirs.attributes }
    : { ...theirs.attributes, ...mine.attributes };
  const fits = attributesProblem(attributes) === undefined;
  if (fits) mine.attributes = attributes;
  else summary.dropped.push("attributes");
  const tags = [...new Set([...mine.tags, ...theirs.tags])];
  if (tags.length > TAGS_MAX) summary.dropped.push("tags");
  mine.tags = tags.slice(0, TAGS_MAX);
  mine.dirty.profile = true;
  if (theirs.lastSeenAt && (!mine.lastSeenAt || theirs.lastSeenAt > mine.lastSeenAt))
    mine.lastSeenAt = theirs.lastSeenAt;
  const [first, known] = [theirs.firstSeenAt ?? theirs.createdAt, mine.firstSeenAt ?? mine.createdAt];
  if (first < known) mine.firstSeenAt = first;
};
