import assert from "node:assert/strict";
import { sql } from "kysely";
import { eventuallyHolds } from "../support/eventually.ts";
import { expireCurrencies } from "../../src/jobs/jobs.ts";
import { startApp } from "../support/app/app.ts";
import { assertError } from "../support/http/assert-error.ts";
import { must } from "../support/http/client.ts";
import { aPurse, aTreasury, CURRENCIES, type Purse } from "../support/economy/economy.ts";
import { madeForEach, madeOnce } from "../support/made.ts";

describe("holds", () => {
  const api = madeOnce(startApp);
  const tenant = madeOnce(() => aTreasury(api, CURRENCIES));
  const purse = madeForEach(() => aPurse(api, tenant));

  it("set an amount aside, and are captured whole or in part, or released", async () => {
    await purse.grant("coins", 30);
    const first = must(await purse.hold("coins", 10, { reference: "cart" }), 201);
    const { id, createdAt, expiresAt, ...rest } = first;
    assert.equal(Date.parse(expiresAt) - Date.parse(createdAt), 600_000);
    const what = { currencyKey: "coins", amount: 10, captured: null };
    assert.deepEqual(rest, { ...what, status: "HELD", reference: "cart", settledAt: null });
    const second = must(await purse.hold("coins", 15), 201);
    assert.deepEqual(await purse.numbers("coins"), [30, 5, 25, 30, 0]);
    assertError(await purse.spend("coins", 6), 409, "INSUFFICIENT_FUNDS");
    assertError(await purse.hold("coins", 6), 409, "INSUFFICIENT_FUNDS");

    const over = await purse.post(`holds/${id}/capture`, { amount: 11 });
    assertError(over, 400);
    assert.equal(over.body.error.details[0].field, "amount");
    const captured = must(await purse.post(`holds/${id}/capture`, { amount: 4 }), 200);
    assert.deepEqual([captured.status, captured.captured, captured.amount], ["CAPTURED", 4, 10]);
    assert.ok(captured.settledAt);
    assert.equal(must(await purse.post(`holds/${second.id}/release`), 200).status, "RELEASED");
    assert.deepEqual(await purse.numbers("coins"), [26, 26, 0, 30, 4]);
    for (const step of ["capture", "release"])
      for (const settled of [id, second.id])
        assertError(await purse.post(`holds/${settled}/${step}`), 409, "INVALID_STATE");
    assert.deepEqual((await purse.told()).at(-1), ["player.currency_spent", "coins", 4, 26]);
    const whole = must(await purse.hold("coins", 26), 201);
    must(await purse.post(`holds/${whole.id}/capture`), 200);
    assert.deepEqual(await purse.numbers("coins"), [0, 0, 0, 30, 30]);
    assert.equal((await purse.verify())["valid"], true);
  });

  it("are their player's: who names another's at the same moment finds none", async () => {
    const other = await aPurse(api, tenant);
    for (const one of [purse, other]) await one.grant("coins", 100);
    for (const step of ["release", "capture"]) {
      const theirs = must(await purse.hold("coins", 60), 201);
      const own = must(await other.hold("coins", 60), 201);
      // What comes while the first is on its way shares a transaction.
      const [, settled, foreign] = await Promise.all([
        (await aPurse(api, tenant)).grant("coins", 1),
        purse.post(`holds/${theirs.id}/${step}`),
        other.post(`holds/${theirs.id}/${step}`),
      ]);
      assert.equal(must(settled, 200).id, theirs.id);
      assertError(foreign, 404);
      assert.deepEqual((await other.numbers("coins")).slice(0, 3), [100, 40, 60]);
      must(await other.post(`holds/${own.id}/release`), 200);
      await purse.grant("coins", step === "capture" ? 60 : 1);
    }
  });

  it("free what they hold when they expire, once however often somebody looks", async () => {
    await purse.grant("coins", 30);
    const { id } = must(await purse.hold("coins", 10), 201);
    await purse.letPass("currency_holds");
    // Before any job has freed it.
    assertError(await purse.post(`holds/${id}/capture`), 409, "INVALID_STATE");
    await Promise.all([1, 2, 3].map(() => expireCurrencies.run(api.app, "*")));
    // It may be the server's own job that has it.
    await eventuallyHolds(async () => assert.deepEqual(await purse.numbers("coins"), [30, 30, 0, 30, 0]));
    assertError(await purse.post(`holds/${id}/capture`), 409, "INVALID_STATE");
  });

  it("are freed for everybody else when one player's cannot be", async () => {
    const others = [purse, await aPurse(api, tenant), await aPurse(api, tenant)];
    for (const one of others) must(await one.hold("gems", 10), 201);
    const broken = others[1]!.player;
    const setHeld = (held: number) =>
      api.sql`update player_balances set held = ${held} where player_id = ${broken}`;
    // Less is held than the hold says: what it would come to is refused by the table.
    await setHeld(0);
    // Only now: the server's own job may free them at any moment from here on.
    for (const one of others) await one.letPass("currency_holds");
    const held = async (one: Purse) => (await one.numbers("gems"))[2];
    // The server's own job may be at work on the same holds, which another run then leaves to it.
    await eventuallyHolds(async () => {
      await expireCurrencies.run(api.app, "*");
      assert.deepEqual([await held(others[0]!), await held(others[2]!)], [0, 0]);
    });
    await setHeld(10);
    await eventuallyHolds(async () => {
      await expireCurrencies.run(api.app, "*");
      assert.equal(await held(others[1]!), 0);
    });
  });

  it("keep currency whose time has come, until they are settled", async () => {
    await purse.grant("coins", 30);
    const released = must(await purse.hold("coins", 10), 201);
    const captured = must(await purse.hold("coins", 10), 201);
    await purse.letPass("currency_lots");
    assertError(await purse.hold("coins", 1), 409, "INSUFFICIENT_FUNDS");
    assert.deepEqual((await purse.balances())["coins"]?.["expiring"], []);
    await expireCurrencies.run(api.app, "*");
    await eventuallyHolds(async () => assert.deepEqual(await purse.numbers("coins"), [20, 0, 20, 30, 0]));
    must(await purse.post(`holds/${released.id}/release`), 200);
    must(await purse.post(`holds/${captured.id}/capture`, { amount: 4 }), 200);
    assert.deepEqual(await purse.numbers("coins"), [0, 0, 0, 30, 4]);
    assert.deepEqual((await purse.told()).slice(-3), [
      ["player.currency_expired", "coins", 10, 10],
      ["player.currency_spent", "coins", 4, 6],
      ["player.currency_expired", "coins", 6, 0],
    ]);
    assert.equal((await purse.verify())["valid"], true);
  });

  it("of an archived currency can be captured, when nothing else can change it", async () => {
    must(await api.post("/api/v1/currencies", { key: "old", name: "Old" }, { key: tenant.key }), 201);
    await purse.grant("old", 9);
    const { id } = must(await purse.hold("old", 5), 201);
    must(await api.delete("/api/v1/currencies/old", { key: tenant.key }), 200);
    assert.deepEqual((await purse.numbers("old")).slice(0, 3), [9, 4, 5]);
    for (const answer of [
      await purse.grant("old", 1),
      await purse.spend("old", 1),
      await purse.hold("old", 1),
    ])
      assertError(answer, 404);
    must(await purse.post(`holds/${id}/capture`), 200);
    assert.deepEqual((await purse.numbers("old")).slice(0, 3), [4, 4, 0]);
  });

  it("have a limit for each player", async () => {
    await purse.grant("coins", 200);
    must(await purse.hold("coins", 1), 201);
    await api.app.transact(async ({ db }) => {
      const ofPlayer = sql`player_id = ${purse.player}`;
      await sql`
        insert into currency_holds select (jsonb_populate_record(h,
          jsonb_build_object('id', gen_random_uuid()))).* from currency_holds h, generate_series(2, 99)
        where ${ofPlayer}`.execute(db);
      await sql`update player_balances set held = 99 where ${ofPlayer} and currency_key = 'coins'`.execute(
        db,
      );
    });
    const { id } = must(await purse.hold("coins", 1), 201);
    assertError(await purse.hold("coins", 1), 409, "HOLD_LIMIT");
    must(await purse.post(`holds/${id}/release`), 200);
    must(await purse.hold("coins", 1), 201);
    assert.deepEqual((await purse.numbers("coins")).slice(0, 3), [200, 100, 100]);
  });
});
