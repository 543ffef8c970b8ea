import assert from "node:assert/strict";
import type { Answer } from "../http/client.ts";
import { oneWins, type Race, sideIn, together } from "./arena.ts";

const quest = {
  key: "act",
  name: "Act",
  steps: [
    {
      key: "do",
      name: "Do",
      kind: "EVENT",
      metric: { eventTypes: ["acted"], aggregate: "count" },
      target: 1,
    },
  ],
};

const adventure = {
  key: "season",
  name: "Season",
  startsAt: "2026-01-01T00:00:00Z",
  endsAt: "2126-01-01T00:00:00Z",
  items: [{ questKey: "act", order: 1, points: 10 }],
  tiers: [{ tier: 1, points: 10, free: { xp: 7 }, premium: { currencies: { gems: 100 } } }],
  premiumPrice: { currencyKey: "gems", amount: 50 },
  claim: "MANUAL",
  rewards: { xp: 1_000 },
};

const done = (answer: Answer): Answer => {
  assert.ok(answer.status < 300, JSON.stringify(answer.body));
  return answer;
};

/** What must hold when several want the same of a player's adventure at the same time. */
export const adventureRaces: readonly Race[] = [
  {
    name: "gives the rewards of a tier and of an adventure, and sells premium, once among 30 who ask",
    run: async (arena) => {
      const { tenant } = await sideIn(arena);
      const { key } = tenant;
      const [first] = arena.clients;
      const post = async (path: string, body: object = {}) =>
        done(await first!.post(`/api/v1${path}`, body, { key })).body;
      await post("/currencies", { key: "gems", name: "Gems", initialBalance: 80 });
      await post("/quests", quest);
      await post("/quests/act/publish");
      await post("/adventures", adventure);
      await post("/adventures/season/publish");
      const { id } = await post("/players", { externalUserId: "racer" });
      await post("/events?wait=true", { externalUserId: "racer", eventType: "acted" });
      const path = `/api/v1/players/${id}/adventures/season`;
      const all = (what: string, body: object = {}) =>
        together(arena, 30, (client) => client.post(`${path}/${what}`, body, { key }));
      oneWins(await all("premium"), 200, "409 ALREADY_PREMIUM");
      oneWins(await all("tiers/1/claim", { track: "PREMIUM" }), 200, "409 ALREADY_CLAIMED");
      oneWins(await all("tiers/1/claim", { track: "FREE" }), 200, "409 ALREADY_CLAIMED");
      oneWins(await all("claim"), 200, "409 ALREADY_CLAIMED");
      const { body } = await first!.get(`/api/v1/players/${id}`, { key });
      assert.deepEqual([body.xp, body.currencies.gems], [1_007, 80 - 50 + 100]);
    },
  },
];
