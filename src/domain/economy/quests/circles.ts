import { sql } from "kysely";
import { sharedDefinitions } from "../definitions/references.ts";
import { type Adventure, questsBefore } from "../../evaluation/adventures/adventure.ts";
import type { ConditionNode } from "../../evaluation/language/groups.ts";
import { groupOf } from "../../evaluation/language/trees.ts";
import type { Phase } from "../../evaluation/live.ts";
import type { Quest } from "../../evaluation/quests/quest.ts";
import { requiredOf } from "../../evaluation/quests/step.ts";
import { invalid } from "../../kernel/errors.ts";
import { inSlices, type Steps } from "../../kernel/slices.ts";
import type { Work } from "../../kernel/work.ts";

/**
 * A node of what waits for what: it opens once so much of what it waits for is open. What is never open can
 * never be done.
 */
type Gate = {
  /** What people call it; undefined for a part of something. */
  name?: string | undefined;
  /** How much it needs; what has nothing to wait for needs nothing. */
  needs: number;
  has: number;
  waitsFor: Gate[];
  /** Those that wait for it: it gives them one each. */
  waiting: Gate[];
  /** Those to which it gives another amount. */
  amounts?: { to: Gate; amount: number }[];
  /** Of one that only adds up: the gates that open with so much of it. */
  levels?: Gate[];
};

/** What is open from the beginning. */
const OPEN = "OPEN";
type MaybeGate = Gate | typeof OPEN;

const gate = (needs = 0, name?: string): Gate => ({ name, needs, has: 0, waitsFor: [], waiting: [] });

/** Makes a gate wait for another one, which gives it an amount of what it needs. */
const give = (to: Gate, from: Gate, amount = 1): void => {
  to.waitsFor.push(from);
  if (amount === 1) from.waiting.push(to);
  else (from.amounts ??= []).push({ to, amount });
};

/** Makes a gate need one thing more. */
const need = (to: Gate, from: MaybeGate): void => {
  if (from === OPEN) return;
  to.needs += 1;
  give(to, from);
};

/** Returns a gate that opens with all of several. */
const allOf = (members: readonly MaybeGate[]): MaybeGate => {
  const closed = members.filter((one) => one !== OPEN);
  if (closed.length === 0) return OPEN;
  const made = gate();
  for (const one of closed) need(made, one);
  return made;
};

/** Returns a gate that opens with the first of several. */
const anyOf = (members: readonly MaybeGate[]): MaybeGate => {
  const closed = members.filter((one) => one !== OPEN);
  if (closed.length < members.length || closed.length === 0) return OPEN;
  const made = gate(1);
  for (const one of closed) give(made, one);
  return made;
};

/** Returns a gate that only adds up: gates by `levelOf` open with so much of it. */
const meter = (): Gate & { levels: Gate[] } => ({ ...gate(Infinity), levels: [] });

/** Returns a gate that opens with so much of a meter. To be called before anything is opened. */
const levelOf = (of: Gate & { levels: Gate[] }, needs: number): Gate => {
  const made = gate(needs);
  made.waitsFor.push(of);
  of.levels.push(made);
  return made;
};

const isOpen = ({ has, needs }: Gate): boolean => has >= needs;

/** Opens all gates that can be opened, each once: the work grows with the number of what they give. */
function* openAll(gates: readonly Gate[]): Steps<void> {
  for (const { levels } of gates) levels?.sort((a, b) => b.needs - a.needs);
  const opened = gates.filter(isOpen);
  const pass = (to: Gate, amount: number): void => {
    const wasOpen = isOpen(to);
    to.has += amount;
    if (to.levels) opened.push(...reached(to.levels, to.has));
    else if (!wasOpen && isOpen(to)) opened.push(to);
  };
  for (const one of opened) {
    for (const to of one.waiting) pass(to, 1);
    for (const { to, amount } of one.amounts ?? []) pass(to, amount);
    yield;
  }
}

/** Takes out the levels that so much reaches, and opens them. @param levels the least last */
const reached = (levels: Gate[], has: number): Gate[] => {
  const found: Gate[] = [];
  for (let last = levels.at(-1); last && last.needs <= has; last = levels.at(-1)) {
    last.has = last.needs;
    found.push(last);
    levels.pop();
  }
  return found;
};

/** How far the search has come with a gate: its way leads on by `next` of what it waits for. */
type Visit = { gate: Gate; next: number };

/**
 * Finds gates that wait for one another, among those that never open, by one search from several of them.
 * @returns their names, the first one again at the end; undefined where there are none
 */
function* findRing(from: Iterable<Gate>): Steps<string[] | undefined> {
  const seen = new Set<Gate>();
  for (const start of from) {
    const ring = seen.has(start) || isOpen(start) ? undefined : yield* ringFrom(start, seen);
    if (ring) return namesOf(ring);
  }
  return undefined;
}

function* ringFrom(start: Gate, seen: Set<Gate>): Steps<Gate[] | undefined> {
  const way: Visit[] = [{ gate: start, next: 0 }];
  const onWay = new Set([start]);
  seen.add(start);
  for (let at = way.at(-1); at; at = way.at(-1)) {
    const next = at.gate.waitsFor[at.next++];
    if (next === undefined) {
      onWay.delete(at.gate);
      way.pop();
    } else if (onWay.has(next)) {
      return way.slice(way.findIndex((one) => one.gate === next)).map((one) => one.gate);
    } else if (!seen.has(next) && !isOpen(next)) {
      seen.add(next);
      onWay.add(next);
      way.push({ gate: next, next: 0 });
      yield;
    }
  }
  return undefined;
}

const namesOf = (ring: readonly Gate[]): string[] => {
  const names = ring.flatMap(({ name }) => name ?? []);
  const others = names.filter((name, i) => name !== names[i - 1]);
  if (others.length > 1 && others.at(-1) === others[0]) others.pop();
  return [...others, others[0] ?? ""];
};

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

/** Returns the quests among goals, by key. */
export const questsIn = (goals: readonly Goal[]): Map<string, Quest> =>
  new Map(goals.flatMap((one) => (one.kind === "quest" ? [[one.definition.key, one.definition]] : [])));

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

/** Refuses a quest or an adventure that would be on such a circle. @throws DomainError QUEST_CYCLE */
export const checkCircle = async (
  goals: readonly Goal[],
  changed: Goal,
  { field, nowMs }: { field: string; nowMs: number },
): Promise<void> => {
  const circle = await circleThrough(goals, changed, nowMs);
  if (!circle) return;
  throw invalid(field, `quests and adventures wait for one another: ${circle.join(" → ")}`, "QUEST_CYCLE");
};

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
