import assert from "node:assert/strict";
import { startApp } from "../support/app/app.ts";
import { assertError } from "../support/http/assert-error.ts";
import { must } from "../support/http/client.ts";
import { aGame } from "../support/app/game.ts";
import { madeForEach, madeOnce } from "../support/made.ts";

const TIERS = [
  { tier: 1, name: "Bronze", threshold: 10, iconUrl: "https://example.com/bronze.png", rewards: { xp: 5 } },
  { tier: 2, threshold: 20 },
];

describe("badges of players", () => {
  const api = madeOnce(startApp);
  const game = madeForEach(() => aGame(api));
  let player: string;
  beforeEach(async () => {
    player = await game.player("ada");
  });

  const badge = (key: string, more: object = {}) => game.make("/badges", { key, name: key, ...more });
  const path = (key: string): string => `/players/${player}/badges/${key}`;

  it("are awarded by hand, by key or id, with their rewards, and shown with all that is known", async () => {
    const made = await badge("explorer", {
      tiers: TIERS,
      rarity: "RARE",
      points: 5,
      category: "travel",
      secret: true,
    });
    const shown = must(await game.post(path(made.id), { tier: 1, reason: "support" }), 201);
    const { firstEarnedAt, lastEarnedAt, ...rest } = shown;
    assert.ok(firstEarnedAt === lastEarnedAt && Math.abs(Date.parse(firstEarnedAt) - Date.now()) < 60_000);
    assert.deepEqual(rest, {
      badgeKey: "explorer",
      badgeId: made.id,
      name: "explorer",
      description: null,
      iconUrl: "https://example.com/bronze.png",
      category: "travel",
      rarity: "RARE",
      points: 5,
      secret: true,
      tier: 1,
      tierName: "Bronze",
      maxTier: 2,
      progress: 0,
      nextThreshold: 20,
      percent: 0,
      timesAwarded: 1,
      serialNo: null,
      revokedAt: null,
      earnedByPercent: 100,
    });
    type Told = [string, { cause: Record<string, unknown>; previousTier: number; amount: number }];
    const [[type, data], [, xp]] = (await game.told(player)) as unknown as [Told, Told];
    assert.equal(type, "player.badge_earned");
    assert.deepEqual([data.cause["kind"], data.cause["note"], data.previousTier], ["API", "support", 0]);
    assert.deepEqual([xp.amount, xp.cause["kind"], xp.cause["refKey"]], [5, "BADGE", "explorer"]);
    must(await game.post("/players/ext:ada/badges/explorer", {}), 201);
    assert.equal((await game.told(player)).length, 2, "a badge that is held is not awarded again");
  });

  it("are listed by state and category, in pages", async () => {
    for (const [key, category] of [
      ["a", "x"],
      ["b", "y"],
      ["c", "x"],
    ] as const)
      await badge(key, { category, tiers: TIERS });
    await game.post(path("a"));
    await game.patch(path("b"), { add: 4 });
    const keys = async (query: string): Promise<string[]> =>
      must(await game.get(`/players/${player}/badges${query}`), 200).data.map(
        (one: { badgeKey: string }) => one.badgeKey,
      );
    assert.deepEqual(await keys(""), ["a"]);
    assert.deepEqual(await keys("?state=IN_PROGRESS"), ["b"]);
    assert.deepEqual(await keys("?state=ALL"), ["a", "b", "c"]);
    assert.deepEqual(await keys("?state=ALL&category=x"), ["a", "c"]);
    assert.deepEqual(await keys("?state=ALL&limit=2&page=2"), ["c"]);
    const beyond = (await game.get(`/players/${player}/badges?state=ALL&limit=2&page=9`)).body;
    assert.deepEqual([beyond.data, beyond.pagination.total], [[], 3]);
    await game.remove("/badges/a");
    await game.remove("/badges/c");
    assert.deepEqual(await keys("?state=ALL"), ["a", "b"], "what is held stays when it is archived");
    assertError(await game.get(`/players/${player}/badges?state=SOME`), 400);
  });

  it("are taken away, and can be earned anew", async () => {
    await badge("b", { tiers: TIERS });
    assertError(await game.remove(path("b"), {}), 409, "INVALID_STATE");
    await game.post(path("b"), { tier: 2 });
    const shown = must(await game.remove(path("b"), { reason: "cheated" }), 200);
    assert.deepEqual([shown.tier, shown.progress, shown.timesAwarded], [0, 0, 1]);
    assert.ok(shown.revokedAt);
    const last = (await game.told(player)).at(-1)!;
    assert.equal(last[0], "player.badge_revoked");
    assert.equal((last[1]["cause"] as { note: string }).note, "cheated");
    const again = must(await game.post(path("b")), 201);
    assert.deepEqual([again.tier, again.timesAwarded, again.revokedAt], [1, 2, null]);
    assert.equal((await game.get(`/players/${player}`)).body.xp, 10);
  });

  it("of a limited edition end, and their holders are listed with their numbers", async () => {
    await badge("gold", { maxAwards: 2, tiers: [{ tier: 1 }, { tier: 2 }] });
    const [bob, cleo] = [await game.player("bob"), await game.player("cleo")];
    await game.post(`/players/${bob}/badges/gold`);
    await game.post(path("gold"), { tier: 2 });
    assertError(await game.post(`/players/${cleo}/badges/gold`), 409, "OUT_OF_STOCK");
    const holders = async (query = "") => {
      const { data } = must(await game.get(`/badges/gold/holders${query}`), 200);
      return data.map((one: Record<string, unknown>) => [
        one["externalUserId"],
        one["tier"],
        one["serialNo"],
      ]);
    };
    assert.deepEqual(await holders(), [
      ["ada", 2, 2],
      ["bob", 1, 1],
    ]);
    assert.deepEqual(await holders("?tier=1"), [["bob", 1, 1]]);
    assert.deepEqual(await holders("?playerId=ext:ada"), [["ada", 2, 2]]);
    assert.deepEqual(await holders(`?playerId=${bob}&tier=2`), []);
    assert.deepEqual(await holders(`?playerId=${cleo}`), []);
    assertError(await game.get("/badges/gold/holders?playerId=ext:nobody"), 404);
    const { data } = (await game.get(`/players/${bob}/badges`)).body;
    assert.equal(data[0].earnedByPercent, 66.7);
    must(await game.patch("/badges/gold", { maxAwards: 3 }), 200);
    assert.equal(must(await game.post(`/players/${cleo}/badges/gold`), 201).serialNo, 3);
    await game.setStatus(bob, "BANNED");
    assert.deepEqual(await holders(), [
      ["ada", 2, 2],
      ["cleo", 1, 3],
    ]);
  });

  it("that become limited count those that were awarded before", async () => {
    await badge("late");
    await game.post(path("late"));
    must(await game.patch("/badges/late", { maxAwards: 2 }), 200);
    const [bob, cleo] = [await game.player("bob"), await game.player("cleo")];
    assert.equal(must(await game.post(`/players/${bob}/badges/late`), 201).serialNo, 2);
    assertError(await game.post(`/players/${cleo}/badges/late`), 409, "OUT_OF_STOCK");
  });

  it("are refused with what fits no badge, out of their time, and for inactive players", async () => {
    await badge("b", { tiers: TIERS });
    await badge("over", { availableUntil: "2026-01-01T00:00:00Z" });
    assertError(await game.post(path("b"), { tier: 3 }), 400);
    assertError(await game.post(path("over")), 409, "NOT_AVAILABLE");
    assertError(await game.post(path("gone")), 404);
    assertError(await game.post(`/players/nobody/badges/b`), 404);
    await game.setStatus(player, "BANNED");
    assertError(await game.post(path("b")), 409, "PLAYER_INACTIVE");
    assertError(await game.patch(path("b"), { add: 1 }), 409, "PLAYER_INACTIVE");
    assert.deepEqual(await game.told(player), []);
    await game.remove("/badges/b");
    await game.setStatus(player, "ACTIVE");
    assertError(await game.post(path("b")), 409, "INVALID_STATE");
  });

  describe("as definitions", () => {
    it("may have tiers added and thresholds moved, but none removed; what is held stays", async () => {
      await badge("b", { tiers: TIERS });
      await game.patch(path("b"), { set: 20 });
      const tiers = [{ tier: 1, threshold: 50 }, { tier: 2, threshold: 60 }, { tier: 3 }];
      must(await game.patch("/badges/b", { tiers }), 200);
      const [shown] = (await game.get(`/players/${player}/badges`)).body.data;
      assert.deepEqual([shown.tier, shown.maxTier], [2, 3]);
      const answer = await game.patch("/badges/b", { tiers: tiers.slice(0, 2) });
      assertError(answer, 400);
      assert.equal(answer.body.error.details[0].field, "tiers");
    });

    it("are refused with rewards that name what is not there, or that give the badge itself", async () => {
      const refused = async (rewards: object, field: string) => {
        const answer = await game.post("/badges", { key: "r", name: "R", tiers: [{ tier: 1, rewards }] });
        assertError(answer, 400, field.endsWith("rewards") ? undefined : "UNKNOWN_REFERENCE");
        assert.equal(answer.body.error.details[0].field, field);
      };
      await refused({ currencies: { coins: 1 } }, "tiers.0.rewards.currencies.coins");
      await refused({ badges: [{ badgeKey: "x" }] }, "tiers.0.rewards.badges.0.badgeKey");
      await refused({ rewards: [{ rewardKey: "x" }] }, "tiers.0.rewards.rewards.0.rewardKey");
      await refused({ streakFreezes: { x: 1 } }, "tiers.0.rewards.streakFreezes.x");
      await refused({ badges: [{ badgeKey: "r" }] }, "tiers.0.rewards");
      await game.make("/rewards", { key: "box", name: "Box", kind: "BUNDLE", bundle: { xp: 1 } });
      await badge("a", { tiers: [{ tier: 1, rewards: { rewards: [{ rewardKey: "box" }] } }] });
      const ring = await game.patch("/rewards/box", { bundle: { badges: [{ badgeKey: "a" }] } });
      assertError(ring, 400);
      assert.match(ring.body.error.message, /badge a gives reward box gives badge a|reward box gives/);
      const high = await game.patch("/rewards/box", { bundle: { badges: [{ badgeKey: "b", tier: 2 }] } });
      assertError(high, 400, "UNKNOWN_REFERENCE");
    });
  });
});
