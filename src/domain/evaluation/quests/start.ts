import { newId } from "../../kernel/ids.ts";
import { adjustCurrency } from "../currencies/adjust.ts";
import type { QuestState } from "../player-state.ts";
import type { Turn } from "../turn.ts";
import type { CompiledQuest } from "./compile.ts";
import { isOffered, isRested, nextCycle, type NextCycle, type QuestOwner } from "./context.ts";
import { takePlace } from "./places.ts";
import { withFirst } from "./progress.ts";
import { causeOf, rewardKey } from "./rewards.ts";
import type { QuestRow, StartedBy } from "./row.ts";
import { emitQuest, storeLatest, storeNext, subjectOf } from "./store.ts";

/** Returns the cycle that a player may start at a moment, besides audience and prerequisites. */
export const freeCycle = (
  quest: CompiledQuest,
  owner: QuestOwner,
  state: QuestState | undefined,
  atMs: number,
): NextCycle | undefined => {
  if (!isOffered(quest, atMs) || !isRested(quest, state?.latest, atMs)) return undefined;
  return nextCycle(quest, owner, state, atMs);
};

const isoOf = (ms: number): string => new Date(ms).toISOString();

/** Number of completions so far, and the time of the last one. */
const soFar = (latest: QuestRow | undefined): Pick<QuestRow, "completions" | "lastCompletedMs"> => ({
  completions: latest?.completions ?? 0,
  lastCompletedMs: latest?.lastCompletedMs ?? null,
});

/** When a row that starts at a moment expires; null for never. */
const expiryOf = ({ definition }: CompiledQuest, endMs: number, atMs: number): number | null => {
  const { timeLimitSeconds = Infinity } = definition;
  const expiresMs = Math.min(endMs, atMs + timeLimitSeconds * 1_000);
  return expiresMs === Infinity ? null : expiresMs;
};

/** What a row that is started again in its cycle keeps. */
const keptOf = (row: QuestRow | undefined): Pick<QuestRow, "rewarded" | "isPaid" | "again"> => ({
  rewarded: row?.rewarded ?? [],
  ...(row?.isPaid ? { isPaid: true } : {}),
  ...(row?.again === undefined ? {} : { again: row.again }),
});

const rowOf = (
  quest: CompiledQuest,
  turn: Turn,
  { cycle, again }: NextCycle,
  startedBy: StartedBy,
): QuestRow => {
  const { at } = turn.event;
  const row: QuestRow = {
    // A cycle keeps its row, so that its rewards are granted once.
    id: again?.id ?? newId(),
    version: quest.version,
    cycleKey: cycle.key,
    state: "IN_PROGRESS",
    percent: 0,
    startedMs: at,
    startedBy,
    expiresMs: expiryOf(quest, cycle.endMs, at),
    completedMs: null,
    claimedMs: null,
    claimUntilMs: null,
    ...soFar(turn.player.quests.get(quest.key)?.latest),
    steps: {},
    ...keptOf(again),
    ...(turn.root.isTracked ? { eventId: turn.root.id } : {}),
  };
  return withFirst(quest, row, at);
};

/** Why a start is refused. */
export type StartProblem = {
  reason: "QUEST_NOT_AVAILABLE" | "LIMIT_REACHED" | "INSUFFICIENT_FUNDS";
  message: string;
};

/** Takes the entry cost of a row that has not been paid for. */
const payEntry = (turn: Turn, quest: CompiledQuest, row: QuestRow): StartProblem | undefined => {
  const { cost } = quest.definition.start;
  if (!cost || row.isPaid) return undefined;
  const { currencyKey, amount } = cost;
  const cause = causeOf(turn, quest);
  const paying = {
    currencyKey,
    amount: -amount,
    cause,
    key: rewardKey(row, "start"),
    reason: `quest:${quest.key}`,
  };
  if (adjustCurrency(turn, paying).problem === undefined) return undefined;
  const message = `the start costs ${amount} of the currency ${currencyKey}, which the player does not have`;
  return { reason: "INSUFFICIENT_FUNDS", message };
};

/**
 * Starts a quest at the wish of a request or rule: its entry cost is paid.
 * @returns the row, or why it is refused
 */
export const startPaid = (
  turn: Turn,
  quest: CompiledQuest,
  next: NextCycle,
  startedBy: StartedBy,
): QuestRow | StartProblem => {
  const row = rowOf(quest, turn, next, startedBy);
  const problem = payEntry(turn, quest, row);
  if (problem) return problem;
  const isPaid = quest.definition.start.cost === undefined ? {} : { isPaid: true as const };
  return beginRow(turn, quest, { next, row: { ...row, ...isPaid } });
};

/** Starts a quest for the turn's player. @returns the row, which has been stored */
export const startQuest = (
  turn: Turn,
  quest: CompiledQuest,
  next: NextCycle,
  startedBy: StartedBy,
): QuestRow => {
  return beginRow(turn, quest, { next, row: rowOf(quest, turn, next, startedBy) });
};

const beginRow = (
  turn: Turn,
  quest: CompiledQuest,
  { next, row }: { next: NextCycle; row: QuestRow },
): QuestRow => {
  takePlace(turn, quest);
  if (next.again) storeLatest(turn, quest.key, row);
  else storeNext(turn, quest.key, row);
  emitQuest(turn, "quest.started", {
    ...subjectOf(turn, quest, row),
    questId: quest.id,
    questVersion: row.version,
    startedBy: row.startedBy,
    expiresAt: row.expiresMs === null ? null : isoOf(row.expiresMs),
    startedAt: isoOf(row.startedMs),
  });
  return row;
};
