import assert from "node:assert/strict";
import { sql } from "kysely";
import { settleStreaks } from "../../../src/jobs/settle-streaks.ts";
import { must } from "../http/client.ts";
import { DAY_MS, HOUR_MS } from "../streaks/streaks.ts";
import type { Scene, Stage } from "./stage.ts";

const define = async ({ game }: Stage, key: string, more: object = {}): Promise<void> => {
  const qualify = { parts: [{ metric: { eventTypes: [key], aggregate: "count" } }] };
  await game.make("/streaks", { key, name: key, qualify, ...more });
};

/** The player does what counts, so many days ago at noon; today in the first moment of the day. */
const didAgo = async ({ game }: Stage, externalUserId: string, eventType: string, days: number) => {
  const today = Math.floor(Date.now() / DAY_MS) * DAY_MS;
  const timestamp = new Date(days === 0 ? today : today - days * DAY_MS + 12 * HOUR_MS).toISOString();
  const { body } = await game.post("/events?wait=true", { externalUserId, eventType, timestamp });
  assert.equal(body.status, "PROCESSED");
};

/** A gap that a freeze covers, and a milestone. */
const kept: Scene = {
  tells: ["player.streak_extended", "player.streak_frozen"],
  play: async (stage) => {
    await stage.game.player("dora");
    await define(stage, "practised", {
      freeze: { initial: 2, max: 3 },
      milestones: [{ length: 2, rewards: { xp: 10 } }],
    });
    for (const days of [3, 1, 0]) await didAgo(stage, "dora", "practised", days);
  },
};

const broken: Scene = {
  tells: ["player.streak_broken", "player.streak_repaired"],
  play: async (stage) => {
    const { api, game, change } = stage;
    const id = await game.player("emil");
    await define(stage, "walked", { repairWindowHours: 72 });
    for (const days of [4, 3]) await didAgo(stage, "emil", "walked", days);
    // The time in which more history might come is over.
    await change(sql`update player_streaks set due_at = now() - interval '1 s', doc = doc || '{"dueMs": 1}'
      where player_id = ${id}`);
    await settleStreaks.run(api.app, "*");
    must(await game.post(`/players/${id}/streaks/walked/repair`), 200);
  },
};

const atRisk: Scene = {
  tells: ["player.streak_at_risk"],
  play: async (stage) => {
    const { api, game } = stage;
    // Where it is between 22:00 and 23:00 now; the sign of these zones is the other way round.
    const hours = 22 - new Date().getUTCHours();
    const ahead = hours > 12 ? hours - 24 : hours;
    const timezone = ahead === 0 ? "UTC" : `Etc/GMT${ahead > 0 ? "-" : "+"}${Math.abs(ahead)}`;
    await define(stage, "read");
    await game.make("/players", { externalUserId: "finn", timezone });
    const timestamp = new Date(Date.now() - DAY_MS).toISOString();
    await game.post("/events?wait=true", { externalUserId: "finn", eventType: "read", timestamp });
    await settleStreaks.run(api.app, "*");
  },
};

/** Scenes about streaks. */
export const STREAK_SCENES: readonly Scene[] = [kept, broken, atRisk];
