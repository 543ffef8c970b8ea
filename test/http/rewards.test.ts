import assert from "node:assert/strict";
import { expireGrants } from "../../src/domain/economy/rewards/player-rewards.ts";
import { type Answer, startApp } from "../support/app/app.ts";
import { assertError } from "../support/http/assert-error.ts";
import { must } from "../support/http/client.ts";
import { aGame } from "../support/app/game.ts";
import { madeForEach, madeOnce } from "../support/made.ts";

describe("rewards of the catalogue", () => {
  const api = madeOnce(startApp);
  const game = madeForEach(() => aGame(api));
  let player: string;
  beforeEach(async () => {
    player = await game.player("ada");
    await game.make("/currencies", { key: "coins", name: "Coins", initialBalance: 100 });
  });

  const chest = (more: object = {}) =>
    game.make("/rewards", { key: "chest", name: "Chest", kind: "BUNDLE", bundle: { xp: 5 }, ...more });
  const prize = (fulfilment: string, more: object = {}) =>
    game.make("/rewards", { key: "mug", name: "Mug", kind: "PRIZE", fulfilment, ...more });
  const grant = (key: string, more: object = {}): Promise<Answer> =>
    game.post(`/rewards/${key}/grant`, { playerId: player, ...more });
  const buy = (key: string, quantity = 1): Promise<Answer> =>
    game.post(`/rewards/${key}/purchase`, { playerId: "ext:ada", quantity });
  const claim = (id: string): Promise<Answer> => game.post(`/players/${player}/rewards/${id}/claim`);
  const fulfil = (id: string): Promise<Answer> => game.post(`/players/${player}/rewards/${id}/fulfil`);
  const xp = async (): Promise<number> => (await game.get(`/players/${player}`)).body.xp;
  const coins = async (): Promise<number> =>
    (await game.get(`/players/${player}/balances`)).body.data[0].balance;
  const statuses = async (): Promise<unknown[]> =>
    (await game.told(player))
      .filter(([type]) => type === "player.reward_granted")
      .map(([, { status, code }]) => [status, code]);
  /** Makes the time to claim the player's grants be over. */
  const letEnd = () => api.sql`update reward_grants set expires_at = created_at where player_id = ${player}`;

  it("are granted at once with what is in them", async () => {
    const made = await chest();
    const given = must(await grant(made.id, { quantity: 3 }), 201);
    assert.deepEqual(
      [given.status, given.kind, given.name, given.quantity, given.contents, given.code, given.expiresAt],
      ["GRANTED", "BUNDLE", "Chest", 3, { xp: 15 }, null, null],
    );
    assert.equal(given.cause.kind, "API");
    assert.equal(await xp(), 15);
    assert.deepEqual(await statuses(), [["GRANTED", null]]);
  });

  it("are claimed once, however often the player asks", async () => {
    await chest({ claimSeconds: 3_600 });
    const given = must(await grant("chest", { delivery: "CLAIM" }), 201);
    assert.equal(given.status, "PENDING");
    assert.equal(Date.parse(given.expiresAt) - Date.parse(given.createdAt), 3_600_000);
    assert.equal(await xp(), 0);
    const claimed = must(await claim(given.id), 200);
    assert.equal(claimed.status, "CLAIMED");
    assert.equal(must(await claim(given.id), 200).status, "CLAIMED");
    assert.equal(await xp(), 5);
    assert.deepEqual(await statuses(), [
      ["PENDING", null],
      ["CLAIMED", null],
    ]);
    const entry = (await game.told(player)).find(([type]) => type === "player.xp_granted")![1];
    assert.equal((entry["cause"] as { refId: string }).refId, given.id);
  });

  it("that nobody claims in time are over, before and after the sweep", async () => {
    await chest({ claimSeconds: 60 });
    const given = must(await grant("chest", { delivery: "CLAIM" }), 201);
    await letEnd();
    const list = async (status: string): Promise<number> =>
      (await game.get(`/players/${player}/rewards?status=${status}`)).body.data.length;
    assert.deepEqual([await list("PENDING"), await list("EXPIRED")], [0, 1]);
    assertError(await claim(given.id), 409, "CLAIM_EXPIRED");
    await api.app.transact((work) => expireGrants(work, 1_000));
    assertError(await claim(given.id), 409, "CLAIM_EXPIRED");
    assert.deepEqual([await list("PENDING"), await list("EXPIRED")], [0, 1]);
    assert.equal(await xp(), 0);
  });

  it("are bought for their price, which is paid before anything is given", async () => {
    await chest({ price: { currencyKey: "coins", amount: 40 }, bundle: { currencies: { coins: 30 } } });
    const bought = must(await buy("chest", 2), 201);
    assert.deepEqual([bought.status, bought.contents], ["GRANTED", { currencies: { coins: 60 } }]);
    assert.equal(await coins(), 80);
    assertError(await buy("chest", 3), 409, "INSUFFICIENT_FUNDS");
    assert.equal(await coins(), 80);
    assert.equal((await game.get(`/players/${player}/rewards`)).body.pagination.total, 1);
    const { data } = (await game.get(`/players/${player}/ledger`)).body;
    assert.equal((await game.get(`/players/${player}/ledger/verify`)).body.valid, true);
    assert.ok(data.some((one: Record<string, unknown>) => one["reason"] === "reward:chest"));
  });

  it("are refused without a price, stock, or room for the player, and nothing is paid", async () => {
    await chest();
    assertError(await buy("chest"), 409, "NOT_FOR_SALE");
    await prize("EXTERNAL", { price: { currencyKey: "coins", amount: 1_000 }, stock: 2, perPlayerLimit: 1 });
    assertError(await buy("mug", 3), 409, "LIMIT_REACHED");
    assertError(await buy("mug"), 409, "INSUFFICIENT_FUNDS");
    must(await game.patch("/rewards/mug", { perPlayerLimit: null, stock: 0 }), 200);
    assertError(await buy("mug"), 409, "OUT_OF_STOCK");
    must(await game.patch("/rewards/mug", { availableUntil: "2026-01-01T00:00:00Z" }), 200);
    assertError(await buy("mug"), 409, "NOT_AVAILABLE");
    assert.deepEqual(await game.told(player), []);
  });

  it("that are prizes are handed over once they were claimed, once", async () => {
    await prize("EXTERNAL");
    await chest();
    const given = must(await grant("mug", { delivery: "CLAIM" }), 201);
    assertError(await fulfil(given.id), 409, "INVALID_STATE");
    must(await claim(given.id), 200);
    assert.equal(must(await fulfil(given.id), 200).status, "FULFILLED");
    assert.equal(must(await fulfil(given.id), 200).status, "FULFILLED");
    assert.equal(must(await claim(given.id), 200).status, "FULFILLED");
    assert.equal((await statuses()).length, 3);
    assertError(await fulfil(must(await grant("chest"), 201).id), 409, "INVALID_STATE");
  });

  it("give codes of their pool, each once, and say when there is none left", async () => {
    await prize("CODE", { price: { currencyKey: "coins", amount: 10 } });
    const add = (codes: string[]) => game.post("/rewards/mug/codes", { codes });
    assert.deepEqual(must(await add(["A", "B", "A"]), 200), { added: 2, duplicates: 1 });
    assert.deepEqual(must(await add(["B", "C"]), 200), { added: 1, duplicates: 1 });
    const bought = must(await buy("mug"), 201);
    const given = must(await grant("mug"), 201);
    const waits = must(await grant("mug", { delivery: "CLAIM" }), 201);
    assert.deepEqual(
      [bought.status, given.status, waits.status, waits.code],
      ["GRANTED", "GRANTED", "PENDING", null],
    );
    const claimed = must(await claim(waits.id), 200);
    assert.deepEqual([bought.code, given.code, claimed.code].toSorted(), ["A", "B", "C"]);
    assert.equal(must(await claim(waits.id), 200).code, claimed.code);
    assertError(await buy("mug"), 409, "OUT_OF_STOCK");
    const empty = must(await grant("mug", { delivery: "CLAIM" }), 201);
    assertError(await claim(empty.id), 409, "OUT_OF_STOCK");
    assert.deepEqual(must(await add(["A", "D"]), 200), { added: 1, duplicates: 1 });
    assert.equal(must(await claim(empty.id), 200).code, "D");
    assert.equal(await coins(), 90);
    assert.equal((await game.get("/rewards/mug/stock")).body.freeCodes, 0);
    assertError(await grant("mug", { quantity: 2 }), 400);
    await chest();
    assertError(await game.post("/rewards/chest/codes", { codes: ["A"] }), 409, "INVALID_STATE");
  });

  it("take 10,000 codes at once, and no more", async () => {
    await prize("CODE");
    const codes = Array.from({ length: 10_000 }, (_, i) => `CODE-${i}`);
    assert.deepEqual(must(await game.post("/rewards/mug/codes", { codes }), 200), {
      added: 10_000,
      duplicates: 0,
    });
    assertError(await game.post("/rewards/mug/codes", { codes: [...codes, "x"] }), 400);
    for (const bad of [[], [""], ["x".repeat(201)], [1]])
      assertError(await game.post("/rewards/mug/codes", { codes: bad }), 400);
  });

  it("are refused as definitions that name what is not there, or that become another thing", async () => {
    const refused = async (body: object, field: string, reason?: string) => {
      const answer = await game.post("/rewards", { key: "r", name: "R", kind: "BUNDLE", ...body });
      assertError(answer, 400, reason);
      assert.equal(answer.body.error.details[0].field, field);
    };
    await refused({ kind: "MYSTERY_BOX" }, "kind");
    await refused({ bundle: { currencies: { gems: 1 } } }, "bundle.currencies.gems", "UNKNOWN_REFERENCE");
    await refused(
      { bundle: { xp: 1 }, price: { currencyKey: "gems", amount: 1 } },
      "price.currencyKey",
      "UNKNOWN_REFERENCE",
    );
    await prize("CODE");
    assertError(await game.patch("/rewards/mug", { fulfilment: "EXTERNAL" }), 400);
    const level = await game.post("/levels", { key: "2", name: "Two", rewards: { xp: 1 } });
    assertError(level, 400);
    await chest();
    const through = { rewards: [{ rewardKey: "chest" }] };
    const indirect = await game.post("/levels", { key: "2", name: "Two", rewards: through });
    assert.match(indirect.body.error.message, /a level cannot give XP/);
    await game.make("/rewards", {
      key: "box",
      name: "Box",
      kind: "BUNDLE",
      bundle: { currencies: { coins: 1 } },
    });
    await game.make("/badges", { key: "medal", name: "Medal", tiers: [{ tier: 1, rewards: {} }] });
    const given = { rewards: [{ rewardKey: "box" }], badges: [{ badgeKey: "medal" }] };
    await game.make("/levels", { key: "2", name: "Two", rewards: given });
    assertError(await game.patch("/rewards/box", { bundle: { xp: 1 } }), 400);
    assertError(await game.patch("/badges/medal", { tiers: [{ tier: 1, rewards: { xp: 1 } }] }), 400);
  });

  it("are refused for players and grants that are not there, or not active", async () => {
    await chest();
    const given = must(await grant("chest", { delivery: "CLAIM" }), 201);
    assertError(await game.post("/rewards/chest/grant", { playerId: "ext:nobody" }), 404);
    assertError(await game.post("/rewards/gone/grant", { playerId: player }), 404);
    assertError(await claim("gone"), 404);
    assertError(await game.post(`/players/${await game.player("bob")}/rewards/${given.id}/claim`), 404);
    await game.setStatus(player, "SUSPENDED");
    assertError(await grant("chest"), 409, "PLAYER_INACTIVE");
    assertError(await claim(given.id), 409, "PLAYER_INACTIVE");
    await game.setStatus(player, "ACTIVE");
    must(await game.remove("/rewards/chest"), 200);
    assertError(await grant("chest"), 409, "INVALID_STATE");
    assert.equal(must(await claim(given.id), 200).status, "CLAIMED", "what waits outlives its definition");
  });
});
