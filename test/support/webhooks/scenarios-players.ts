import assert from "node:assert/strict";
import { sql } from "kysely";
import { endBoosts, expireCurrencies } from "../../../src/jobs/jobs.ts";
import { must } from "../http/client.ts";
import { ruleOn, type Scenario } from "./stage.ts";

const profile: Scenario = {
  tells: ["player.created", "player.updated", "player.segment_entered", "player.segment_left"],
  play: async ({ api, game }) => {
    const { id } = await game.make("/players", {
      externalUserId: "ada",
      displayName: "Ada",
      attributes: { course: "latin" },
      tags: ["beta"],
    });
    must(
      await game.patch("/players/ext:ada", { displayName: "Ada L.", attributes: { course: "greek" } }),
      200,
    );
    await game.make("/segments", { key: "vips", name: "VIPs", kind: "STATIC" });
    must(await game.post("/segments/vips/members", { playerIds: [id] }), 200);
    const { key } = game.tenant;
    must(await api.delete("/api/v1/segments/vips/members", { key, body: { playerIds: [id] } }), 200);
  },
};

/** What a rule gives when a lesson is finished, and what is then paid. */
const lesson: Scenario = {
  tells: [
    "player.xp_granted",
    "player.level_up",
    "player.currency_granted",
    "player.currency_spent",
    "custom.*",
  ],
  play: async (stage) => {
    const { game } = stage;
    await game.make("/currencies", { key: "coins", name: "Coins" });
    await game.make("/currencies", { key: "tickets", name: "Tickets", expiryDays: 30 });
    await ruleOn(stage, "lesson_finished", {
      actions: [
        { type: "grant_xp", amount: 150 },
        { type: "adjust_currency", currencyKey: "coins", amount: 20 },
        {
          type: "emit_event",
          eventType: "lesson.praised",
          properties: { lesson: { $ref: "event.properties.lesson" } },
          channels: ["webhook"],
        },
      ],
    });
    await game.track("ada", "lesson_finished", { lesson: "ablative" });
    const order = { amount: 15, reason: "A hat", reference: "order-7" };
    await game.make("/players/ext:ada/balances/coins/spend", order);
  },
};

const purse: Scenario = {
  tells: ["player.currency_expired", "player.lives_changed", "player.reward_granted"],
  play: async ({ api, game, change }) => {
    const { projectId, token } = game.tenant;
    const ticket = { amount: 3, reason: "Welcome" };
    await game.make("/players/ext:ada/balances/tickets/grant", ticket);
    await change(sql`update currency_lots set expires_at = now() - interval '1 second'
      where project_id = ${projectId} and currency_key = 'tickets'`);
    await expireCurrencies.run(api.app, "*");

    const lives = { enabled: true, max: 5, refillSeconds: 1_800 };
    must(await api.patch(`/api/v1/projects/${projectId}`, { settings: { lives } }, { token }), 200);
    must(await game.post("/players/ext:ada/lives/consume", { amount: 1, reason: "level" }), 200);

    await game.make("/rewards", { key: "gift-card", name: "Gift card", kind: "PRIZE", fulfilment: "CODE" });
    must(await game.post("/rewards/gift-card/codes", { codes: ["GIFT-7421"] }), 200);
    await game.make("/rewards/gift-card/grant", { playerId: "ext:ada" });
    await game.make("/rewards", { key: "chest", name: "Chest", kind: "BUNDLE", bundle: { xp: 5 } });
    await game.make("/rewards/chest/grant", { playerId: "ext:ada" });
  },
};

const boosts: Scenario = {
  tells: ["player.boost_started", "player.boost_ended"],
  play: async ({ api, game, change }) => {
    const rush = { boostKey: "rush", applies: "xp", factor: 2, durationSeconds: 600 };
    const { id } = await game.make("/players/ext:ada/boosts", { ...rush, uses: 5 });
    await change(sql`update player_boosts set expires_at = now() - interval '1 second' where id = ${id}`);
    await endBoosts.run(api.app, "*");
  },
};

const badges: Scenario = {
  tells: ["player.badge_earned", "player.badge_revoked"],
  play: async ({ game }) => {
    await game.make("/badges", { key: "helper", name: "Helper" });
    await game.make("/players/ext:ada/badges/helper", {});
    must(await game.remove("/players/ext:ada/badges/helper"), 200);
  },
};

const identity: Scenario = {
  tells: ["player.merged", "player.erased"],
  play: async ({ api, game, heard }) => {
    const [target, source] = [await game.player("cleo"), await game.player("cleo-tablet")];
    await game.make(`/players/${source}/xp`, { amount: 40 });
    await game.make(`/players/${source}/balances/coins/grant`, { amount: 7, reason: "Found" });
    must(await game.post(`/players/${target}/merge`, { sourcePlayerId: source }), 200);
    const erased = await game.player("ben");
    await game.make(`/players/${erased}/erase`, { reason: "asked for" });
    await heard("player.erased");
    const shown = must(await api.get(`/api/v1/players/${erased}`, { key: game.tenant.key }), 200);
    assert.equal(shown.status, "ERASED");
  },
};

/** Scenarios about single players, in their order: the later ones need the earlier. */
export const PLAYER_SCENARIOS: readonly Scenario[] = [profile, lesson, purse, boosts, badges, identity];
