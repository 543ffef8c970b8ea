import assert from "node:assert/strict";
import { randomUUID } from "node:crypto";
import { sql } from "kysely";
import { type Answer, aTenant, startApp } from "../support/app/app.ts";
import { assertError } from "../support/http/assert-error.ts";
import { madeOnce } from "../support/made.ts";

const MAX = Number.MAX_SAFE_INTEGER;

describe("XP granted by hand", () => {
  let player: string;
  const api = madeOnce(startApp);
  const tenant = madeOnce(() => aTenant(api));
  beforeEach(async () => {
    const made = await api.post("/api/v1/players", { externalUserId: randomUUID() }, { key: tenant.key });
    player = made.body.id;
  });

  const grant = (body: object, id = player): Promise<Answer> =>
    api.post(`/api/v1/players/${id}/xp`, body, { key: tenant.key });
  const xp = async (): Promise<[xp: number, level: number]> => {
    const { body } = await api.get(`/api/v1/players/${player}`, { key: tenant.key });
    return [body.xp, body.level];
  };
  const outbox = () =>
    api.app.transact(async ({ db }) => {
      const result = await sql<{ type: string; data: object }>`
        select type, data from outbox where player_id = ${player} and type <> 'player.created'
        order by player_seq`.execute(db);
      return result.rows.map(({ type, data }) => [type, data]);
    });

  it("answers 201 with the player and the ledger entry, and raises the level", async () => {
    const { status, body } = await grant({ amount: 260, reason: "support" });
    assert.equal(status, 201);
    assert.deepEqual([body.player.id, body.player.xp, body.player.level], [player, 260, 3]);
    const { id, createdAt, cause, hash, ...entry } = body.ledgerEntry;
    assert.ok(id && createdAt);
    assert.match(hash, /^[0-9a-f]{64}$/);
    const gain = { seq: 1, asset: "XP", amount: 260, balanceAfter: 260, reason: "support" };
    assert.deepEqual(entry, { ...gain, currencyKey: null, txId: null, reverses: null });
    assert.match(cause.actor, /^key:/);
    assert.equal(cause.kind, "API");
    assert.equal((await grant({ amount: 1 })).body.ledgerEntry.reason, "grant");
  });

  it("is told as player.xp_granted and, with a new level, player.level_up", async () => {
    const { body } = await grant({ amount: 100 });
    const { ledgerEntry, player: shown } = body;
    const granted = {
      playerId: player,
      externalUserId: shown.externalUserId,
      amount: 100,
      baseAmount: 100,
      boostFactor: 1,
      xp: 100,
      level: 2,
      ledgerEntryId: ledgerEntry.id,
      cause: ledgerEntry.cause,
    };
    const { externalUserId } = shown;
    const levelUp = { playerId: player, externalUserId, previousLevel: 1, newLevel: 2, xp: 100 };
    assert.deepEqual(await outbox(), [
      ["player.xp_granted", granted],
      ["player.level_up", levelUp],
    ]);
  });

  it("can be taken away down to 0, keeps the level, and is told as a change of the player", async () => {
    await grant({ amount: 260 });
    const { status, body } = await grant({ amount: -260 });
    assert.equal(status, 201);
    assert.deepEqual([body.ledgerEntry.amount, body.ledgerEntry.balanceAfter], [-260, 0]);
    assert.deepEqual(await xp(), [0, 3]);
    const told = (await outbox()).slice(2) as [string, Record<string, unknown>][];
    assert.deepEqual(
      told.map(([type, { changed, before, after }]) => [type, changed, before, after]),
      [["player.updated", ["xp"], { xp: 260, level: 3 }, { xp: 0, level: 3 }]],
    );
    assertError(await grant({ amount: -1 }), 409, "INSUFFICIENT_XP");
    assert.deepEqual(await xp(), [0, 3]);
  });

  it("falls with the level where the project allows it", async () => {
    const other = await aTenant(api);
    const settings = { settings: { allowLevelDown: true } };
    await api.patch(`/api/v1/projects/${other.projectId}`, settings, { token: other.token });
    const { body } = await api.post("/api/v1/players", { externalUserId: "u" }, { key: other.key });
    await api.post(`/api/v1/players/${body.id}/xp`, { amount: 260 }, { key: other.key });
    const lost = await api.post(`/api/v1/players/${body.id}/xp`, { amount: -200 }, { key: other.key });
    assert.equal(lost.body.player.level, 1);
  });

  it("is granted whole or not at all at the ceiling", async () => {
    assert.equal((await grant({ amount: MAX - 5 })).status, 201);
    assertError(await grant({ amount: 6 }), 409, "XP_LIMIT");
    assert.deepEqual(await xp(), [MAX - 5, 100]);
    assert.equal((await grant({ amount: 5 })).body.ledgerEntry.balanceAfter, MAX);
    assertError(await grant({ amount: 1 }), 409, "XP_LIMIT");
    assert.equal((await grant({ amount: -MAX })).body.player.xp, 0);
  });

  it("takes a reference once for a player, also when used twice at once", async () => {
    const reference = "order-7";
    const answers = await Promise.all([1, 2, 3, 4].map((amount) => grant({ amount, reference })));
    const granted = answers.filter(({ status }) => status === 201);
    assert.equal(granted.length, 1);
    for (const answer of answers.filter(({ status }) => status !== 201))
      assertError(answer, 409, "REFERENCE_USED");
    assert.equal((await xp())[0], granted[0]!.body.ledgerEntry.amount);

    const made = await api.post("/api/v1/players", { externalUserId: randomUUID() }, { key: tenant.key });
    assert.equal((await grant({ amount: 1, reference }, made.body.id)).status, 201, "another player's own");
    assert.equal((await grant({ amount: 1, reference: "order-8" })).status, 201);
  });

  it("is not granted to a player who is suspended or banned, but can be taken away", async () => {
    await grant({ amount: 50 });
    for (const status of ["SUSPENDED", "BANNED"]) {
      await api.sql`update players set status = ${status}
        where project_id = ${tenant.projectId} and id = ${player}`;
      assertError(await grant({ amount: 1 }), 409, "PLAYER_INACTIVE");
      assert.equal((await grant({ amount: -1 })).status, 201);
    }
    assert.deepEqual(await xp(), [48, 1]);
  });
});
