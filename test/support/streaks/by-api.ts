import assert from "node:assert/strict";
import { randomUUID } from "node:crypto";
import type { Json } from "../../../src/domain/kernel/events/events.ts";
import { type Answer, aTenant, startApp } from "../app/app.ts";
import { pastMidnight } from "../eventually.ts";
import { must } from "../http/client.ts";
import { madeForEach, madeOnce } from "../made.ts";
import { momentAgo } from "./real-days.ts";
import { qualify } from "./streaks-game.ts";

/** A tenant with streaks of `done`, and a player of each test's own, by the API. */
export const streaksByApi = () => {
  const api = madeOnce(startApp);
  const tenant = madeOnce(() => aTenant(api));
  const make = async (path: string, body: unknown): Promise<Answer["body"]> =>
    must(await api.post(`/api/v1${path}`, body, { key: tenant.key }), 201);
  const player = madeForEach(async (): Promise<{ id: string; user: string }> => {
    await pastMidnight();
    const user = randomUUID();
    return { id: (await make("/players", { externalUserId: user })).id, user };
  });
  return {
    api,
    tenant,
    player,
    make,
    define: (key: string, more: Json = {}) => make("/streaks", { key, name: key, qualify, ...more }),
    /** The player has done something so many days ago. */
    doneAgo: async (days: number, eventType = "done"): Promise<void> => {
      const event = { externalUserId: player.user, eventType, timestamp: momentAgo(days) };
      const { status } = (await api.post("/api/v1/events?wait=true", event, { key: tenant.key })).body;
      assert.equal(status, "PROCESSED");
    },
    act: (key: string, what: string, body: unknown = {}): Promise<Answer> =>
      api.post(`/api/v1/players/${player.id}/streaks/${key}/${what}`, body, { key: tenant.key }),
  };
};
