import { readerOf } from "../segments/inputs.ts";
import { createTypeIndex } from "../language/patterns.ts";
import type { InputReader } from "../player-state.ts";
import type { AdventureIndex } from "../adventures/compile.ts";
import type { CompiledQuest } from "./compile.ts";

/** A quest that states can start or advance, and the indexes of what it reads in `readers`. */
export type StatefulQuest = { quest: CompiledQuest; inputs: readonly number[]; isTimed: boolean };

/** The quests of a project. */
export type QuestIndex = {
  byKey: ReadonlyMap<string, CompiledQuest>;
  /** Returns the quests that count events of a type; those that it does not touch cost nothing. */
  forEvent(eventType: string): readonly CompiledQuest[];
  stateful: readonly StatefulQuest[];
  readers: readonly InputReader[];
};

const patternsOf = (quest: CompiledQuest): string[] =>
  [quest, ...quest.earlier.values()].flatMap(({ definition }) =>
    definition.steps.flatMap((step) => (step.kind === "EVENT" ? step.metric.eventTypes : [])),
  );

/** To be built once per config version. */
export const indexQuests = (
  byKey: ReadonlyMap<string, CompiledQuest>,
  adventures: AdventureIndex,
): QuestIndex => {
  const quests = [...byKey.values()];
  const stateful = quests.filter(({ isStateful }) => isStateful);
  const inputsOf = ({ key, inputs }: CompiledQuest): string[] => [
    ...inputs,
    ...adventures.ofQuest(key).map((adventure) => `adventure:${adventure.key}`),
  ];
  const names = [...new Set(stateful.flatMap(inputsOf))];
  const placeOf = new Map(names.map((name, place) => [name, place]));
  const listeners = quests.map((quest) => ({ quest, patterns: patternsOf(quest) }));
  return {
    byKey,
    forEvent: createTypeIndex(listeners, (found) => found.map(({ quest }) => quest)),
    stateful: stateful.map((quest) => ({
      quest,
      isTimed: quest.isTimed || adventures.ofQuest(quest.key).length > 0,
      inputs: inputsOf(quest).map((name) => placeOf.get(name)!),
    })),
    readers: names.map(readerOf),
  };
};
