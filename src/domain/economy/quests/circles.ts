import { sql } from "kysely";
import type { Adventure } from "../../evaluation/adventures/adventure.ts";
import { questsBefore } from "../../evaluation/adventures/reach.ts";
import { type Tree, visitLeaves } from "../../evaluation/language/trees.ts";
import type { Quest } from "../../evaluation/quests/quest.ts";
import type { Work } from "../../kernel/work.ts";
import { sharedDefinitions } from "../definitions/project-definitions.ts";

type Goal = { kind: "quest"; definition: Quest } | { kind: "adventure"; definition: Adventure };
type Leaf = { type: string; entity?: string; key?: string; states?: readonly string[] };

const nameOf = (kind: Goal["kind"], key: string): string => `${kind} ${key}`;

/** States of an adventure that must have been completed. */
const COMPLETED: ReadonlySet<string> = new Set(["COMPLETED", "CLAIMED"]);

/** Returns what must stand somewhere before a quest is available, by its prerequisites. */
const neededBy = ({ prerequisites }: Quest): string[] => {
  const names: string[] = [];
  if (!prerequisites) return names;
  visitLeaves(prerequisites as Tree<Leaf>, ({ type, entity, key = "", states = [] }) => {
    if (type !== "progress_state" || entity === "badge") return;
    if (entity !== "adventure") names.push(nameOf("quest", key));
    else if (states.every((state) => COMPLETED.has(state))) names.push(nameOf("adventure", key));
  });
  return names;
};

/** Returns the quests without which an adventure cannot be completed. */
const itemsNeeded = ({ items, completion }: Adventure): string[] => {
  const isWhole = completion.mode === "COUNT" && completion.value === items.length;
  if (completion.mode !== "ALL_REQUIRED" && !isWhole) return [];
  return items.filter(({ optional }) => isWhole || !optional).map(({ questKey }) => questKey);
};

/** Builds the map from each quest and adventure to what it waits for. */
const waitsOf = (goals: readonly Goal[]): Map<string, Set<string>> => {
  const waits = new Map<string, Set<string>>();
  const add = (name: string, needed: readonly string[]): void => {
    const known = waits.get(name) ?? new Set();
    for (const one of needed) known.add(one);
    waits.set(name, known);
  };
  for (const { kind, definition } of goals) {
    const name = nameOf(kind, definition.key);
    if (kind === "quest") {
      add(name, neededBy(definition));
      continue;
    }
    const quests = (keys: readonly string[]) => keys.map((key) => nameOf("quest", key));
    add(name, quests(itemsNeeded(definition)));
    for (const item of definition.items)
      add(nameOf("quest", item.questKey), quests(questsBefore(definition.items, item)));
  }
  return waits;
};

/** Reads the published quests and adventures of a project. */
export const readGoals = async (work: Work, projectId: string): Promise<Goal[]> => {
  const definitions = sharedDefinitions(work, projectId);
  if (definitions)
    return (["quest", "adventure"] as const).flatMap((kind) =>
      definitions.all(kind).map(({ definition }) => ({ kind, definition }) as Goal),
    );
  const found = await sql<Goal>`
    select kind, definition from definitions
    where project_id = ${projectId} and kind in ('quest', 'adventure') and status = 'ACTIVE'`.execute(
    work.db,
  );
  return found.rows;
};

/**
 * Finds a circle in which quests and adventures wait for one another, through one of them or its items.
 * @param goals those that are published; `changed` replaces its own
 * @returns what is on it, the same at both ends; undefined when there is none
 */
export const circleThrough = (goals: readonly Goal[], changed: Goal): string[] | undefined => {
  const { kind, definition } = changed;
  const others = goals.filter((one) => one.kind !== kind || one.definition.key !== definition.key);
  const waits = waitsOf([...others, changed]);
  const items = kind === "adventure" ? definition.items.map((item) => nameOf("quest", item.questKey)) : [];
  for (const start of [nameOf(kind, definition.key), ...items]) {
    const circle = circleFrom(waits, start);
    if (circle) return circle;
  }
  return undefined;
};

const circleFrom = (waits: ReadonlyMap<string, ReadonlySet<string>>, start: string): string[] | undefined => {
  const from = new Map<string, string>();
  const waiting = [start];
  for (const name of waiting) {
    for (const next of waits.get(name) ?? []) {
      if (next === start) {
        const way = [next];
        for (let at = name; at !== start; at = from.get(at)!) way.unshift(at);
        return [start, ...way];
      }
      if (from.has(next)) continue;
      from.set(next, name);
      waiting.push(next);
    }
  }
  return undefined;
};
