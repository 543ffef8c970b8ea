import assert from "node:assert/strict";
import { eventuallyHolds } from "../support/eventually.ts";
import { LOTS_MAX } from "../../src/domain/economy/currencies/holds.ts";
import { expireCurrencies } from "../../src/jobs/jobs.ts";
import { aTenant, startApp } from "../support/app/app.ts";
import { assertError } from "../support/http/assert-error.ts";
import { must } from "../support/http/client.ts";
import { aPurse, aTreasury, CURRENCIES } from "../support/economy/economy.ts";
import { madeForEach, madeOnce } from "../support/made.ts";

const DAY_MS = 86_400_000;

describe("balances", () => {
  const api = madeOnce(startApp);
  const tenant = madeOnce(() => aTreasury(api, CURRENCIES));
  const purse = madeForEach(() => aPurse(api, tenant));

  it("are all the project's currencies, with what players have to begin with", async () => {
    const empty = { balance: 0, available: 0, held: 0, lifetimeEarned: 0, lifetimeSpent: 0, expiring: [] };
    assert.deepEqual(await purse.balances(), {
      coins: { currencyKey: "coins", ...empty },
      gems: { currencyKey: "gems", ...empty, balance: 20, available: 20, lifetimeEarned: 20 },
      points: { currencyKey: "points", ...empty },
    });
    assert.deepEqual(await purse.verify(), { valid: true, entries: 0, headHash: null });
  });

  it("rise by a grant, which answers 201 with the balance and its entry", async () => {
    const { balance, ledgerEntry } = must(await purse.grant("coins", 12, { reason: "support" }), 201);
    const { id, hash, createdAt, cause, ...entry } = ledgerEntry;
    assert.ok(id && createdAt);
    assert.match(hash, /^[0-9a-f]{64}$/);
    assert.match(cause.actor, /^key:/);
    const what = { seq: 1, asset: "CURRENCY", currencyKey: "coins", amount: 12, balanceAfter: 12 };
    assert.deepEqual(entry, { ...what, reason: "support", txId: null, reverses: null });
    const day = Math.floor(Date.now() / DAY_MS);
    assert.deepEqual(balance.expiring, [{ amount: 12, at: new Date((day + 11) * DAY_MS).toISOString() }]);
    assert.deepEqual(await purse.told(), [["player.currency_granted", "coins", 12, 12]]);
  });

  it("take a reference once for a player, whatever for", async () => {
    must(await purse.grant("coins", 5, { reference: "r" }), 201);
    for (const answer of [
      await purse.grant("coins", 5, { reference: "r" }),
      await purse.spend("gems", 1, { reference: "r" }),
      await purse.hold("gems", 1, { reference: "r" }),
      await purse.post("xp", { amount: 1, reference: "r" }),
    ])
      assertError(answer, 409, "REFERENCE_USED");
    must(await purse.hold("gems", 1, { reference: "h" }), 201);
    assertError(await purse.spend("gems", 1, { reference: "h" }), 409, "REFERENCE_USED");
    assertError(await purse.post("xp", { amount: 1, reference: "h" }), 409, "REFERENCE_USED");
  });

  it("lose what expires: at once for every reader, and in the ledger by a job, once", async () => {
    await purse.grant("coins", 30);
    await purse.spend("coins", 5);
    await purse.letPass("currency_lots");
    assert.deepEqual(await purse.numbers("coins"), [0, 0, 0, 30, 5], "before the job");
    const shown = must(await api.get(`/api/v1/players/${purse.player}`, { key: tenant.key }), 200);
    assert.equal(shown.currencies.coins, 0);
    assertError(await purse.spend("coins", 1), 409, "INSUFFICIENT_FUNDS");
    await Promise.all([1, 2, 3].map(() => expireCurrencies.run(api.app, "*")));
    // It may be the server's own job that has it.
    await eventuallyHolds(async () => assert.deepEqual(await purse.numbers("coins"), [0, 0, 0, 30, 5]));
    assert.deepEqual((await purse.told()).slice(2), [["player.currency_expired", "coins", 25, 0]]);
    const { data } = must(
      await api.get(`/api/v1/players/${purse.player}/ledger?limit=1`, { key: tenant.key }),
      200,
    );
    assert.deepEqual([data[0].amount, data[0].reason, data[0].cause.kind], [-25, "expiry", "EXPIRY"]);
    assert.equal((await purse.verify())["valid"], true);
  });

  it("expire when a grant says so, whatever the currency says", async () => {
    const expiresAt = new Date(Date.now() + DAY_MS).toISOString();
    await purse.grant("points", 4, { expiresAt });
    await purse.grant("points", 2);
    assert.deepEqual((await purse.balances())["points"]!["expiring"], [{ amount: 4, at: expiresAt }]);
    await purse.spend("points", 3);
    assert.deepEqual((await purse.balances())["points"]!["expiring"], [{ amount: 1, at: expiresAt }]);
    const past = await purse.grant("points", 1, { expiresAt: "2020-01-01T00:00:00Z" });
    assertError(past, 400);
    assert.equal(past.body.error.details[0].field, "expiresAt");
  });

  it(`expire at ${LOTS_MAX} times at most, where grants name them`, async () => {
    const hours = await aPurse(api, await aTreasury(api, [{ key: "hours" }, { key: "minutes" }]));
    const first = new Date(Date.now() + DAY_MS).toISOString();
    must(await hours.grant("hours", 1, { expiresAt: first }), 201);
    await api.sql`
      with more as (
        insert into currency_lots select (jsonb_populate_record(l, jsonb_build_object(
          'id', gen_random_uuid(), 'expires_at', l.expires_at + g * interval '1 minute'))).*
        from currency_lots l, generate_series(1, ${LOTS_MAX - 1}::int) g where player_id = ${hours.player}
        returning remaining)
      update player_balances set balance = balance + (select sum(remaining) from more)
      where player_id = ${hours.player} and currency_key = 'hours'`;
    const later = new Date(Date.now() + 9 * DAY_MS).toISOString();
    assertError(await hours.grant("hours", 1, { expiresAt: later }), 409, "LOT_LIMIT");
    must(await hours.grant("hours", 1, { expiresAt: first }), 201);
    must(await hours.grant("hours", 1), 201);
    must(await hours.grant("minutes", 1, { expiresAt: later }), 201);
    // Takes the first lot wholly, which makes room for another.
    must(await hours.spend("hours", 2), 201);
    must(await hours.grant("hours", 1, { expiresAt: later }), 201);
    assertError(await hours.grant("hours", 1, { expiresAt: first }), 409, "LOT_LIMIT");
  });

  it("rise by rules, which may be what a grant sets off: the answer has what is left", async () => {
    const other = await aTenant(api);
    must(await api.post("/api/v1/currencies", { key: "coins", name: "Coins" }, { key: other.key }), 201);
    must(await api.post("/api/v1/currencies", { key: "tax", name: "Tax" }, { key: other.key }), 201);
    const rule = {
      key: "tithe",
      name: "A tenth",
      triggers: [{ kind: "EVENT", eventTypes: ["player.currency_granted"] }],
      conditions: {
        all: [{ type: "event_property", path: "currencyKey", op: "eq", value: "coins" }],
      },
      actions: [
        { id: "take", type: "adjust_currency", currencyKey: "coins", amount: -1 },
        { id: "give", type: "adjust_currency", currencyKey: "tax", amount: 1 },
      ],
      limits: { cooldownSeconds: 1 },
    };
    must(await api.post("/api/v1/rules", rule, { key: other.key }), 201);
    must(await api.post("/api/v1/rules/tithe/publish", {}, { key: other.key }), 200);
    const { id } = must(await api.post("/api/v1/players", { externalUserId: "u" }, { key: other.key }), 201);
    const granted = await api.post(
      `/api/v1/players/${id}/balances/coins/grant`,
      { amount: 10 },
      { key: other.key },
    );
    const { balance, ledgerEntry } = must(granted, 201);
    assert.deepEqual([balance.balance, ledgerEntry.balanceAfter], [9, 10]);
  });

  it("of a player who is not active are not given, but can be spent", async () => {
    await purse.grant("coins", 5);
    await api.sql`update players set status = 'SUSPENDED' where id = ${purse.player}`;
    assertError(await purse.grant("coins", 1), 409, "PLAYER_INACTIVE");
    assert.equal((await purse.spend("coins", 1)).status, 201);
  });
});

describe("the definition of a currency", () => {
  it("may not have a maximum below its minimum", async () => {
    const api = await startApp();
    const { key } = await aTenant(api);
    const body = { key: "coins", name: "Coins", minBalance: 5, maxBalance: 4 };
    const answer = await api.post("/api/v1/currencies", body, { key });
    assertError(answer, 400);
    assert.equal(answer.body.error.details[0].field, "maxBalance");
    must(await api.post("/api/v1/currencies", { ...body, maxBalance: 5 }, { key }), 201);
    assertError(await api.patch("/api/v1/currencies/coins", { minBalance: 6 }, { key }), 400);
  });
});
