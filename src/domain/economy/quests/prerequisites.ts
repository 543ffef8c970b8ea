import type { Quest } from "../../evaluation/quests/quest.ts";
import { type Tree, visitLeaves } from "../../evaluation/language/trees.ts";

type Leaf = { type: string; entity?: string; key?: string };

/** Returns the keys of the quests that must stand somewhere before a quest is available. */
export const questsBefore = ({ prerequisites }: Quest): string[] => {
  const keys = new Set<string>();
  if (prerequisites)
    visitLeaves(prerequisites as Tree<Leaf>, ({ type, entity, key }) => {
      if (type === "progress_state" && entity !== "badge" && key !== undefined) keys.add(key);
    });
  return [...keys];
};

/**
 * Finds a circle of prerequisites through a quest.
 * @param quests all quests of the project, with the one that is checked
 * @returns the keys on it, the quest's own at both ends; undefined when there is none
 */
export const circleThrough = (quest: Quest, quests: readonly Quest[]): string[] | undefined => {
  const byKey = new Map(quests.map((one) => [one.key, one]));
  byKey.set(quest.key, quest);
  const from = new Map<string, string>();
  const waiting = [quest.key];
  for (const key of waiting) {
    const before = byKey.get(key);
    for (const next of before ? questsBefore(before) : []) {
      if (next === quest.key) {
        const way = [next];
        for (let at = key; at !== quest.key; at = from.get(at)!) way.unshift(at);
        return [quest.key, ...way];
      }
      if (from.has(next)) continue;
      from.set(next, key);
      waiting.push(next);
    }
  }
  return undefined;
};
