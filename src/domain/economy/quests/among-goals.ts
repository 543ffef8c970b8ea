import { whatCannotEnd } from "../../evaluation/adventures/reach.ts";
import { type Tree, visitLeaves } from "../../evaluation/language/trees.ts";
import type { Quest } from "../../evaluation/quests/quest.ts";
import { conflict, invalid } from "../../kernel/errors.ts";
import { circleThrough, type Goal, isOver } from "./circles.ts";

/** A step of a quest that a condition names, and the field that does. */
type NamedStep = { key: string; stepKey: string; path: string };
type Leaf = { type: string; entity?: string; key?: string; stepKey?: string };

/** Returns the steps of quests that the conditions of a quest name. */
const stepsNamedBy = ({ prerequisites, steps }: Quest): NamedStep[] => {
  const found: NamedStep[] = [];
  const look = (group: object, field: string): void =>
    visitLeaves(
      group as Tree<Leaf>,
      ({ type, entity, key = "", stepKey = "" }, path) => {
        if (type === "progress_state" && entity === "quest_step")
          found.push({ key, stepKey, path: `${path}.stepKey` });
      },
      field,
    );
  if (prerequisites) look(prerequisites, "prerequisites");
  steps.forEach((step, i) => {
    if (step.kind === "STATE") look(step.condition, `steps.${i}.condition`);
  });
  return found;
};

const hasStep = ({ steps }: Quest, stepKey: string): boolean => steps.some(({ key }) => key === stepKey);

/** Refuses names of steps that their quests do not have, and to take away steps that other quests name. */
const checkSteps = (goals: readonly Goal[], quest: Quest): void => {
  const quests = new Map<string, Quest>();
  for (const one of goals) if (one.kind === "quest") quests.set(one.definition.key, one.definition);
  quests.set(quest.key, quest);
  for (const { key, stepKey, path } of stepsNamedBy(quest)) {
    const named = quests.get(key);
    if (named && !hasStep(named, stepKey))
      throw invalid(path, `the quest ${key} has no step ${stepKey}`, "UNKNOWN_STEP");
  }
  for (const other of quests.values()) {
    if (other === quest) continue;
    const gone = stepsNamedBy(other).find(
      ({ key, stepKey }) => key === quest.key && !hasStep(quest, stepKey),
    );
    if (gone)
      throw conflict("IN_USE", `the quest ${other.key} names the step ${gone.stepKey}; change it first`);
  }
};

/** Refuses to make a quest repeat no more where an adventure needs the points of further completions. */
const checkAdventures = (goals: readonly Goal[], quest: Quest, nowMs: number): void => {
  const repeating = new Set<string>();
  for (const one of goals)
    if (one.kind === "quest" && one.definition.key !== quest.key && one.definition.repeat.mode !== "NONE")
      repeating.add(one.definition.key);
  for (const goal of goals) {
    if (goal.kind !== "adventure" || isOver(goal, nowMs)) continue;
    const { definition } = goal;
    if (!definition.items.some(({ questKey }) => questKey === quest.key)) continue;
    const [problem] = whatCannotEnd(definition, (key) => repeating.has(key));
    if (!problem) continue;
    const what = `its ${problem.path.join(".")} ${problem.message}`;
    const message = `the adventure ${definition.key} needs it to repeat: ${what}`;
    throw invalid("repeat.mode", message, "ADVENTURE_CANNOT_END");
  }
};

const mayRepeatLess = (quest: Quest, before: Quest | undefined): boolean =>
  before !== undefined && before.repeat.mode !== "NONE" && quest.repeat.mode === "NONE";

const hasConditions = ({ prerequisites, steps }: Quest): boolean =>
  prerequisites !== undefined || steps.some(({ kind }) => kind === "STATE");

/**
 * Returns whether a quest must be checked among others: it names them, or has less than what it replaces, on
 * which others may rely.
 */
export const concernsOthers = (quest: Quest, before: Quest | undefined): boolean =>
  hasConditions(quest) ||
  mayRepeatLess(quest, before) ||
  before?.steps.some(({ key }) => !hasStep(quest, key)) === true;

/**
 * Checks a quest among those that are published, and the adventures.
 * @param before what it replaces
 * @throws DomainError VALIDATION_ERROR: QUEST_CYCLE, UNKNOWN_STEP, ADVENTURE_CANNOT_END; CONFLICT: IN_USE
 */
export const checkGoals = async (
  goals: readonly Goal[],
  quest: Quest,
  { before, nowMs }: { before: Quest | undefined; nowMs: number },
): Promise<void> => {
  checkSteps(goals, quest);
  if (mayRepeatLess(quest, before)) checkAdventures(goals, quest, nowMs);
  if (!hasConditions(quest)) return;
  const circle = await circleThrough(goals, { kind: "quest", definition: quest }, nowMs);
  if (!circle) return;
  const field = quest.prerequisites ? "prerequisites" : "steps";
  throw invalid(field, `quests and adventures wait for one another: ${circle.join(" → ")}`, "QUEST_CYCLE");
};
