import assert from "node:assert/strict";
import { sql } from "kysely";
import { settleStreaks } from "../../../src/jobs/jobs.ts";
import { must } from "../http/client.ts";
import { DAY_MS } from "../streaks/streaks.ts";
import type { Scenario, Stage } from "./stage.ts";
import { lateZone, momentAgo } from "../streaks/real-days.ts";
import { pastMidnight } from "../clock-edges.ts";

const define = async ({ game }: Stage, key: string, more: object = {}): Promise<void> => {
  const qualify = { parts: [{ metric: { eventTypes: [key], aggregate: "count" } }] };
  await game.make("/streaks", { key, name: key, qualify, ...more });
};

/** The player does what counts, so many days ago at noon; today in the first moment of the day. */
const didAgo = async ({ game }: Stage, externalUserId: string, eventType: string, days: number) => {
  const event = { externalUserId, eventType, timestamp: momentAgo(days) };
  const { body } = await game.post("/events?wait=true", event);
  assert.equal(body.status, "PROCESSED");
};

/** A gap that a freeze covers, and a milestone. */
const kept: Scenario = {
  tells: ["player.streak_extended", "player.streak_frozen"],
  play: async (stage) => {
    await pastMidnight();
    await stage.game.player("dora");
    await define(stage, "practised", {
      freeze: { initial: 2, max: 3 },
      milestones: [{ length: 2, rewards: { xp: 10 } }],
    });
    for (const days of [3, 1, 0]) await didAgo(stage, "dora", "practised", days);
  },
};

const broken: Scenario = {
  tells: ["player.streak_broken", "player.streak_repaired"],
  play: async (stage) => {
    const { api, game, change } = stage;
    await pastMidnight();
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

const atRisk: Scenario = {
  tells: ["player.streak_at_risk"],
  play: async (stage) => {
    const { api, game } = stage;
    await define(stage, "read");
    await game.make("/players", { externalUserId: "finn", timezone: lateZone() });
    const timestamp = new Date(Date.now() - DAY_MS).toISOString();
    await game.post("/events?wait=true", { externalUserId: "finn", eventType: "read", timestamp });
    await settleStreaks.run(api.app, "*");
  },
};

/** Scenarios about streaks. */
export const STREAK_SCENARIOS: readonly Scenario[] = [kept, broken, atRisk];
