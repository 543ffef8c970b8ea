import { hasJoined, wholePoints } from "../../evaluation/adventures/row.ts";
import type { PlanTurn } from "../../evaluation/project-plan.ts";
import { outlineRow } from "../../evaluation/quests/show.ts";
import type { Json } from "../../kernel/events/events.ts";

/** Returns the quests that the turn's player has begun, by key, with the values of their steps. */
const questsOf = (turn: PlanTurn): Json =>
  Object.fromEntries(
    [...turn.player.quests].flatMap(([key, { latest }]) => {
      const quest = turn.project.quests.byKey.get(key);
      if (!quest) return [];
      const { cycleKey, state, percent, steps } = outlineRow(turn, quest, latest);
      const values = Object.fromEntries(steps.map(({ stepKey, value }) => [stepKey, value]));
      return [[key, { cycleKey, state, percent, steps: values }]];
    }),
  );

/** Returns the quests and adventures of the turn's player as they stand, as far as they are begun. */
export const goalsOf = (turn: PlanTurn): Json => ({
  quests: questsOf(turn),
  adventures: Object.fromEntries(
    [...turn.player.adventures].flatMap(([key, row]) =>
      hasJoined(row)
        ? [[key, { state: row.state, points: wholePoints(row), tiers: Object.keys(row.tiers).map(Number) }]]
        : [],
    ),
  ),
});
