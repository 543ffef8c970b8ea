import { newId } from "../../kernel/ids.ts";
import type { QuestState } from "../player-state.ts";
import type { Turn } from "../turn.ts";
import type { CompiledQuest } from "./compile.ts";
import { isOffered, isRested, nextCycle, type NextCycle, type QuestOwner } from "./context.ts";
import { withFirst } from "./progress.ts";
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
    rewarded: again?.rewarded ?? [],
  };
  return withFirst(quest, row, at);
};

/** Starts a quest for the turn's player. @returns the row, which has been stored */
export const startQuest = (
  turn: Turn,
  quest: CompiledQuest,
  next: NextCycle,
  startedBy: StartedBy,
): QuestRow => {
  const row = rowOf(quest, turn, next, startedBy);
  if (next.again) storeLatest(turn, quest.key, row);
  else storeNext(turn, quest.key, row);
  emitQuest(turn, "quest.started", {
    ...subjectOf(turn, quest, row),
    questId: quest.id,
    questVersion: row.version,
    startedBy,
    expiresAt: row.expiresMs === null ? null : isoOf(row.expiresMs),
    startedAt: isoOf(row.startedMs),
  });
  return row;
};
