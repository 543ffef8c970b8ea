import assert from "node:assert/strict";
import { sql } from "kysely";
import { aTenant, startApp } from "../support/app/app.ts";
import { assertError } from "../support/http/assert-error.ts";
import { must } from "../support/http/client.ts";
import { playersOf } from "../support/players/players.ts";
import { madeForEach, madeOnce } from "../support/made.ts";
import { pluck } from "../support/pluck.ts";

describe("merging players", () => {
  const api = madeOnce(startApp);
  const tenant = madeForEach(() => aTenant(api));
  const players = madeForEach(() => playersOf(api, tenant));

  const pair = async () => ({ target: await players.add(), source: await players.add() });
  const ledger = (id: string) =>
    players.query(sql<{ asset: string; currency_key: string | null; amount: number; key: string }>`
      select asset, currency_key, amount, idempotency_key as key from ledger_entries
      where project_id = ${players.projectId} and player_id = ${id} order by seq`);
  const verify = async (id: string) => {
    const rows = await players.query(sql<{ n: number }>`
      select count(*) as n from (
        select asset, currency_key from ledger_entries
        where project_id = ${players.projectId} and player_id = ${id} and asset <> 'LIVES'
        group by 1, 2 having sum(amount) <> (array_agg(balance_after order by seq desc))[1]) s`);
    assert.equal(rows[0]!.n, 0, "sums are not the last balances");
  };

  it("adds XP and balances, closes the source's, and both ledgers verify", async () => {
    await players.define("currencies", { key: "coins", name: "Coins", initialBalance: 10 });
    await players.define("currencies", { key: "gems", name: "Gems", maxBalance: 50 });
    const { target, source } = await pair();
    await players.xp(target.id, 90);
    await players.xp(source.id, 170);
    await players.grant(target.id, "coins", 5);
    await players.grant(source.id, "coins", 7);
    await players.grant(target.id, "gems", 30);
    await players.grant(source.id, "gems", 45);
    const { player, mergeId, summary } = must(await players.merge(target.id, source.id), 200);
    assert.deepEqual([player.xp, player.level, player.currencies], [260, 3, { coins: 32, gems: 50 }]);
    assert.deepEqual(summary.xp, { target: 90, source: 170, result: 260 });
    assert.deepEqual(summary.clamped, { gems: 25 });
    assert.deepEqual(pluck((await ledger(target.id)).slice(-3), "key", "amount"), [
      [`mrg:${mergeId}:currency:coins`, 17],
      [`mrg:${mergeId}:currency:gems`, 20],
      [`mrg:${mergeId}:xp`, 170],
    ]);
    const left = new Map<string, number>();
    for (const { asset, currency_key, amount } of await ledger(source.id)) {
      const key = `${asset}:${currency_key}`;
      left.set(key, (left.get(key) ?? 0) + amount);
    }
    assert.deepEqual([...left.values()], [0, 0, 0]);
    for (const id of [target.id, source.id]) await verify(id);
    const { valid } = must(await players.get(`/players/${target.id}/ledger/verify`), 200);
    assert.equal(valid, true);
  });

  it("by MAX and KEEP_TARGET takes the more, or nothing", async () => {
    await players.define("currencies", { key: "coins", name: "Coins" });
    const { target, source } = await pair();
    await players.xp(target.id, 90);
    await players.xp(source.id, 170);
    await players.grant(target.id, "coins", 5);
    await players.grant(source.id, "coins", 7);
    const strategy = { xp: "MAX", currencies: "KEEP_TARGET" };
    const { player } = must(await players.merge(target.id, source.id, { strategy }), 200);
    assert.deepEqual([player.xp, player.currencies], [170, { coins: 5 }]);
    for (const id of [target.id, source.id]) await verify(id);
  });

  it("makes the source's ids stand for the target, however long the chain", async () => {
    const [a, b, c] = [await players.add(), await players.add(), await players.add()];
    const device = { provider: "device", externalId: `d-${a.id}` };
    must(await players.post(`/players/${a.id}/identities`, device), 201);
    must(await players.merge(b.id, a.id), 200);
    must(await players.merge(c.id, `ext:${b.ext}`), 200);
    for (const ref of [a.id, b.id, c.id, `ext:${a.ext}`, `ext:${b.ext}`, `ext:${c.ext}`])
      assert.equal((await players.read(ref)).id, c.id, ref);
    for (const { ext } of [a, b, c]) assert.equal((await players.track(ext, "seen")).status, "PROCESSED");
    await players.xp(a.id, 5);
    assert.equal((await players.read(c.id)).xp, 5);
    assert.equal(must(await players.get("/players"), 200).pagination.total, 1);
    const { data } = must(await players.get(`/players?identity=device:d-${a.id}`), 200);
    assert.equal(data[0].id, c.id);
    assertError(await players.merge(c.id, a.id), 409, "SAME_PLAYER");
  });

  it("takes a reference that either used as used", async () => {
    const { target, source } = await pair();
    const order = { amount: 5, reference: "order-7" };
    must(await players.post(`/players/${source.id}/xp`, order), 201);
    must(await players.merge(target.id, source.id), 200);
    assertError(await players.post(`/players/${target.id}/xp`, order), 409, "REFERENCE_USED");
    assertError(await players.post(`/players/${source.id}/xp`, order), 409, "REFERENCE_USED");
  });

  it("with dryRun tells the same and changes nothing", async () => {
    await players.define("currencies", { key: "coins", name: "Coins" });
    const { target, source } = await pair();
    await players.xp(source.id, 40);
    await players.grant(source.id, "coins", 7);
    const before = [await players.read(target.id), await players.read(source.id)];
    const dry = must(await players.merge(target.id, source.id, { dryRun: true }), 200);
    assert.equal(dry.mergeId, null);
    assert.deepEqual([await players.read(target.id), await players.read(source.id)], before);
    const real = must(await players.merge(target.id, source.id), 200);
    assert.deepEqual(real.summary, dry.summary);
  });

  it("refuses players who are not ACTIVE, foreign and unknown ones", async () => {
    const { target, source } = await pair();
    must(await players.post(`/players/${source.id}/status`, { status: "BANNED" }), 200);
    assertError(await players.merge(target.id, source.id), 409, "PLAYER_INACTIVE");
    assertError(await players.merge(target.id, target.id), 409, "SAME_PLAYER");
    const stranger = await playersOf(api, await aTenant(api)).add();
    assertError(await players.merge(target.id, stranger.id), 404);
    assertError(await players.merge(target.id, "ext:nobody"), 404);
  });
});
