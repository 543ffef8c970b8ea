import assert from "node:assert/strict";
import { randomUUID } from "node:crypto";
import { type RawBuilder, sql } from "kysely";
import { aTenant, startApp } from "../support/app/app.ts";
import { assertError } from "../support/http/assert-error.ts";
import { must } from "../support/http/client.ts";
import { madeOnce } from "../support/made.ts";

type Entry = { seq: number; asset: string; amount: number; createdAt: string };

describe("a player's ledger", () => {
  let player: string;
  const api = madeOnce(startApp);
  const tenant = madeOnce(() => aTenant(api));
  before(async () => {
    const { projectId, token } = tenant;
    const settings = { lives: { enabled: true } };
    must(await api.patch(`/api/v1/projects/${projectId}`, { settings }, { token }), 200);
    for (const key of ["coins", "gems"]) await post("/currencies", { key, name: "A currency" });
  });

  const post = async (path: string, body: object = {}) => {
    const answer = await api.post(`/api/v1${path}`, body, { key: tenant.key });
    assert.ok(answer.status < 300, JSON.stringify(answer.body));
    return answer.body;
  };
  const get = async (path: string) =>
    must(await api.get(`/api/v1/players/${player}/ledger${path}`, { key: tenant.key }), 200);
  const list = async (query = ""): Promise<Entry[]> => (await get(`?${query}`)).data;
  /** XP, coins, gems, coins spent, a life, XP: entries 1 to 6. */
  beforeEach(async () => {
    const id = (player = (await post("/players", { externalUserId: randomUUID() })).id);
    await post(`/players/${id}/xp`, { amount: 50 });
    await post(`/players/${id}/balances/coins/grant`, { amount: 10 });
    await post(`/players/${id}/balances/gems/grant`, { amount: 7 });
    await post(`/players/${id}/balances/coins/spend`, { amount: 4 });
    await post(`/players/${id}/lives/consume`);
    await post(`/players/${id}/xp`, { amount: -20 });
  });

  it("has every change, newest first, with what it left and why", async () => {
    const entries = await list();
    assert.deepEqual(
      entries.map((entry) => Object.values(entry).slice(1, 6)),
      [
        [6, "XP", null, -20, 30],
        [5, "LIVES", null, -1, 4],
        [4, "CURRENCY", "coins", -4, 6],
        [3, "CURRENCY", "gems", 7, 7],
        [2, "CURRENCY", "coins", 10, 10],
        [1, "XP", null, 50, 50],
      ],
    );
    assert.ok(entries.every((entry) => "hash" in entry && "cause" in entry && "txId" in entry));
  });

  it("is read in pages by a cursor, which stays where it is while entries are added", async () => {
    const seqs: number[] = [];
    let cursor = "";
    for (;;) {
      const { data, pagination } = await get(`?limit=2${cursor}`);
      assert.equal(pagination.limit, 2);
      seqs.push(...data.map(({ seq }: Entry) => seq));
      await post(`/players/${player}/xp`, { amount: 1 });
      if (pagination.nextCursor === null) break;
      cursor = `&cursor=${pagination.nextCursor}`;
    }
    assert.deepEqual(seqs, [6, 5, 4, 3, 2, 1]);
  });

  it("is filtered by asset, currency and time", async () => {
    const seqs = async (query: string) => (await list(query)).map(({ seq }) => seq);
    assert.deepEqual(await seqs("asset=XP"), [6, 1]);
    assert.deepEqual(await seqs("asset=LIVES"), [5]);
    assert.deepEqual(await seqs("currencyKey=coins"), [4, 2]);
    assert.deepEqual(await seqs("asset=XP&currencyKey=coins"), []);
    const [newest] = await list("limit=1");
    const later = new Date(Date.parse(newest!.createdAt) + 1).toISOString();
    assert.deepEqual(await seqs(`from=${later}`), []);
    assert.equal((await seqs(`to=${later}`)).length, 6);
    for (const bad of ["asset=GOLD", "cursor=x", "cursor=0", "limit=101", "from=now", "currencyKey=%20"])
      assertError(await api.get(`/api/v1/players/${player}/ledger?${bad}`, { key: tenant.key }), 400);
  });

  it("is found valid as it is", async () => {
    const verdict = await get("/verify");
    assert.deepEqual([verdict.valid, verdict.entries, verdict.firstInvalidSeq], [true, 6, undefined]);
    const [newest] = await get("").then(({ data }) => data);
    assert.equal(verdict.headHash, newest.hash);
  });

  it("shows at which entry somebody changed, took out or added one", async () => {
    const { projectId } = tenant;
    const tamper = async (statement: RawBuilder<unknown>): Promise<unknown> => {
      await api.app.transact(({ db }) => statement.execute(db));
      const { valid, firstInvalidSeq } = await get("/verify");
      return valid ? "valid" : firstInvalidSeq;
    };
    const of = sql`project_id = ${projectId} and player_id = ${player}`;
    const set = (change: RawBuilder<unknown>, seq: number) =>
      tamper(sql`update ledger_entries set ${change} where ${of} and seq = ${seq}`);
    assert.equal(await set(sql`reason = 'x'`, 2), "valid", "texts are no part of the chain");
    const tip = sql`update players set ledger_hash = repeat('0', 64)
      where project_id = ${projectId} and id = ${player}`;
    assert.equal(await tamper(tip), 6);
    assert.equal(await set(sql`hash = repeat('0', 64)`, 5), 5);
    assert.equal(await set(sql`amount = -5`, 4), 4);
    assert.equal(await tamper(sql`delete from ledger_entries where ${of} and seq = 3`), 3);
    assert.equal(await set(sql`balance_after = 11`, 2), 2);
    assert.equal(await set(sql`idempotency_key = 'x'`, 1), 1);
    assert.equal(await tamper(sql`delete from ledger_entries where ${of}`), 1);
  });
});
