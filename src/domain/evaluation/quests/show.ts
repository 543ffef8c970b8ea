import type { PlanTurn } from "../project-plan.ts";
import type { RewardBundle } from "../rewards/bundle.ts";
import { type CompiledQuest, versionOf } from "./compile.ts";
import { deadlineOf, doneBy, type NextCycle, zoneFor } from "./context.ts";
import { cycleAt, hasPeriods } from "./cycles.ts";
import { type LockedBy, lockedBy } from "./locked.ts";
import { isAvailable } from "./places.ts";
import type { PlayerQuestState, QuestRow } from "./row.ts";
import { attemptsLeft, type StepState, stepStates } from "./step-states.ts";
import type { QuizStep } from "./step.ts";
import { freeCycle } from "./start.ts";
import { questName, questTexts, type QuestTexts, stepTexts, type StepTexts } from "./texts.ts";
import { questPercent, shownValue, stepPercent } from "./values.ts";

/** How far a player is with a step. Times are ISO 8601. */
export type StepOutline = {
  stepKey: string;
  kind: string;
  state: StepState;
  value: number;
  target: number;
  percent: number;
  completedAt: string | null;
  /** CODE and QUIZ with a limit: how often the player may still try. */
  attemptsLeft?: number;
};

/** A step of a player's quest as the API shows it. */
export type PlayerQuestStep = StepOutline &
  StepTexts & {
    /** QUIZ, where one quest is read: what is asked. */
    questions?: AskedQuestion[];
  };

/** A question without its answer. */
export type AskedQuestion = Pick<QuizStep["questions"][number], "key" | "prompt" | "options">;

/** A completed cycle whose rewards wait to be claimed. Times are ISO 8601. */
export type ClaimableCycle = {
  cycleKey: string;
  completedAt: string;
  /** Null for ever. */
  claimUntil: string | null;
  rewards: RewardBundle;
};

/** How far a player is with a quest; `id` is null while it has not been started in its cycle. */
export type QuestOutline = {
  id: string | null;
  questKey: string;
  questId: string;
  questVersion: number;
  name: string;
  cycleKey: string;
  state: PlayerQuestState;
  percent: number;
  steps: StepOutline[];
  startedAt: string | null;
  expiresAt: string | null;
  completedAt: string | null;
  claimedAt: string | null;
  resetsAt: string | null;
  /** Of all cycles, oldest first. */
  claimable: ClaimableCycle[];
  lockedBy?: LockedBy[];
};

/** A player's quest as the API shows it. */
export type PlayerQuest = Omit<QuestOutline, "steps"> & QuestTexts & { steps: PlayerQuestStep[] };

const isoOf = (ms: number | null): string | null =>
  ms === null || !Number.isFinite(ms) ? null : new Date(ms).toISOString();

type Standing = { row?: QuestRow; mayStart?: boolean };

const showSteps = (turn: PlanTurn, quest: CompiledQuest, { row, mayStart }: Standing): StepOutline[] => {
  const states = stepStates(quest, row, mayStart);
  return quest.steps.map((step, i) => {
    const { key, kind } = step.definition;
    const value = row ? shownValue(turn, row, step) : 0;
    const doneMs = row?.steps[key]?.doneMs;
    const left = attemptsLeft(step, row);
    return {
      stepKey: key,
      kind,
      state: states[i]!,
      value,
      target: step.target,
      percent: stepPercent(step, { value, isDone: doneMs !== undefined }),
      completedAt: isoOf(doneMs ?? null),
      ...(left === undefined ? {} : { attemptsLeft: left }),
    };
  });
};

/** Returns when the next cycle begins; null for a quest without periods. */
const resetsAt = (turn: PlanTurn, { definition: { repeat } }: CompiledQuest): string | null =>
  hasPeriods(repeat) ? isoOf(cycleAt(repeat, zoneFor(repeat.timezone, turn), turn.event.at).endMs) : null;

/** Returns the cycles of a player's quest whose rewards can be claimed at the turn's time, oldest first. */
const claimableOf = (turn: PlanTurn, quest: CompiledQuest): ClaimableCycle[] => {
  const state = turn.player.quests.get(quest.key);
  if (!state) return [];
  return [...state.older, state.latest]
    .filter(({ state: is, claimUntilMs }) => is === "COMPLETED" && turn.event.at < (claimUntilMs ?? Infinity))
    .map((row) => ({
      cycleKey: row.cycleKey,
      completedAt: isoOf(row.completedMs)!,
      claimUntil: isoOf(row.claimUntilMs),
      rewards: doneBy(quest, row).definition.rewards,
    }));
};

