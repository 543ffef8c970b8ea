import { publish } from "../emit.ts";
import { asReceived } from "../live.ts";
import type { QuestState } from "../player-state.ts";
import type { PlanTurn } from "../project-plan.ts";
import { type LockedBy, lockedBy, whyLocked } from "./advance.ts";
import {
  attemptsLeft,
  type CompiledQuest,
  hasPlace,
  isQuestAvailable,
  stepStates,
  versionOf,
} from "./compile.ts";
import { cycleAt, doneBy, endOf, hasPeriods, type NextCycle, whyNotFree, calendarFor } from "./context.ts";
import {
  addToStep,
  forceSteps,
  freeCycle,
  inProgress,
  settleQuest,
  settleSteps,
  startPaid,
  type StartProblem,
  startQuest,
} from "./progress.ts";
import { questName, questTexts, stepTexts } from "./quest.ts";
import { doneIn, type PlayerQuestState, type QuestRow, type StartedBy, type StoredState } from "./row.ts";
import type { QuizStep } from "./step.ts";
import { abandonQuest, failQuest, questPercent, resetQuest, shownValue, stepPercent } from "./store.ts";
import { playerOf, type QuestOrder, type QuestStanding } from "../turn.ts";
import type { Cause } from "../../kernel/events/events.ts";
import { endIsoOf } from "../../kernel/iso-time.ts";

/** A step of a player's quest as the API shows it; QUIZ, where one quest is read: with what is asked. */
type PlayerQuestStep = ReturnType<typeof showSteps>[number] &
  ReturnType<typeof stepTexts> & { questions?: AskedQuestion[] };

/** A question without its answer. */
type AskedQuestion = Pick<QuizStep["questions"][number], "key" | "prompt" | "options">;

/**
 * How far a player is with a quest; `id` is null while it has not been started in its cycle. `claimable`: of all
 * cycles, oldest first.
 */
export type QuestOutline = Omit<ReturnType<typeof outlineRow>, "id"> & {
  id: string | null;
  lockedBy?: LockedBy[];
};

/** A player's quest as the API shows it. */
export type PlayerQuest = Omit<QuestOutline, "steps"> &
  ReturnType<typeof questTexts> & { steps: PlayerQuestStep[] };

type Standing = { row?: QuestRow; mayStart?: boolean };

const showSteps = (turn: PlanTurn, quest: CompiledQuest, { row, mayStart }: Standing) => {
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
      completedAt: endIsoOf(doneMs ?? null),
      ...(left === undefined ? {} : { attemptsLeft: left }),
    };
  });
};

/** Returns when the next cycle begins; null for a quest without periods. */
const resetsAt = (turn: PlanTurn, { definition: { repeat } }: CompiledQuest): string | null =>
  hasPeriods(repeat)
    ? endIsoOf(cycleAt(repeat, calendarFor(repeat.timezone, turn), turn.event.at).endMs)
    : null;

/** Returns the cycles of a player's quest that are loaded, oldest first. */
export const cyclesOf = ({ player }: PlanTurn, { key }: CompiledQuest): QuestRow[] => {
  const state = player.quests.get(key);
  return state ? [...state.older, state.latest] : [];
};

/** Returns the cycles of a player's quest whose rewards can be claimed at the turn's time, oldest first. */
const claimableOf = (turn: PlanTurn, quest: CompiledQuest) =>
  cyclesOf(turn, quest)
    .filter((row) => row.state === "COMPLETED" && turn.event.at < endOf(quest, row))
    .map((row) => ({
      cycleKey: row.cycleKey,
      completedAt: endIsoOf(row.completedMs)!,
      claimUntil: endIsoOf(row.claimUntilMs),
      rewards: doneBy(quest, row).definition.rewards,
    }));

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

const shownState = ({ state }: QuestRow): PlayerQuestState => (state === "RESET" ? "AVAILABLE" : state);

/** Returns the state of a row at the turn's time: what is over by then is EXPIRED, settled or not. */
const stateOf = ({ event }: PlanTurn, quest: CompiledQuest, row: QuestRow): PlayerQuestState =>
  event.at >= endOf(quest, row) ? "EXPIRED" : shownState(row);

const percentOf = (turn: PlanTurn, quest: CompiledQuest, row: QuestRow): number =>
  row.state === "IN_PROGRESS" ? questPercent(turn, doneBy(quest, row), row) : row.percent;

/** Returns how far a player is with one cycle of a quest, without its texts. */
export const outlineRow = (turn: PlanTurn, quest: CompiledQuest, row: QuestRow) => {
  const version = doneBy(quest, row);
  return {
    id: row.id,
    questKey: quest.key,
    questId: quest.id,
    questVersion: row.version,
    name: questName(version.definition, turn.player.locale),
    cycleKey: row.cycleKey,
    state: shownState(row),
    percent: percentOf(turn, quest, row),
    steps: showSteps(turn, version, { row }),
    startedAt: endIsoOf(row.startedMs),
    expiresAt: endIsoOf(endOf(quest, row)),
    completedAt: endIsoOf(row.completedMs),
    claimedAt: endIsoOf(row.claimedMs),
    resetsAt: resetsAt(turn, quest),
    claimable: claimableOf(turn, quest),
  };
};

