import { sql } from "kysely";
import type { Adventure } from "../../evaluation/adventures/adventure.ts";
import { questsBefore } from "../../evaluation/adventures/reach.ts";
import type { ConditionNode } from "../../evaluation/language/groups.ts";
import { groupOf } from "../../evaluation/language/trees.ts";
import type { Phase } from "../../evaluation/live.ts";
import type { Quest } from "../../evaluation/quests/quest.ts";
import { requiredOf } from "../../evaluation/quests/step-graph.ts";
import { inSlices, type Steps } from "../../kernel/slices.ts";
import type { Work } from "../../kernel/work.ts";
import { sharedDefinitions } from "../definitions/project-definitions.ts";
import {
  allOf,
  anyOf,
  findRing,
  type Gate,
  gate,
  give,
  levelOf,
  type MaybeGate,
  meter,
  need,
  OPEN,
  openAll,
} from "./gates.ts";

/** A published quest or adventure. */
export type Goal = { phase?: Phase | null | undefined } & (
  | { kind: "quest"; definition: Quest }
  | { kind: "adventure"; definition: Adventure }
);

/** What of a quest others can wait for. */
type Stages = { quest: Quest; started: Gate; done: Gate; steps: ReadonlyMap<string, Gate> };
/** `all`: gates that may be open from the beginning, and those that add up. */
type Graph = { quests: Map<string, Stages>; adventures: Map<string, Gate>; all: Gate[] };

type Leaf = {
  type: string;
  entity?: string;
  key?: string;
  stepKey?: string;
  states?: readonly string[];
  minPercent?: number;
};

const COMPLETED: ReadonlySet<string> = new Set(["COMPLETED", "CLAIMED"]);

/** Returns what a condition on a quest or on a step of it waits for. */
const ofQuest = ({ started, done, steps }: Stages, leaf: Leaf): MaybeGate => {
  const { entity, stepKey = "", states = [], minPercent = 0 } = leaf;
  if (entity === "quest_step") return states.includes("NOT_DONE") ? OPEN : (steps.get(stepKey) ?? OPEN);
  if (minPercent === 0 && states.includes("LOCKED")) return OPEN;
  return isOfEnd(leaf) ? done : started;
};

/** Whether a condition holds for what is completed alone. */
const isOfEnd = ({ states = [], minPercent }: Leaf): boolean =>
  minPercent === 100 || states.every((state) => COMPLETED.has(state));

/** Returns what a condition waits for. What says that something has not happened waits for nothing. */
const ofLeaf = ({ quests, adventures }: Graph, leaf: Leaf): MaybeGate => {
  const { type, entity, key = "" } = leaf;
  if (type !== "progress_state" || entity === "badge") return OPEN;
  if (entity === "adventure") return (isOfEnd(leaf) && adventures.get(key)) || OPEN;
  const stages = quests.get(key);
  return stages ? ofQuest(stages, leaf) : OPEN;
};

/** Returns what a group of conditions waits for; `isNot`: it must not hold. */
const ofGroup = (graph: Graph, node: ConditionNode, isNot = false): MaybeGate => {
  const group = groupOf(node);
  if (!group) return isNot ? OPEN : ofLeaf(graph, node as Leaf);
  const isNotInside = group.key === "none" ? !isNot : isNot;
  const members = group.members.map((member) => ofGroup(graph, member, isNotInside));
  return (group.key === "any") === isNot ? allOf(members) : anyOf(members);
};

const addQuest = (graph: Graph, quest: Quest): void => {
  const name = `quest ${quest.key}`;
  const steps = new Map(quest.steps.map(({ key }) => [key, gate(0, name)]));
  const stages = { quest, started: gate(0, name), done: gate(0, name), steps };
  graph.quests.set(quest.key, stages);
  graph.all.push(stages.started);
};

/** Makes the steps of a quest wait for its start, for their conditions and for the steps before them. */
const linkQuest = (graph: Graph, { quest, started, done, steps }: Stages): void => {
  if (quest.prerequisites) need(started, ofGroup(graph, quest.prerequisites));
  let before: Gate = started;
  for (const step of quest.steps) {
    const own = steps.get(step.key)!;
    need(own, quest.stepMode === "SEQUENTIAL" ? before : started);
    for (const key of step.dependsOn) need(own, steps.get(key) ?? OPEN);
    if (step.kind === "STATE") need(own, ofGroup(graph, step.condition));
    if (step.optional) continue;
    before = own;
    give(done, own);
  }
  done.needs = requiredOf(quest);
};

type Points = (points: number) => MaybeGate;

/** Returns what waits for points of an adventure. */
const pointsOf = (graph: Graph, { items, pointsFrom }: Adventure): Points => {
  if (pointsFrom.length > 0) return () => OPEN;
  const total = meter();
  graph.all.push(total);
  for (const { questKey, points } of items) {
    const stages = graph.quests.get(questKey);
    const isAgain = stages?.quest.repeat.mode !== "NONE";
    if (stages && points > 0) give(total, stages.done, isAgain ? Infinity : points);
  }
  return (points) => levelOf(total, points);
};

const doneOf = ({ quests }: Graph, key: string): MaybeGate => quests.get(key)?.done ?? OPEN;

