import { firstZone } from "../../kernel/zones.ts";
import type { PlayerState, QuestState } from "../player-state.ts";
import type { PlanTurn } from "../project-plan.ts";
import { type CompiledQuest, versionOf } from "./compile.ts";
import { type Cycle, cycleAt, hasPeriods } from "./cycles.ts";
import type { QuestRow } from "./row.ts";

/** A player and the project, for time zones and stored quests. */
export type QuestOwner = {
  player: Pick<PlayerState, "quests" | "timezone">;
  project: Pick<PlanTurn["project"], "timezone">;
};

/** Returns the zone that a player's cycles or periods follow. */
export const zoneFor = (whose: "PLAYER" | "PROJECT", { player, project }: QuestOwner): string =>
  whose === "PROJECT" ? firstZone(project.timezone) : firstZone(player.timezone, project.timezone);

/** Returns the version that a row is done by: the current one where its own is no longer kept. */
export const doneBy = (quest: CompiledQuest, row: QuestRow): CompiledQuest =>
  versionOf(quest, row.version) ?? quest;

/** Returns whether a quest's time is over at a moment, besides players who may still finish it. */
export const isOver = ({ untilMs, endedMs }: CompiledQuest, atMs: number): boolean =>
  atMs >= Math.min(untilMs, endedMs);

/** Returns whether a quest may be started at a moment, as far as its designer decides. */
export const isOffered = (quest: CompiledQuest, atMs: number): boolean =>
  quest.phase === "RUNNING" && atMs >= quest.fromMs && !isOver(quest, atMs);

const outlastsEnd = ({ definition }: CompiledQuest): boolean =>
  definition.timeLimitSeconds !== undefined &&
  (definition.finishAfterEnd ?? definition.repeat.mode === "NONE");

/** Returns when a row in progress expires; Infinity for never. */
export const deadlineOf = (quest: CompiledQuest, row: QuestRow): number => {
  const own = row.expiresMs ?? Infinity;
  return outlastsEnd(doneBy(quest, row)) ? own : Math.min(own, quest.untilMs, quest.endedMs);
};

/** Returns a row that a sweep looks at when the quest ends: somebody waits for what becomes of it then. */
export const withEnd = (quest: CompiledQuest, row: QuestRow): QuestRow => {
  const { endsMs: _before, ...kept } = row;
  const endsMs = deadlineOf(quest, { ...row, expiresMs: null });
  return Number.isFinite(endsMs) ? { ...kept, endsMs } : kept;
};

/** The cycle that a player may start, and the row that is started again in it, if there is one. */
export type NextCycle = { cycle: Cycle; again: QuestRow | undefined };

const canRestart = ({ state }: QuestRow): boolean => state === "ABANDONED" || state === "RESET";

type CycleOf = (sequence: number) => Cycle;

/** After cycles of another mode numbers begin at the time in s, so that none is taken by an earlier cycle. */
const nextUnlimited = (latest: QuestRow, cycleOf: CycleOf, atMs: number): NextCycle => {
  if (canRestart(latest)) return { cycle: { ...cycleOf(1), key: latest.cycleKey }, again: latest };
  const last = Number(latest.cycleKey);
  const sequence = Number.isInteger(last) ? last : Math.max(1, Math.floor(atMs / 1_000));
  return { cycle: cycleOf(sequence + 1), again: undefined };
};

/** Whether a key is of a later cycle than another; of two modes there is no order, and any is later. */
const isLater = (key: string, than: string): boolean => key.length !== than.length || key > than;

/**
 * Returns the cycle that a player may start at a moment as far as earlier ones decide; undefined where the
 * current one is taken.
 */
export const nextCycle = (
  quest: CompiledQuest,
  owner: QuestOwner,
  state: QuestState | undefined,
  atMs: number,
): NextCycle | undefined => {
  const { repeat } = quest.definition;
  const latest = state?.latest;
  const cycleOf: CycleOf = (sequence) => cycleAt(repeat, zoneFor(repeat.timezone, owner), atMs, sequence);
  if (!latest) return { cycle: cycleOf(1), again: undefined };
  if (latest.state === "IN_PROGRESS") return undefined;
  if (repeat.mode === "UNLIMITED") return nextUnlimited(latest, cycleOf, atMs);
  const cycle = cycleOf(1);
  if (cycle.key === latest.cycleKey || !hasPeriods(repeat))
    return canRestart(latest) ? { cycle: { ...cycle, key: latest.cycleKey }, again: latest } : undefined;
  // A player who has moved to another zone does not get a cycle twice.
  const isFree = latest.startedMs < cycle.startMs && isLater(cycle.key, latest.cycleKey);
  return isFree ? { cycle, again: undefined } : undefined;
};

/** Returns whether cooldown and number of completions permit another start. */
export const isRested = (
  { definition: { repeat } }: CompiledQuest,
  latest: QuestRow | undefined,
  atMs: number,
): boolean => {
  if (!latest) return true;
  const { cooldownSeconds = 0, maxCompletions = Infinity } = repeat;
  const { completions, lastCompletedMs } = latest;
  return (
    completions < maxCompletions &&
    (lastCompletedMs === null || atMs >= lastCompletedMs + cooldownSeconds * 1_000)
  );
};
