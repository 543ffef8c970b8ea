import { runsAround } from "../language/patterns.ts";
import type { PlayerState, QuestState } from "../player-state.ts";
import type { PlanTurn } from "../project-plan.ts";
import { type CompiledQuest, versionOf } from "./compile.ts";
import type { Quest } from "./quest.ts";
import type { QuestRow } from "./row.ts";
import { periodName } from "../streaks/periods.ts";
import { isoOf } from "../../kernel/iso-time.ts";
import {
  type Calendar,
  type CalendarProject,
  type CalendarUnit,
  calendarOf,
  windowNumber,
  windowStart,
} from "../../kernel/zones.ts";

/**
 * A cycle of a repeating quest: it is named by a key that follows from a moment and a time zone, so nothing
 * has to happen when one begins. Keys of one mode sort in the order of time.
 */
type Cycle = {
  key: string;
  /** In [startMs, endMs). */
  startMs: number;
  endMs: number;
};

const UNITS: Partial<Record<Quest["repeat"]["mode"], CalendarUnit>> = {
  DAILY: "DAY",
  WEEKLY: "WEEK",
  MONTHLY: "MONTH",
};

/** The key of the only cycle of a quest that does not repeat. */
const ONCE = "once";

/**
 * Cycles of schedules by zone, of which one is found by a search of some 300 us. As many as 500 quests have
 * in a hundred zones, some 10 MiB: with fewer, each event of such a project might search for those of its
 * player.
 */
const CRON_CYCLES_MAX = 50_000;
const cronCycles = new Map<string, Cycle>();

/** Before the first time of a schedule there is no cycle; such a moment belongs to one that ends with it. */
const cronCycle = (cron: string, zone: string, atMs: number): Cycle => {
  const name = `${zone} ${cron}`;
  const known = cronCycles.get(name);
  if (known && known.startMs <= atMs && atMs < known.endMs) return known;
  const { last: startMs = -Infinity, next: endMs = Infinity } = runsAround(cron, zone, atMs);
  const cycle = { key: startMs === -Infinity ? "first" : isoOf(startMs), startMs, endMs };
  cronCycles.delete(name);
  cronCycles.set(name, cycle);
  if (cronCycles.size > CRON_CYCLES_MAX) cronCycles.delete(cronCycles.keys().next().value!);
  return cycle;
};

const calendarCycle = (unit: CalendarUnit, calendar: Calendar, atMs: number): Cycle => {
  const period = windowNumber(unit, calendar, atMs);
  return {
    key: periodName(unit, period),
    startMs: windowStart(unit, calendar, period),
    endMs: windowStart(unit, calendar, period + 1),
  };
};

/**
 * Returns the cycle of a moment.
 * @param calendar that the quest's cycles follow; schedules go by its zone alone
 * @param sequence number of the cycle, for quests that repeat UNLIMITED
 */
export const cycleAt = (
  { mode, cron }: Quest["repeat"],
  calendar: Calendar,
  atMs: number,
  sequence = 1,
): Cycle => {
  if (mode === "CRON") return cronCycle(cron!, calendar.zone, atMs);
  const unit = UNITS[mode];
  if (unit) return calendarCycle(unit, calendar, atMs);
  return { key: mode === "NONE" ? ONCE : String(sequence), startMs: -Infinity, endMs: Infinity };
};

/** Returns whether cycles follow from time. */
export const hasPeriods = ({ mode }: Quest["repeat"]): boolean =>
  mode === "CRON" || UNITS[mode] !== undefined;

/** A player and the project, for time zones and stored quests. */
export type QuestOwner = {
  player: Pick<PlayerState, "quests" | "timezone">;
  project: CalendarProject;
};

/** Returns the calendar that a player's cycles or periods follow. */
export const calendarFor = (whose: "PLAYER" | "PROJECT", { player, project }: QuestOwner): Calendar =>
  calendarOf(project, whose === "PROJECT" ? null : player.timezone);

/** Returns the version that a row is done by: the current one where its own is no longer kept. */
export const doneBy = (quest: CompiledQuest, row: QuestRow): CompiledQuest =>
  versionOf(quest, row.version) ?? quest;

/** Returns whether a quest's time is over at a moment, besides players who may still finish it. */
const isOver = ({ untilMs, endedMs }: CompiledQuest, atMs: number): boolean =>
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

/** Returns when a row is over, with what may be claimed of it; Infinity for never. */
export const endOf = (quest: CompiledQuest, row: QuestRow): number => {
  if (row.state === "COMPLETED") return row.claimUntilMs ?? Infinity;
  return row.state === "IN_PROGRESS" ? deadlineOf(quest, row) : Infinity;
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
  const cycleOf: CycleOf = (sequence) => cycleAt(repeat, calendarFor(repeat.timezone, owner), atMs, sequence);
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

/** Why the player's latest cycle keeps the next one from being started, after it has been settled. */
const whyTaken = (turn: PlanTurn, { definition: { repeat } }: CompiledQuest, latest: QuestRow): string => {
  const { at } = turn.event;
  const { state, cycleKey, completions, lastCompletedMs } = latest;
  if (state === "IN_PROGRESS") return "it is in progress already";
  const { maxCompletions = Infinity, cooldownSeconds = 0 } = repeat;
  if (completions >= maxCompletions)
    return `the player has completed it ${completions} times, and it can be done ${maxCompletions} times`;
  const restedMs = (lastCompletedMs ?? -Infinity) + cooldownSeconds * 1_000;
  if (at < restedMs) return `it can be started again at ${isoOf(restedMs)}, after its cooldown`;
  if (!hasPeriods(repeat)) return `it is ${state}, and can be done once`;
  const { endMs } = cycleAt(repeat, calendarFor(repeat.timezone, turn), at);
  const next = Number.isFinite(endMs) ? `; the next one begins at ${isoOf(endMs)}` : "";
  return `its cycle ${cycleKey} is ${state}${next}`;
};

/** Returns in words why a player has no cycle to start, where `freeCycle` finds none. */
export const whyNotFree = (turn: PlanTurn, quest: CompiledQuest): string => {
  const { at } = turn.event;
  if (quest.phase === "PAUSED") return "the quest is PAUSED";
  if (isOver(quest, at)) return "the quest is over";
  if (at < quest.fromMs) return `the quest begins at ${isoOf(quest.fromMs)}`;
  const latest = turn.player.quests.get(quest.key)?.latest;
  return latest ? whyTaken(turn, quest, latest) : "the quest is not offered now";
};
