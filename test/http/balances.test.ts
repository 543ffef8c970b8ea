import assert from "node:assert/strict";
import { randomUUID } from "node:crypto";
import { sql } from "kysely";
import { expireCurrencies } from "../../src/jobs/expire-currencies.ts";
import { type Answer, aTenant, startApp, type Tenant, type TestApp } from "../support/app.ts";
import { assertError } from "../support/assert-error.ts";
import { must } from "../support/client.ts";

const DAY_MS = 86_400_000;

describe("balances", () => {
  let api: TestApp;
  let tenant: Tenant;
  let player: string;
  before(async () => {
    api = await startApp();
    tenant = await aTenant(api);
    for (const more of [
      { key: "coins", expiryDays: 10 },
      { key: "gems", initialBalance: 20, minBalance: 5, maxBalance: 30, overflow: "REJECT" },
      { key: "points", maxBalance: 10 },
    ])
      must(await api.post("/api/v1/currencies", { name: "A currency", ...more }, { key: tenant.key }), 201);
  });
  beforeEach(async () => {
    const made = await api.post("/api/v1/players", { externalUserId: randomUUID() }, { key: tenant.key });
    player = must(made, 201).id;
  });

  const post = (path: string, body: object = {}): Promise<Answer> =>
    api.post(`/api/v1/players/${player}/${path}`, body, { key: tenant.key });
  const grant = (key: string, amount: number, more: object = {}) =>
    post(`balances/${key}/grant`, { amount, ...more });
  const spend = (key: string, amount: number, more: object = {}) =>
    post(`balances/${key}/spend`, { amount, ...more });
  const hold = (key: string, amount: number, more: object = {}) =>
    post(`balances/${key}/holds`, { amount, expiresInSeconds: 600, ...more });
  const balances = async (): Promise<Record<string, Record<string, unknown>>> => {
    const { data } = must(await api.get(`/api/v1/players/${player}/balances`, { key: tenant.key }), 200);
    return Object.fromEntries(data.map((one: { currencyKey: string }) => [one.currencyKey, one]));
  };
  const numbers = async (key: string): Promise<unknown[]> => {
    const { balance, available, held, lifetimeEarned, lifetimeSpent } = (await balances())[key]!;
    return [balance, available, held, lifetimeEarned, lifetimeSpent];
  };
  const told = () =>
    api.app.transact(async ({ db }) => {
      const { rows } = await sql<{ type: string; data: Record<string, unknown> }>`
        select type, data from outbox where player_id = ${player} and type like 'player.currency%'
        order by player_seq`.execute(db);
      return rows.map(({ type, data }) => [type, data["currencyKey"], data["amount"], data["balance"]]);
    });
  /** Lets the time of what expires come. */
  const letPass = (table: "currency_lots" | "currency_holds") =>
    api.app.transact(({ db }) =>
      sql`update ${sql.ref(table)} set expires_at = now() - interval '1 second'
        where player_id = ${player}`.execute(db),
    );
  const verify = async (): Promise<Record<string, unknown>> =>
    must(await api.get(`/api/v1/players/${player}/ledger/verify`, { key: tenant.key }), 200);

  it("are all the project's currencies, with what players have to begin with", async () => {
    const empty = { balance: 0, available: 0, held: 0, lifetimeEarned: 0, lifetimeSpent: 0, expiring: [] };
    assert.deepEqual(await balances(), {
      coins: { currencyKey: "coins", ...empty },
      gems: { currencyKey: "gems", ...empty, balance: 20, available: 20, lifetimeEarned: 20 },
      points: { currencyKey: "points", ...empty },
    });
    assert.deepEqual(await verify(), { valid: true, entries: 0, headHash: null });
  });

  it("rise by a grant, which answers 201 with the balance and its entry", async () => {
    const { balance, ledgerEntry } = must(await grant("coins", 12, { reason: "support" }), 201);
    const { id, hash, createdAt, cause, ...entry } = ledgerEntry;
    assert.ok(id && createdAt);
    assert.match(hash, /^[0-9a-f]{64}$/);
    assert.match(cause.actor, /^key:/);
    assert.deepEqual(entry, {
      ...{ seq: 1, asset: "CURRENCY", currencyKey: "coins", amount: 12, balanceAfter: 12 },
      ...{ reason: "support", txId: null, reverses: null },
    });
    const day = Math.floor(Date.now() / DAY_MS);
    assert.deepEqual(balance.expiring, [{ amount: 12, at: new Date((day + 11) * DAY_MS).toISOString() }]);
    assert.deepEqual(await told(), [["player.currency_granted", "coins", 12, 12]]);
  });

  it("fall by spending, all of it or nothing, never below the currency's minimum", async () => {
    const { balance, ledgerEntry } = must(await spend("gems", 8, { reference: "order-1" }), 201);
    assert.deepEqual([balance.balance, ledgerEntry.amount, ledgerEntry.seq], [12, -8, 2]);
    assertError(await spend("gems", 8), 409, "INSUFFICIENT_FUNDS");
    must(await spend("gems", 7), 201);
    assert.deepEqual(await numbers("gems"), [5, 5, 0, 20, 15]);
    assert.deepEqual(await told(), [
      ["player.currency_granted", "gems", 20, 20],
      ["player.currency_spent", "gems", 8, 12],
      ["player.currency_spent", "gems", 7, 5],
    ]);
    assert.equal((await verify())["valid"], true);
  });

  it("go to their maximum: a grant beyond is cut or refused, as the currency says", async () => {
    assertError(await grant("gems", 11), 409, "BALANCE_LIMIT");
    assert.equal(must(await grant("points", 11), 201).ledgerEntry.amount, 10);
    assertError(await grant("points", 1), 409, "BALANCE_LIMIT");
    assert.deepEqual(await numbers("gems"), [20, 20, 0, 20, 0], "the refused grant wrote nothing");
  });

  it("take a reference once for a player, whatever for", async () => {
    must(await grant("coins", 5, { reference: "r" }), 201);
    for (const answer of [
      await grant("coins", 5, { reference: "r" }),
      await spend("gems", 1, { reference: "r" }),
      await hold("gems", 1, { reference: "r" }),
      await post("xp", { amount: 1, reference: "r" }),
    ])
      assertError(answer, 409, "REFERENCE_USED");
    must(await hold("gems", 1, { reference: "h" }), 201);
    assertError(await spend("gems", 1, { reference: "h" }), 409, "REFERENCE_USED");
    assertError(await post("xp", { amount: 1, reference: "h" }), 409, "REFERENCE_USED");
  });

  it("are set aside by a hold, which is captured whole or in part, or released", async () => {
    await grant("coins", 30);
    const first = must(await hold("coins", 10, { reference: "cart" }), 201);
    const { id, createdAt, expiresAt, ...rest } = first;
    assert.equal(Date.parse(expiresAt) - Date.parse(createdAt), 600_000);
    assert.deepEqual(rest, {
      ...{ currencyKey: "coins", amount: 10, captured: null },
      ...{ status: "HELD", reference: "cart", settledAt: null },
    });
    const second = must(await hold("coins", 15), 201);
    assert.deepEqual(await numbers("coins"), [30, 5, 25, 30, 0]);
    assertError(await spend("coins", 6), 409, "INSUFFICIENT_FUNDS");
    assertError(await hold("coins", 6), 409, "INSUFFICIENT_FUNDS");

    const over = await post(`holds/${id}/capture`, { amount: 11 });
    assertError(over, 400);
    assert.equal(over.body.error.details[0].field, "amount");
    const captured = must(await post(`holds/${id}/capture`, { amount: 4 }), 200);
    assert.deepEqual([captured.status, captured.captured, captured.amount], ["CAPTURED", 4, 10]);
    assert.ok(captured.settledAt);
    assert.equal(must(await post(`holds/${second.id}/release`), 200).status, "RELEASED");
    assert.deepEqual(await numbers("coins"), [26, 26, 0, 30, 4]);
    for (const step of ["capture", "release"])
      for (const settled of [id, second.id])
        assertError(await post(`holds/${settled}/${step}`), 409, "INVALID_STATE");
    assert.deepEqual((await told()).at(-1), ["player.currency_spent", "coins", 4, 26]);
    const whole = must(await hold("coins", 26), 201);
    must(await post(`holds/${whole.id}/capture`), 200);
    assert.deepEqual(await numbers("coins"), [0, 0, 0, 30, 30]);
    assert.equal((await verify())["valid"], true);
  });

  it("are free again when a hold expires, once however often somebody looks", async () => {
    await grant("coins", 30);
    const { id } = must(await hold("coins", 10), 201);
    await letPass("currency_holds");
    await Promise.all([1, 2, 3].map(() => expireCurrencies.run(api.app, "*")));
    assert.deepEqual(await numbers("coins"), [30, 30, 0, 30, 0]);
    assertError(await post(`holds/${id}/capture`), 409, "INVALID_STATE");
  });

  it("lose what expires: at once for every reader, and in the ledger by a job, once", async () => {
    await grant("coins", 30);
    await spend("coins", 5);
    await letPass("currency_lots");
    assert.deepEqual(await numbers("coins"), [0, 0, 0, 30, 5], "before the job");
    const shown = must(await api.get(`/api/v1/players/${player}`, { key: tenant.key }), 200);
    assert.equal(shown.currencies.coins, 0);
    assertError(await spend("coins", 1), 409, "INSUFFICIENT_FUNDS");
    await Promise.all([1, 2, 3].map(() => expireCurrencies.run(api.app, "*")));
    assert.deepEqual(await numbers("coins"), [0, 0, 0, 30, 5]);
    assert.deepEqual((await told()).slice(2), [["player.currency_expired", "coins", 25, 0]]);
    const { data } = must(
      await api.get(`/api/v1/players/${player}/ledger?limit=1`, { key: tenant.key }),
      200,
    );
    assert.deepEqual([data[0].amount, data[0].reason, data[0].cause.kind], [-25, "expiry", "EXPIRY"]);
    assert.equal((await verify())["valid"], true);
  });

  it("keep what is held when its time has come, until the hold is settled", async () => {
    await grant("coins", 30);
    const { id } = must(await hold("coins", 10), 201);
    await letPass("currency_lots");
    await expireCurrencies.run(api.app, "*");
    assert.deepEqual(await numbers("coins"), [10, 0, 10, 30, 0]);
    must(await post(`holds/${id}/release`), 200);
    assert.deepEqual(await numbers("coins"), [0, 0, 0, 30, 0]);
    assert.equal((await verify())["valid"], true);
  });

  it("expire when a grant says so, whatever the currency says", async () => {
    const expiresAt = new Date(Date.now() + DAY_MS).toISOString();
    await grant("points", 4, { expiresAt });
    await grant("points", 2);
    assert.deepEqual((await balances())["points"]!["expiring"], [{ amount: 4, at: expiresAt }]);
    await spend("points", 3);
    assert.deepEqual((await balances())["points"]!["expiring"], [{ amount: 1, at: expiresAt }]);
    const past = await grant("points", 1, { expiresAt: "2020-01-01T00:00:00Z" });
    assertError(past, 400);
    assert.equal(past.body.error.details[0].field, "expiresAt");
  });

  it("of an archived currency stay, can be captured, and change no more", async () => {
    must(await api.post("/api/v1/currencies", { key: "old", name: "Old" }, { key: tenant.key }), 201);
    await grant("old", 9);
    const { id } = must(await hold("old", 5), 201);
    must(await api.delete("/api/v1/currencies/old", { key: tenant.key }), 200);
    assert.deepEqual((await numbers("old")).slice(0, 3), [9, 4, 5]);
    for (const answer of [await grant("old", 1), await spend("old", 1), await hold("old", 1)])
      assertError(answer, 404);
    must(await post(`holds/${id}/capture`), 200);
    assert.deepEqual((await numbers("old")).slice(0, 3), [4, 4, 0]);
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

  it("are refused with the field that is wrong", async () => {
    const bad: [field: string, path: string, body: object][] = [
      ["amount", "balances/coins/grant", {}],
      ["amount", "balances/coins/grant", { amount: 0 }],
      ["amount", "balances/coins/grant", { amount: -1 }],
      ["amount", "balances/coins/spend", { amount: 1.5 }],
      ["amount", "balances/coins/spend", { amount: 2 ** 53 }],
      ["amount", "balances/coins/spend", { amount: "5" }],
      ["reason", "balances/coins/spend", { amount: 1, reason: "" }],
      ["reference", "balances/coins/spend", { amount: 1, reference: "x".repeat(201) }],
      ["expiresAt", "balances/coins/grant", { amount: 1, expiresAt: "tomorrow" }],
      ["expiresInSeconds", "balances/coins/holds", { amount: 1 }],
      ["expiresInSeconds", "balances/coins/holds", { amount: 1, expiresInSeconds: 0 }],
      ["expiresInSeconds", "balances/coins/holds", { amount: 1, expiresInSeconds: 86_401 }],
      ["currencyKey", "balances/Not-a-key!/grant", { amount: 1 }],
    ];
    for (const [field, path, body] of bad) {
      const answer = await post(path, body);
      assertError(answer, 400);
      assert.equal(answer.body.error.details[0].field, field, JSON.stringify(body));
    }
    assertError(await grant("gold", 1), 404);
    assertError(await post(`holds/${randomUUID()}/capture`), 404);
    assertError(await post("holds/no-id/release"), 404);
  });

  it("of a player who is not active are not given, but can be spent", async () => {
    await grant("coins", 5);
    await api.app.transact(({ db }) =>
      sql`update players set status = 'SUSPENDED' where id = ${player}`.execute(db),
    );
    assertError(await grant("coins", 1), 409, "PLAYER_INACTIVE");
    assert.equal((await spend("coins", 1)).status, 201);
  });

  it("have a limit of open holds", async () => {
    await grant("coins", 200);
    const answers: Answer[] = [];
    for (let i = 0; i < 101; i++) answers.push(await hold("coins", 1));
    assert.ok(answers.slice(0, 100).every(({ status }) => status === 201));
    assertError(answers[100]!, 409, "HOLD_LIMIT");
    assert.deepEqual((await numbers("coins")).slice(0, 3), [200, 100, 100]);
  });

  it("of one player cannot be settled by way of another", async () => {
    await grant("coins", 5);
    const { id } = must(await hold("coins", 5), 201);
    const made = await api.post("/api/v1/players", { externalUserId: randomUUID() }, { key: tenant.key });
    const path = `/api/v1/players/${made.body.id}/holds/${id}/capture`;
    assertError(await api.post(path, {}, { key: tenant.key }), 404);
  });

  it("are safe to ask for twice with one idempotency key", async () => {
    await grant("coins", 50);
    const headers = { "X-Idempotency-Key": randomUUID() };
    const path = `/api/v1/players/${player}/balances/coins/spend`;
    const answers = await Promise.all(
      [1, 2, 3].map(() => api.post(path, { amount: 20 }, { key: tenant.key, headers })),
    );
    assert.deepEqual(new Set(answers.map(({ body }) => body.ledgerEntry?.id)).size, 1);
    assert.equal((await numbers("coins"))[0], 30);
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
