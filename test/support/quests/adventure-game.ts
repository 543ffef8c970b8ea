import type { Json } from "../../../src/domain/kernel/events/events.ts";
import type { TestApp } from "../app/app.ts";
import { must } from "../http/client.ts";
import { aQuestGame, counting } from "./quest-game.ts";

const DAY_MS = 86_400_000;

/** The times of an adventure that began a month ago and goes on for another. */
export const aSeason = () => ({
  startsAt: new Date(Date.now() - 30 * DAY_MS).toISOString(),
  endsAt: new Date(Date.now() + 30 * DAY_MS).toISOString(),
});

/** A game with quests and adventures, and one player at a time. */
export const anAdventureGame = async (api: TestApp) => {
  const game = await aQuestGame(api);
  let player = "";
  return {
    ...game,
    api,
    newPlayer: async (more: Json = {}) => (player = await game.newPlayer(more)),
    /** Publishes quests that one event of the type of their key completes. */
    quests: async (...keys: string[]) => {
      for (const key of keys) await game.publish({ key, steps: [counting("do", `${key}.done`, 1)] });
    },
    publishAdventure: async (adventure: Json & { key: string }) => {
      await game.make("/adventures", { name: adventure.key, ...aSeason(), ...adventure });
      return must(await game.post(`/adventures/${adventure.key}/publish`), 200);
    },
    adventureOf: (key: string) => game.get(`/players/${player}/adventures/${key}`),
    onAdventure: (key: string, what: string, body: unknown = {}) =>
      game.post(`/players/${player}/adventures/${key}/${what}`, body),
  };
};

export type AdventureGame = Awaited<ReturnType<typeof anAdventureGame>>;
