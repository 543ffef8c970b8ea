import type { Json } from "../../../src/domain/kernel/events/events.ts";
import type { QuestGame } from "./quest-game.ts";

/** What the current player of a game does with steps. */
export const stepActs = (game: () => QuestGame) => ({
  submit: (key: string, step: string, body: Json = {}) => game().act(key, `steps/${step}/submit`, body),
  review: (key: string, step: string, body: Json) => game().act(key, `steps/${step}/review`, body),
  /** What has been submitted, as far as the query of `/quest-reviews` selects it. */
  queue: async (query: string): Promise<Json[]> => (await game().get(`/quest-reviews?${query}`)).data,
  /** The state of a quest, and those of its steps. */
  stateOf: async (key: string): Promise<string[]> => {
    const { state, steps } = await game().questOf(key);
    return [state, ...steps.map((one: Json) => one["state"])];
  },
});
