import { must } from "../http/client.ts";
import type { Scenario } from "./stage.ts";

const quest = (key: string) => ({
  key,
  name: key,
  steps: [
    {
      key: "do",
      name: "Do",
      kind: "EVENT",
      metric: { eventTypes: [`${key}.done`], aggregate: "count" },
      target: 1,
    },
  ],
});

/** A season from the first quest to the rewards of its tiers and of the whole. */
const season: Scenario = {
  tells: [
    "adventure.started",
    "adventure.quest_unlocked",
    "adventure.tier_reached",
    "adventure.completed",
    "adventure.claimed",
  ],
  play: async ({ game }) => {
    await game.player("jana");
    for (const key of ["market", "harbour"]) {
      await game.make("/quests", quest(key));
      must(await game.post(`/quests/${key}/publish`), 200);
    }
    await game.make("/adventures", {
      key: "voyage",
      name: "A voyage",
      season: "2026",
      startsAt: "2026-01-01T00:00:00Z",
      endsAt: "2126-01-01T00:00:00Z",
      items: [
        { questKey: "market", order: 1, points: 10 },
        { questKey: "harbour", order: 2, points: 10, unlock: { mode: "AFTER_PREVIOUS" } },
      ],
      tiers: [{ tier: 1, points: 10, free: { xp: 5 } }],
      rewards: { xp: 50 },
    });
    must(await game.post("/adventures/voyage/publish"), 200);
    for (const eventType of ["market.done", "harbour.done"])
      must(await game.post("/events?wait=true", { externalUserId: "jana", eventType }), 200);
  },
};

/** Scenarios about adventures. */
export const ADVENTURE_SCENARIOS: readonly Scenario[] = [season];
