import type { PlanTurn } from "../project-plan.ts";
import type { QuestVerdict } from "../turn.ts";
import { beginsByEvent } from "./begins.ts";
import type { CompiledQuest, CompiledStep } from "./compile.ts";
import { whyLocked } from "./locked.ts";
import { isCounting } from "./progress.ts";
import type { QuestRow } from "./row.ts";
import { inProgress } from "./settle.ts";
import { freeCycle } from "./start.ts";
import { whyNotFree } from "./why-not.ts";

const DETAIL_MAX = 300;

/** What is known of a quest before the turn's event is applied to it. */
export type Before = { running: QuestRow | undefined; completions: number };

export const beforeEvent = (turn: PlanTurn, quest: CompiledQuest): Before => ({
  running: inProgress(turn, quest)?.row,
  completions: turn.player.quests.get(quest.key)?.latest.completions ?? 0,
});

type Why = Pick<QuestVerdict, "reason" | "detail">;

const isMatching = (turn: PlanTurn, { sampleOf, lifetime }: CompiledStep): boolean =>
  (sampleOf ?? lifetime?.sampleOf)?.(turn) !== undefined;

/** Why an event does not count for a step of a row; undefined where it does. */
const whyNotStep = (turn: PlanTurn, row: QuestRow, step: CompiledStep): Why | undefined => {
  const { key } = step.definition;
  const progress = row.steps[key];
  if (progress?.doneMs !== undefined) return { reason: "STEP_NOT_ACTIVE", detail: `the step ${key} is done` };
  if (!isMatching(turn, step))
    return { reason: "NOT_MATCHING", detail: `the step ${key} does not count such an event` };
  if (step.lifetime || isCounting(turn, row, step)) return undefined;
  const isActive = progress?.startMs !== undefined;
  return isActive
    ? { reason: "BEFORE_START", detail: `the event is earlier than the start of the step ${key}` }
    : { reason: "STEP_NOT_ACTIVE", detail: `the step ${key} waits for others` };
};

/** The reasons of which, where several steps count the type, the most telling is named. */
const TELLING = ["NOT_MATCHING", "BEFORE_START", "STEP_NOT_ACTIVE"];

const COUNTED: Why = { reason: "COUNTED" };

const whyRunning = (turn: PlanTurn, version: CompiledQuest, row: QuestRow): Why => {
  const reasons = version.stepsFor(turn.event.type).map((at) => whyNotStep(turn, row, version.steps[at]!));
  if (reasons.includes(undefined)) return COUNTED;
  const found = reasons.toSorted((a, b) => TELLING.indexOf(a!.reason) - TELLING.indexOf(b!.reason));
  return found[0] ?? { reason: "NOT_MATCHING", detail: "the player's version has no step that counts it" };
};

const whyNotBegun = (turn: PlanTurn, quest: CompiledQuest): Why => {
  const { player, event } = turn;
  if (player.status !== "ACTIVE") return { reason: "PLAYER_INACTIVE" };
  const next = freeCycle(quest, turn, player.quests.get(quest.key), event.at);
  if (!next) return { reason: "NOT_AVAILABLE", detail: whyNotFree(turn, quest) };
  if (quest.definition.start.mode !== "AUTO")
    return { reason: "NOT_STARTED", detail: "it is started by hand" };
  if (next.again?.state === "ABANDONED") return { reason: "NOT_STARTED", detail: "it was abandoned" };
  if (!beginsByEvent(turn, quest))
    return { reason: "NOT_MATCHING", detail: "no step with which it begins counts such an event" };
  return { reason: "LOCKED", detail: whyLocked(turn, quest) };
};

const whyOf = (turn: PlanTurn, quest: CompiledQuest, before: Before): Why => {
  const { completions = 0 } = turn.player.quests.get(quest.key)?.latest ?? {};
  if (completions > before.completions) return COUNTED;
  if (quest.phase === "PAUSED") return { reason: "PAUSED" };
  const running = inProgress(turn, quest);
  if (!running) return whyNotBegun(turn, quest);
  if (running.row.id !== before.running?.id) return COUNTED;
  // Steps that became active with the event did not count it.
  return whyRunning(turn, running.version, { ...running.row, steps: before.running.steps });
};

/** Returns whether a quest has counted the turn's event, which has been applied to it, and if not, why. */
export const verdictOf = (turn: PlanTurn, quest: CompiledQuest, before: Before): QuestVerdict => {
  const why = whyOf(turn, quest, before);
  const detail = why.detail === undefined ? {} : { detail: why.detail.slice(0, DETAIL_MAX) };
  return { questKey: quest.key, counted: why === COUNTED, reason: why.reason, ...detail };
};
