import { randomUUID } from "node:crypto";
import type { Json } from "../../../src/domain/kernel/events/events.ts";
import { reconcile } from "../../../src/domain/registries/reconcile/reconcile.ts";
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

/** What the reconciliation of a game's project finds, which is nothing where all is sound. */
export const findingsOf = async ({ api, tenant }: Pick<QuestGame, "api" | "tenant">): Promise<string[]> => {
  const found: string[] = [];
  await reconcile(api.app.transact, {
    projectId: tenant.projectId,
    repair: false,
    onFinding: ({ invariant, message }) => void found.push(`${invariant} ${message}`),
  });
  return found;
};