/** Returns the API form of one cycle of a player's quest. */
export const showRow = (turn: PlanTurn, quest: CompiledQuest, row: QuestRow): PlayerQuest => ({
  ...withTexts(turn, doneBy(quest, row), outlineRow(turn, quest, row)),
  state: stateOf(turn, quest, row),
});

/** What a player is shown of a quest: the row of a cycle, or a cycle that may be started. */
type Current = { row: QuestRow } | { next: NextCycle };

/** A cycle stays visible until the next one may be started; so does one that was abandoned. */
const isVisible = ({ state }: QuestRow, next: NextCycle | undefined): boolean =>
  next === undefined || (next.again !== undefined && state === "ABANDONED");

/** Returns what applies to the cycle of the turn's time; undefined where the quest is not offered. */
export const currentOf = (turn: PlanTurn, quest: CompiledQuest): Current | undefined => {
  const state = turn.player.quests.get(quest.key);
  const next = freeCycle(turn, quest);
  if (state && isVisible(state.latest, next)) return { row: state.latest };
  return next && { next };
};

const showVirtual = (turn: PlanTurn, quest: CompiledQuest, { cycle }: NextCycle): PlayerQuest => {
  const mayStart = isQuestAvailable(turn, quest);
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

type Change =
  | "STARTED"
  | "PROGRESS"
  | "STEP_COMPLETED"
  | "COMPLETED"
  | "CLAIMED"
  | "EXPIRED"
  | "FAILED"
  | "RESET";

const ENDINGS: Partial<Record<QuestRow["state"], Change>> = {
  COMPLETED: "COMPLETED",
  CLAIMED: "CLAIMED",
  EXPIRED: "EXPIRED",
  FAILED: "FAILED",
  ABANDONED: "RESET",
  RESET: "RESET",
};

/** What of a step players see besides its percent: attempts, and what waits for a review. */
const triedIn = ({ steps }: QuestRow): string =>
  JSON.stringify(
    Object.entries(steps).flatMap(([key, { attempts, failedMs, pending, value }]) =>
      attempts === undefined && pending === undefined ? [] : [[key, attempts, failedMs, pending, value]],
    ),
  );

const progressOf = (before: QuestRow, now: QuestRow): Change | undefined => {
  if (doneIn(now).length > doneIn(before).length) return "STEP_COMPLETED";
  const isSame =
    before.percent === now.percent && before.version === now.version && triedIn(before) === triedIn(now);
  return isSame ? undefined : "PROGRESS";
};

/** Returns the greatest of the changes of a row; undefined when players see none. */
const changeOf = (before: QuestRow | undefined, now: QuestRow): Change | undefined => {
  if (now.state !== "IN_PROGRESS") return before?.state === now.state ? undefined : ENDINGS[now.state];
  return before?.state === "IN_PROGRESS" ? progressOf(before, now) : "STARTED";
};

/** Returns what `quest.progress` says besides the quest; undefined where the percent has not changed. */
const progressIn = (before: QuestRow | undefined, now: QuestRow) => {
  if (before?.state !== "IN_PROGRESS" || now.state !== "IN_PROGRESS") return undefined;
  if (before.percent === now.percent) return undefined;
  const doneBefore = new Set(doneIn(before));
  const justCompleted = doneIn(now).filter((key) => !doneBefore.has(key));
  return { previousPercent: before.percent, justCompleted };
};

const rowsOf = (state: QuestState | undefined): readonly QuestRow[] =>
  state ? [state.latest, ...state.older] : [];

const announceRow = (
  turn: PlanTurn,
  quest: CompiledQuest,
  { before, now }: { before: QuestRow | undefined; now: QuestRow },
): void => {
  const change = changeOf(before, now);
  if (change === undefined) return;
  const progress = progressIn(before, now);
  publish(turn, "quest.updated", {
    ...playerOf(turn),
    quest: before ? outlineRow(turn, quest, now) : showRow(turn, quest, now),
    change,
    ...(progress && { progress }),
  });
};

/**
 * Publishes what a pass has changed in the player's quests: for each one line of the player's stream.
 */
export const announceQuests = (turn: PlanTurn): void => {
  const { root, player, project } = turn;
  for (const [key, state] of root.quests ?? []) {
    const quest = project.quests.byKey.get(key);
    const rows = rowsOf(player.quests.get(key));
    const before = new Map(rowsOf(state).map((row) => [row.id, row]));
    if (quest) for (const now of rows) announceRow(turn, quest, { before: before.get(now.id), now });
  }
  delete root.quests;
};

/** States from which a quest can be put back. */
const RESETTABLE: ReadonlySet<StoredState> = new Set(["IN_PROGRESS", "FAILED", "EXPIRED"]);

const NOT_IN_PROGRESS = "the quest is not in progress";

type QuestChange = (turn: PlanTurn, quest: CompiledQuest, startedBy: StartedBy) => StartProblem | undefined;

export const unavailable = (message: string): StartProblem => ({ reason: "QUEST_NOT_AVAILABLE", message });

/** Returns the cycle that the player may start, or why none; `isForced`: also of a quest that is LOCKED. */
export const startable = (
  turn: PlanTurn,
  quest: CompiledQuest,
  isForced = false,
): NextCycle | StartProblem => {
  const next = freeCycle(turn, quest);
  if (!next) return unavailable(whyNotFree(turn, quest));
  if (!isForced && !quest.mayStart(turn)) return unavailable(whyLocked(turn, quest));
  if (hasPlace(turn, quest)) return next;
  return { reason: "LIMIT_REACHED", message: "all places of the quest are taken" };
};

/** Starts a quest where the player may start it and can pay, and finishes the steps that are done already. */
export const startNow: QuestChange = (turn, quest, startedBy) => {
  const next = startable(turn, quest);
  if ("reason" in next) return next;
  const started = startPaid(turn, quest, next, startedBy);
  if ("reason" in started) return started;
  settleSteps(turn, quest, started);
  return undefined;
};

/** Completes a quest whatever its steps have counted; it is started where it is offered, at no cost. */
export const completeNow: QuestChange = (turn, quest, startedBy) => {
  if (!inProgress(turn, quest)) {
    const next = startable(turn, quest, true);
    if ("reason" in next) return next;
    startQuest(turn, quest, next, startedBy);
  }
  const { version, row } = inProgress(turn, quest)!;
  forceSteps(turn, version, row);
  return undefined;
};

/** Adds to what a step of a quest in progress has counted, or sets it. */
export const advanceNow = (
  turn: PlanTurn,
  quest: CompiledQuest,
  { stepKey, ...by }: { stepKey: string } & ({ amount: number } | { set: number }),
): string | undefined => {
  const running = inProgress(turn, quest);
  if (!running) return NOT_IN_PROGRESS;
  const { version, row } = running;
  const problem = addToStep(turn, version, { row, stepKey, by });
  if (problem === undefined) settleSteps(turn, version, row);
  return problem;
};

/** Ends a quest in progress: as FAILED with a cause, else as ABANDONED. */
export const endNow = (turn: PlanTurn, quest: CompiledQuest, cause?: Cause): string | undefined => {
  const running = inProgress(turn, quest);
  if (!running) return NOT_IN_PROGRESS;
  const { version, row } = running;
  if (cause) failQuest(turn, version, row, cause);
  else abandonQuest(turn, version, row);
  return undefined;
};

/** Puts a quest back. */
export const resetNow = (turn: PlanTurn, { key }: CompiledQuest): string | undefined => {
  const latest = turn.player.quests.get(key)?.latest;
  if (!latest) return "there is nothing to reset: the quest has not been started";
  if (!RESETTABLE.has(latest.state)) return `there is nothing to reset: the quest is ${latest.state}`;
  resetQuest(turn, latest, key);
  return undefined;
};

/**
 * Does what a rule orders, after settling the quest at the event's time.
 * @returns why that is not possible
 */
export const changeQuest = (turn: PlanTurn, order: QuestOrder, cause: Cause): string | undefined => {
  const published = turn.project.quests.byKey.get(order.key);
  if (!published) return "there is no such quest";
  const quest = asReceived(published, turn);
  settleQuest(turn, quest);
  if (quest.phase === "PAUSED") return "it is PAUSED";
  switch (order.operation) {
    case "START":
      return startNow(turn, quest, "RULE")?.message;
    case "COMPLETE":
      return completeNow(turn, quest, "RULE")?.message;
    case "FAIL":
      return endNow(turn, quest, cause);
    case "RESET":
      return resetNow(turn, quest);
    case "ADVANCE":
      return advanceNow(turn, quest, { stepKey: order.stepKey!, amount: order.amount! });
  }
};

/**
 * Returns where the turn's player stands in a quest, in the cycle of the event's time; undefined for an
 * unknown quest. What is over by then is EXPIRED, although it may not have been settled yet.
 */
export const questStanding = (turn: PlanTurn, key: string): QuestStanding | undefined => {
  const quest = turn.project.quests.byKey.get(key);
  if (!quest) return undefined;
  const current = currentOf(turn, quest);
  if (!current || !("row" in current)) {
    const isOpen = current !== undefined && isQuestAvailable(turn, quest);
    return { state: isOpen ? "AVAILABLE" : "LOCKED", percent: 0, doneSteps: [] };
  }
  const { row } = current;
  return {
    state: stateOf(turn, quest, row),
    percent: percentOf(turn, quest, row),
    doneSteps: doneIn(row),
  };
};
