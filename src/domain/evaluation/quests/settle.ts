import type { Turn } from "../turn.ts";
import { type CompiledQuest, keptVersions, versionOf } from "./compile.ts";
import { deadlineOf, doneBy } from "./context.ts";
import { completeQuest, expireQuest } from "./finish.ts";
import { isDone, settleSteps, withFirst } from "./progress.ts";
import { isOpenState, type QuestRow } from "./row.ts";
import { dropCounts, storeRow } from "./store.ts";

/** Maximum earlier cycles of a quest whose rewards wait to be claimed; beyond it the oldest is lost. */
export const OPEN_CYCLES_MAX = 20;

const isUnclaimed = ({ state }: QuestRow): boolean => state === "COMPLETED";

const isLapsed = ({ claimUntilMs }: QuestRow, atMs: number): boolean =>
  claimUntilMs !== null && atMs >= claimUntilMs;

const settleOlder = (turn: Turn, quest: CompiledQuest): void => {
  const { older } = turn.player.quests.get(quest.key)!;
  if (older.length === 0) return;
  const unclaimed = older.filter(isUnclaimed);
  const excess = unclaimed.length - OPEN_CYCLES_MAX;
  unclaimed.forEach((row, i) => {
    if (i < excess || isLapsed(row, turn.event.at)) expireQuest(turn, quest, row);
  });
};

/** Keeps progress of steps with the same key; of one that is of another kind now only whether it is done. */
const carriedSteps = (
  from: CompiledQuest | undefined,
  to: CompiledQuest,
  { steps }: QuestRow,
): QuestRow["steps"] => {
  const kindsOf = (quest: CompiledQuest | undefined): Map<string, string> =>
    new Map(quest?.definition.steps.map(({ key, kind }) => [key, kind]));
  const [before, now] = [kindsOf(from), kindsOf(to)];
  return Object.fromEntries(
    Object.entries(steps).flatMap(([key, progress]) => {
      const kind = now.get(key);
      if (kind === undefined) return [];
      if ((before.get(key) ?? kind) === kind) return [[key, progress]];
      const { value: _value, attempts: _tried, failedMs: _failed, pending: _waits, ...kept } = progress;
      return [[key, kept]];
    }),
  );
};

/** Applies the current version to a row that was begun with another one. */
const adoptVersion = (turn: Turn, quest: CompiledQuest, row: QuestRow): void => {
  if (keptVersions(quest).includes(row.version)) return;
  const { version } = quest;
  if (quest.definition.onVersionChange === "RESTART") {
    dropCounts(turn, row);
    const fresh: QuestRow = { ...row, version, percent: 0, steps: {}, startedMs: turn.event.at };
    return storeRow(turn, quest.key, withFirst(quest, fresh, turn.event.at));
  }
  const steps = carriedSteps(versionOf(quest, row.version), quest, row);
  const carried: QuestRow = { ...row, version, steps };
  storeRow(turn, quest.key, carried);
  // What was done may complete the new version.
  if (isDone(quest, carried)) return completeQuest(turn, quest, carried);
  settleSteps(turn, quest, carried);
};

/**
 * Expires what is over at the time of the turn's event. Doing so at moments in between does not change the
 * outcome.
 * @returns the row that is still in progress, if there is one
 */
export const expireDue = (turn: Turn, quest: CompiledQuest): QuestRow | undefined => {
  const state = turn.player.quests.get(quest.key);
  if (!state) return undefined;
  const { at } = turn.event;
  settleOlder(turn, quest);
  const { latest } = state;
  if (!isOpenState(latest.state)) return undefined;
  const untilMs = isUnclaimed(latest) ? (latest.claimUntilMs ?? Infinity) : deadlineOf(quest, latest);
  if (at < untilMs) return isUnclaimed(latest) ? undefined : latest;
  expireQuest(turn, quest, latest);
  return undefined;
};

/**
 * Brings a player's quest to the time of the turn's event: what is over expires, and what is in progress goes
 * on with the version that applies.
 */
export const settleQuest = (turn: Turn, quest: CompiledQuest): void => {
  const running = expireDue(turn, quest);
  if (running && quest.phase === "RUNNING") adoptVersion(turn, quest, running);
};

/** Returns the version by which a player's quest in progress is done, with its row. */
export const inProgress = (
  turn: Turn,
  quest: CompiledQuest,
): { version: CompiledQuest; row: QuestRow } | undefined => {
  const latest = turn.player.quests.get(quest.key)?.latest;
  return latest?.state === "IN_PROGRESS" ? { version: doneBy(quest, latest), row: latest } : undefined;
};
