import { wholePoints } from "../adventures/row.ts";
import type { Board } from "./board.ts";
import { entryAt, findList, record, toRankScore, toUs } from "./lists.ts";
import type { Metric } from "./period.ts";
import { createTypeIndex } from "../language/patterns.ts";
import { compilePath } from "../language/syntax.ts";
import { compileFilter } from "../metrics/compile.ts";
import type { PlayerState } from "../player-state.ts";
import type { EventContext } from "../rule-event.ts";
import type { HoldingsBefore, Turn } from "../turn.ts";
import type { Steps } from "../../kernel/slices.ts";

type ReadValue = (turn: Pick<Turn, "project" | "player">) => number;

/** A board of a value that players have: it shows the current value. */
type ValueBoard = { board: Board; read: ReadValue };
/** A board of gains in a period: of XP (null), or of the currency with this key. */
type GainBoard = { board: Board; currencyKey: string | null };

/** Boards that follow players' holdings and gains. */
type HoldingBoards = {
  /** Boards of total XP. */
  xp: readonly Board[];
  gains: readonly GainBoard[];
  values: readonly ValueBoard[];
};

const badgePoints: ReadValue = ({ project, player }) => {
  let points = 0;
  for (const [key, { tier }] of player.badges)
    if (tier > 0) points += project.badges.get(key)?.definition.points ?? 0;
  return points;
};

const questsCompleted: ReadValue = ({ player }) => {
  let completed = 0;
  for (const { latest } of player.quests.values()) completed += latest.completions;
  return completed;
};

type Source = Board["metric"]["source"];
type MetricOf<S extends Source> = Extract<Board["metric"], { source: S }>;
type ValueOf<S extends Source> = (metric: MetricOf<S>) => ReadValue | undefined;

const NO_VALUE = (): undefined => undefined;

/** How the value that a board shows is read, by the source of its metric. */
const VALUES: { readonly [S in Source]: ValueOf<S> } = {
  LEVEL:
    () =>
    ({ player }) =>
      player.level,
  STREAK:
    ({ streakKey }) =>
    ({ player }) =>
      player.streaks.get(streakKey)?.current ?? 0,
  BADGE_POINTS: () => badgePoints,
  CURRENCY: ({ mode, currencyKey }) =>
    mode === "BALANCE" ? ({ player }) => player.balances.get(currencyKey)?.balance ?? 0 : undefined,
  ADVENTURE_POINTS:
    ({ adventureKey }) =>
    ({ player }) =>
      wholePoints(player.adventures.get(adventureKey)),
  QUESTS_COMPLETED: ({ questKey }) =>
    questKey === undefined
      ? questsCompleted
      : ({ player }) => player.quests.get(questKey)?.latest.completions ?? 0,
  XP: NO_VALUE,
  EVENT: NO_VALUE,
  CUSTOM: NO_VALUE,
};

const valueOf = ({ metric }: Board): ReadValue | undefined =>
  (VALUES[metric.source] as ValueOf<Source>)(metric);

const isTotal = ({ metric, period }: Board): boolean => metric.source === "XP" && period.kind === "ALL_TIME";

const gainOf = (board: Board): GainBoard[] => {
  const { metric } = board;
  if (metric.source === "XP") return isTotal(board) ? [] : [{ board, currencyKey: null }];
  const isEarned = metric.source === "CURRENCY" && metric.mode === "EARNED";
  return isEarned ? [{ board, currencyKey: metric.currencyKey }] : [];
};

/** Returns whether a board shows players' current values rather than submissions or events. */
export const followsPlayer = (board: Board): boolean => isTotal(board) || valueOf(board) !== undefined;

const holdingBoards = (boards: readonly Board[]): HoldingBoards => ({
  xp: boards.filter(isTotal),
  gains: boards.flatMap(gainOf),
  values: boards.flatMap((board) => {
    const read = valueOf(board);
    return read ? [{ board, read }] : [];
  }),
});

/** Returns the current values of the turn's player that boards show. */
export const holdingsOf = (
  { values }: Pick<HoldingBoards, "values">,
  turn: Pick<Turn, "project" | "player" | "effects">,
): HoldingsBefore => ({
  values: values.map(({ read }) => read(turn)),
  ledger: turn.effects.ledger.length,
});

/**
 * Records changes of the player's holdings by the turn on the boards that follow them, at the time of its
 * event.
 * @returns the keys of boards whose period is closed
 */
export const scoreHoldings = (boards: HoldingBoards, turn: Turn, xpBefore: number): string[] => {
  if (turn.player.xp !== xpBefore) scoreXp(boards, turn);
  const closed = boards.gains.length > 0 ? scoreGains(boards, turn) : [];
  if (boards.values.length > 0) closed.push(...scoreValues(boards, turn));
  turn.root.before = holdingsOf(boards, turn);
  delete turn.root.spentGains;
  return closed;
};

/**
 * Records the losses of reverted gains, at the time of the turn's event, before what else the turn changes.
 * @returns the keys of boards whose period is closed
 */
export const loseGains = (boards: Pick<HoldingBoards, "gains">, turn: Turn): string[] => {
  const closed = scoreGains(boards, turn);
  turn.root.before = { ...turn.root.before, ledger: turn.effects.ledger.length };
  delete turn.root.spentGains;
  return closed;
};

/** Records the player's total XP on all boards of it. A player without XP enters with the first gain. */
export const scoreXp = ({ xp: boards }: Pick<HoldingBoards, "xp">, turn: Turn): void => {
  const { xp } = turn.player;
  for (const board of boards) setValue(turn, board, { value: xp, atMs: turn.event.at });
};