/** Adds the texts of the version that a player does, in the player's language. */
const withTexts = (
  { player: { locale } }: PlanTurn,
  { definition }: CompiledQuest,
  outline: QuestOutline,
): PlayerQuest => ({
  ...outline,
  ...questTexts(definition, locale),
  steps: outline.steps.map((step, i) => ({
    ...step,
    ...stepTexts(definition, definition.steps[i]!, locale),
  })),
});

/** Returns how far a player is with one cycle of a quest, without its texts. */
export const outlineRow = (turn: PlanTurn, quest: CompiledQuest, row: QuestRow): QuestOutline => {
  const version = doneBy(quest, row);
  const isRunning = row.state === "IN_PROGRESS";
  const deadline = row.state === "COMPLETED" ? row.claimUntilMs : isRunning ? deadlineOf(quest, row) : null;
  return {
    id: row.id,
    questKey: quest.key,
    questId: quest.id,
    questVersion: row.version,
    name: questName(version.definition, turn.player.locale),
    cycleKey: row.cycleKey,
    state: row.state === "RESET" ? "AVAILABLE" : row.state,
    percent: isRunning ? questPercent(turn, version, row) : row.percent,
    steps: showSteps(turn, version, { row }),
    startedAt: isoOf(row.startedMs),
    expiresAt: isoOf(deadline),
    completedAt: isoOf(row.completedMs),
    claimedAt: isoOf(row.claimedMs),
    resetsAt: resetsAt(turn, quest),
    claimable: claimableOf(turn, quest),
  };
};

/** Returns the API form of one cycle of a player's quest. */
export const showRow = (turn: PlanTurn, quest: CompiledQuest, row: QuestRow): PlayerQuest =>
  withTexts(turn, doneBy(quest, row), outlineRow(turn, quest, row));

/** What a player is shown of a quest: the row of a cycle, or a cycle that may be started. */
export type Current = { row: QuestRow } | { next: NextCycle };

/** A cycle stays visible until the next one may be started; so does one that was abandoned. */
const isVisible = ({ state }: QuestRow, next: NextCycle | undefined): boolean =>
  next === undefined || (next.again !== undefined && state === "ABANDONED");

/** Returns what applies to the cycle of the turn's time; undefined where the quest is not offered. */
export const currentOf = (turn: PlanTurn, quest: CompiledQuest): Current | undefined => {
  const state = turn.player.quests.get(quest.key);
  const next = freeCycle(quest, turn, state, turn.event.at);
  if (state && isVisible(state.latest, next)) return { row: state.latest };
  return next && { next };
};

const showVirtual = (turn: PlanTurn, quest: CompiledQuest, { cycle }: NextCycle): PlayerQuest => {
  const mayStart = isAvailable(turn, quest);
  const outline = {
    id: null,
    questKey: quest.key,
    questId: quest.id,
    questVersion: quest.version,
    name: quest.definition.name,
    cycleKey: cycle.key,
    state: mayStart ? ("AVAILABLE" as const) : ("LOCKED" as const),
    percent: 0,
    steps: showSteps(turn, quest, { mayStart }),
    startedAt: null,
    expiresAt: null,
    completedAt: null,
    claimedAt: null,
    resetsAt: resetsAt(turn, quest),
    claimable: claimableOf(turn, quest),
    ...(mayStart ? {} : { lockedBy: lockedBy(turn, quest) }),
  };
  return withTexts(turn, quest, outline);
};

/**
 * Returns a player's quest in the cycle of the turn's time, which must have been settled; undefined for one
 * that is neither begun nor offered.
 */
export const showQuest = (turn: PlanTurn, quest: CompiledQuest): PlayerQuest | undefined => {
  const current = currentOf(turn, quest);
  if (!current) return undefined;
  return "row" in current ? showRow(turn, quest, current.row) : showVirtual(turn, quest, current.next);
};

/**
 * Returns a shown quest with what its quizzes ask, never with the answers.
 * @param quest the current version; the player may do an earlier one
 */
export const withQuestions = (quest: CompiledQuest, shown: PlayerQuest): PlayerQuest => {
  const { definition } = versionOf(quest, shown.questVersion) ?? quest;
  const steps = shown.steps.map((one): PlayerQuestStep => {
    const step = definition.steps.find(({ key }) => key === one.stepKey);
    if (step?.kind !== "QUIZ") return one;
    return {
      ...one,
      questions: step.questions.map(({ key, prompt, options }) => ({ key, prompt, options })),
    };
  });
  return { ...shown, steps };
};