/** Makes an adventure wait for the items that complete it. */
const linkCompletion = (graph: Graph, { key, items, completion }: Adventure, points: Points): void => {
  const done = graph.adventures.get(key)!;
  if (completion.mode === "POINTS") return need(done, points(completion.value!));
  const counted = items.filter(({ optional }) => completion.mode === "COUNT" || !optional);
  const closed = counted.map(({ questKey }) => doneOf(graph, questKey)).filter((one) => one !== OPEN);
  for (const one of closed) give(done, one);
  const needed = completion.mode === "COUNT" ? completion.value! : counted.length;
  done.needs = Math.max(0, needed - (counted.length - closed.length));
};

/** Returns what each item of an adventure waits for, by key of its quest. */
const unlocksOf = (graph: Graph, { items }: Adventure, points: Points): [string, MaybeGate][] =>
  items.map((item) => {
    const { unlock, questKey } = item;
    if (unlock.mode === "POINTS") return [questKey, points(unlock.points)];
    return [questKey, allOf(questsBefore(items, item).map((key) => doneOf(graph, key)))];
  });

const overlaps = (adventures: readonly Adventure[]): boolean => {
  const from = Math.max(...adventures.map(({ startsAt }) => Date.parse(startsAt)));
  return from < Math.min(...adventures.map(({ endsAt }) => Date.parse(endsAt)));
};

/** Makes quests wait for the adventures that they belong to: for all where these run at the same time. */
function* linkAdventures(graph: Graph, adventures: readonly Adventure[]): Steps<void> {
  const byQuest = new Map<string, { adventure: Adventure; unlock: MaybeGate }[]>();
  for (const adventure of adventures) {
    const points = pointsOf(graph, adventure);
    linkCompletion(graph, adventure, points);
    for (const [key, unlock] of unlocksOf(graph, adventure, points)) {
      const known = byQuest.get(key) ?? [];
      known.push({ adventure, unlock });
      byQuest.set(key, known);
    }
    yield;
  }
  for (const [key, found] of byQuest) {
    const unlocks = found.map(({ unlock }) => unlock);
    const isAtOnce = overlaps(found.map(({ adventure }) => adventure));
    const stages = graph.quests.get(key);
    if (stages) need(stages.started, isAtOnce ? allOf(unlocks) : anyOf(unlocks));
    yield;
  }
}

/** Returns whether an adventure is over, so that it holds nothing up. */
export const isOver = ({ kind, phase, definition }: Goal, nowMs: number): boolean =>
  kind === "adventure" && (phase === "ENDED" || Date.parse(definition.endsAt) <= nowMs);

function* graphOf(goals: readonly Goal[]): Steps<Graph> {
  const graph: Graph = { quests: new Map(), adventures: new Map(), all: [] };
  const adventures: Adventure[] = [];
  for (const { kind, definition } of goals) {
    if (kind === "quest") {
      addQuest(graph, definition);
      continue;
    }
    const done = gate(0, `adventure ${definition.key}`);
    graph.adventures.set(definition.key, done);
    graph.all.push(done);
    adventures.push(definition);
  }
  yield* linkAdventures(graph, adventures);
  for (const stages of graph.quests.values()) {
    linkQuest(graph, stages);
    yield;
  }
  return graph;
}

/** Reads the published quests and adventures of a project. */
export const readGoals = async (work: Work, projectId: string): Promise<Goal[]> => {
  const definitions = sharedDefinitions(work, projectId);
  if (definitions)
    return (["quest", "adventure"] as const).flatMap((kind) =>
      definitions.all(kind).map(({ definition, phase }) => ({ kind, definition, phase }) as Goal),
    );
  const found = await sql<Goal>`
    select kind, definition, phase from definitions
    where project_id = ${projectId} and kind in ('quest', 'adventure') and status = 'ACTIVE'`.execute(
    work.db,
  );
  return found.rows;
};

/**
 * Finds quests and adventures that wait for one another, so that nobody can ever do them, and for which
 * `changed` waits, or its items. The work grows with the size of the documents, and runs in slices.
 * @param goals those that are published; `changed` replaces its own. Adventures that are over hold nothing up
 * @returns what is on the circle, the same at both ends; undefined when there is none
 */
export const circleThrough = (
  goals: readonly Goal[],
  changed: Goal,
  nowMs: number,
): Promise<string[] | undefined> => inSlices(searchThrough(goals, changed, nowMs));

function* searchThrough(goals: readonly Goal[], changed: Goal, nowMs: number): Steps<string[] | undefined> {
  const { kind, definition } = changed;
  const others = goals.filter(
    (one) => (one.kind !== kind || one.definition.key !== definition.key) && !isOver(one, nowMs),
  );
  const graph = yield* graphOf([...others, changed]);
  yield* openAll(graph.all);
  const keys = kind === "quest" ? [definition.key] : definition.items.map(({ questKey }) => questKey);
  const stages = keys.flatMap((key) => graph.quests.get(key) ?? []);
  const adventure = kind === "adventure" ? [graph.adventures.get(definition.key)!] : [];
  return yield* findRing([...adventure, ...stages.flatMap(({ started, done }) => [started, done])]);
}
