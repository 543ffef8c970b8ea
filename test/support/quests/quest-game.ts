import { createHash, randomUUID } from "node:crypto";
import type { Json } from "../../../src/domain/kernel/events/events.ts";
import { aTenant, type TestApp } from "../app/app.ts";
import { must } from "../http/client.ts";
import { eventually } from "../eventually.ts";

/** A step that counts events of a type. */
export const counting = (key: string, eventType: string, target: number, more: Json = {}) => ({
  key,
  name: key,
  kind: "EVENT",
  metric: { eventTypes: [eventType], aggregate: "count" },
  target,
  ...more,
});

/** A project with quests, and one player at a time, who is made anew by `newPlayer`. */
export const aQuestGame = async (api: TestApp) => {
  const tenant = await aTenant(api);
  const options = { key: tenant.key };
  let user = "";
  let player = "";
  const post = (path: string, body: unknown = {}) => api.post(`/api/v1${path}`, body, options);
  const get = async (path: string) => must(await api.get(`/api/v1${path}`, options), 200);
  const make = async (path: string, body: unknown) => must(await post(path, body), 201);
  return {
    api,
    tenant,
    post,
    get,
    make,
    patch: (path: string, body: unknown) => api.patch(`/api/v1${path}`, body, options),
    newPlayer: async (more: Json = {}) => {
      user = randomUUID();
      player = (await make("/players", { externalUserId: user, ...more })).id;
      return player;
    },
    publish: async (quest: Json & { key: string }) => {
      await make("/quests", { name: quest.key, ...quest });
      return must(await post(`/quests/${quest.key}/publish`), 200);
    },
    /** Sends an event of the player, and waits for its effects. */
    send: async (eventType: string, more: Json = {}) => {
      const event = { externalUserId: user, eventType, ...more };
      const { eventId } = must(await post("/events", event), 200);
      const done = await eventually(
        async (): Promise<Json | false> => {
          const found: Json = await get(`/events/${eventId}`);
          return found["status"] === "PROCESSED" && found;
        },
        { timeoutMs: 60_000, label: "the event is processed" },
      );
      return { eventId: eventId as string, effects: done["effects"] as { type: string; data: Json }[] };
    },
    questOf: (key: string) => get(`/players/${player}/quests/${key}`),
    act: (key: string, what: string, body: unknown = {}) =>
      post(`/players/${player}/quests/${key}/${what}`, body),
    xp: async () => (await get(`/players/${player}`)).xp as number,
  };
};

export type QuestGame = Awaited<ReturnType<typeof aQuestGame>>;

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

export const sha256 = (text: string): string => createHash("sha256").update(text).digest("hex");

/** A step that somebody confirms. */
export const manual = (key: string, more: Json = {}) => ({ key, name: key, kind: "MANUAL", ...more });

/** A step that a code does; codes are given as they are hashed: lower case, trimmed. */
export const coded = (key: string, codes: readonly string[], more: Json = {}) => ({
  key,
  name: key,
  kind: "CODE",
  codeHashes: codes.map(sha256),
  ...more,
});

/** A step with a pool of codes. */
export const pooled = (key: string, more: Json = {}) => ({
  key,
  name: key,
  kind: "CODE",
  perPlayerCodes: true,
  ...more,
});

/** A quiz of two questions: the right answers are `RIGHT`. */
export const quiz = (key: string, more: Json = {}) => ({
  key,
  name: key,
  kind: "QUIZ",
  questions: [
    { key: "capital", prompt: "The capital of France?", options: ["Rome", "Paris", "Oslo"], correct: [1] },
    { key: "primes", prompt: "Which are primes?", options: ["2", "4", "7"], correct: [0, 2] },
  ],
  passScore: 100,
  ...more,
});

export const RIGHT = { capital: [1], primes: [2, 0] };
export const HALF = { capital: [1], primes: [0] };