type Value = { value: number; atMs: number };

/** @returns whether the period of that time is open */
const setValue = (turn: Turn, board: Board, { value, atMs: at }: Value): boolean => {
  // A board without periods always uses its current window, also for events before a reset.
  const atMs = board.period.kind === "ALL_TIME" ? turn.nowMs : at;
  if (value === 0 && !entryAt(board, turn.player, { at: atMs })) return true;
  const rankScore = toRankScore(board, value);
  const { refusal } = record(turn, board, {
    operator: "REPLACE",
    rankScore,
    atUs: toUs(at),
    moment: { at: atMs },
  });
  return refusal?.reason !== "LEADERBOARD_CLOSED";
};

const scoreGains = ({ gains }: Pick<HoldingBoards, "gains">, turn: Turn): string[] => {
  const gained = gainsSince(turn);
  const closed: string[] = [];
  for (const { board, currencyKey } of gains) {
    const amount = gained.get(currencyKey) ?? 0;
    if (amount === 0 || (amount < 0 && !entryAt(board, turn.player, turn.event))) continue;
    const operation = { operator: "SUM" as const, rankScore: toRankScore(board, amount) };
    const { refusal } = record(turn, board, { ...operation, atUs: toUs(turn.event.at), moment: turn.event });
    if (refusal?.reason === "LEADERBOARD_CLOSED") closed.push(board.key);
  }
  return closed;
};

/**
 * Returns the gains of the turn's player by currency key, null for XP. Losses and spending do not count; a
 * revert of the event's gains counts negative, also where they are spent; amounts from a merge were gained
 * before.
 */
const gainsSince = ({ effects, player, root }: Turn): Map<string | null, number> => {
  const gained = new Map<string | null, number>();
  for (let i = root.before.ledger; i < effects.ledger.length; i++) {
    const { playerId, asset, currencyKey, amount, reverses, cause } = effects.ledger[i]!;
    if (playerId !== player.id || asset === "LIVES" || cause.kind === "MERGE") continue;
    if (amount > 0 !== (reverses === null)) continue;
    gained.set(currencyKey, (gained.get(currencyKey) ?? 0) + amount);
  }
  for (const [key, amount] of root.spentGains ?? []) gained.set(key, (gained.get(key) ?? 0) - amount);
  return gained;
};

/**
 * Records a changed value in the window of the event, and in the current window, if another, where the player
 * has an entry: changes by a late event are part of the current value.
 */
const scoreValues = ({ values }: HoldingBoards, turn: Turn): string[] => {
  const { player, event, nowMs, root } = turn;
  const closed: string[] = [];
  values.forEach(({ board, read }, i) => {
    const value = read(turn);
    if (value === root.before.values[i]) return;
    if (!setValue(turn, board, { value, atMs: event.at })) closed.push(board.key);
    if (isOnNow(board, player, turn)) setValue(turn, board, { value, atMs: nowMs });
  });
  return closed;
};

const isOnNow = (board: Board, player: PlayerState, { event, nowMs }: Turn): boolean => {
  if (board.period.kind === "ALL_TIME") return false;
  const now = findList(board, player, { at: nowMs });
  const then = findList(board, player, event);
  if (typeof now === "string" || (typeof then !== "string" && then.id === now.id)) return false;
  return player.entries.has(now.id);
};

/** Returns the score of an event; undefined when the event does not count. */
export type ScoreOf = (context: EventContext) => number | undefined;
type Listener = { board: Board; scoreOf: ScoreOf };

/** The active boards of a project by their source. */
export type BoardIndex = HoldingBoards & { forEvent(eventType: string): readonly Listener[] };

/**
 * Indexes a project's active boards by their source, in slices. To be built once per config version, since
 * filters are compiled here.
 */
export function* boardPieces(boards: readonly Board[]): Steps<BoardIndex> {
  const active = boards.filter((board) => board.status === "ACTIVE");
  const listeners: (Listener & { patterns: readonly string[] })[] = [];
  for (const board of active) {
    const { metric } = board;
    if (metric.source !== "EVENT") continue;
    yield;
    listeners.push({ board, scoreOf: compileScore(metric), patterns: metric.event.eventTypes });
  }
  return { ...holdingBoards(active), forEvent: createTypeIndex(listeners, (found) => found) };
}

/**
 * Compiles an event's score by its metric: 1 for count, otherwise the property, which counts only if it is a
 * finite number.
 */
export const compileScore = ({
  event,
  aggregate,
  property,
}: Extract<Metric, { source: "EVENT" }>): ScoreOf => {
  const passes = event.filter ? compileFilter(event.filter) : () => true;
  const read = aggregate === "count" ? () => 1 : compilePath(property!);
  return (turn) => {
    if (!passes(turn)) return undefined;
    const score = read(turn.event.properties);
    return typeof score === "number" && Number.isFinite(score) ? score : undefined;
  };
};

/** Scores the turn's event on every board that listens to it. */
export const scoreEvent = (turn: Turn, index: Pick<BoardIndex, "forEvent">): void => {
  const { type, at, depth } = turn.event;
  for (const { board, scoreOf } of index.forEvent(type)) {
    const score = scoreOf(turn);
    // The lists of derived events are not known when the player is loaded.
    if (score === undefined || (depth > 0 && board.breakdownProperty !== undefined)) continue;
    const rankScore = toRankScore(board, score);
    record(turn, board, { operator: board.operator, rankScore, atUs: toUs(at), moment: turn.event });
  }
};
