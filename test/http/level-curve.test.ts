import assert from "node:assert/strict";
import { sql } from "kysely";
import { DEFAULT_CURVE } from "../../src/domain/evaluation/xp/levels.ts";
import { type Answer, aTenant, startApp } from "../support/app/app.ts";
import { madeForEach, madeOnce } from "../support/made.ts";
import { jobResult } from "../support/app/processed.ts";

const PATH = "/api/v1/level-curve";

describe("the level curve", () => {
  const api = madeOnce(startApp);
  const tenant = madeForEach(() => aTenant(api));
  const put = (body: unknown, key = tenant.key): Promise<Answer> => api.request("PUT", PATH, { key, body });
  const levelOf = async (player: string): Promise<number> =>
    (await api.get(`/api/v1/players/ext:${player}`, { key: tenant.key })).body.level as number;
  const grant = (player: string, amount: number): Promise<Answer> =>
    api.post(`/api/v1/players/ext:${player}/xp`, { amount }, { key: tenant.key });
  const aPlayer = (externalUserId: string): Promise<Answer> =>
    api.post("/api/v1/players", { externalUserId }, { key: tenant.key });

  it("is the default until one is saved, then the newest version", async () => {
    const first = await api.get(PATH, { key: tenant.key });
    assert.deepEqual([first.body.version, first.body.thresholds], [0, DEFAULT_CURVE.thresholds]);
    const saved = await put({ type: "TABLE", params: { thresholds: [0, 10, 30] } });
    assert.deepEqual([saved.status, saved.body.version, saved.body.maxLevel], [200, 1, 3]);
    assert.equal((await put({ type: "LINEAR", params: { base: 5, maxLevel: 4 } })).body.version, 2);
    const last = await api.get(PATH, { key: tenant.key });
    assert.deepEqual(
      [last.body.version, last.body.type, last.body.thresholds],
      [2, "LINEAR", [0, 5, 10, 15]],
    );
  });

  it("moves players at once with SILENT, else with their next XP, never down unless allowed", async () => {
    for (const [player, xp] of [
      ["low", 20],
      ["high", 300],
    ] as const) {
      await aPlayer(player);
      assert.equal((await grant(player, xp)).status, 201);
    }
    assert.deepEqual([await levelOf("low"), await levelOf("high")], [1, 3]);
    await put({ type: "TABLE", params: { thresholds: [0, 10, 20, 500] } });
    assert.equal(await levelOf("low"), 1);
    await grant("low", 1);
    assert.equal(await levelOf("low"), 3);
    await put({ type: "TABLE", params: { thresholds: [0, 5, 10, 15, 100] }, recalculate: "SILENT" });
    assert.deepEqual([await levelOf("low"), await levelOf("high")], [4, 5]);
    await put({ type: "TABLE", params: { thresholds: [0, 1_000] }, recalculate: "SILENT" });
    assert.deepEqual([await levelOf("low"), await levelOf("high")], [4, 5]);
  });

  it("moves players by a job with WITH_EVENTS, tells them and rewards their levels once", async () => {
    const { key } = tenant;
    const third = { key: "3", name: "Three", rewards: { currencies: { coins: 7 } } };
    await api.post("/api/v1/currencies", { key: "coins", name: "Coins" }, { key });
    assert.equal((await api.post("/api/v1/levels", third, { key })).status, 201);
    // Begins a job that lowers levels: here nobody has one yet.
    const settings = { settings: { allowLevelDown: true } };
    await api.patch(`/api/v1/projects/${tenant.projectId}`, settings, { token: tenant.token });
    for (const [player, xp] of [
      ["low", 5],
      ["high", 30],
    ] as const) {
      await aPlayer(player);
      await grant(player, xp);
    }
    const change = (thresholds: number[]): Promise<Answer> =>
      put({ type: "TABLE", params: { thresholds }, recalculate: "WITH_EVENTS" });
    const resultOf = async ({ body }: Answer): Promise<unknown> => {
      assert.equal(body.job.kind, "LEVEL_RECALC");
      return jobResult(api, { key }, body.job.id);
    };
    const coins = async (): Promise<number> =>
      (await api.get("/api/v1/players/ext:high/balances", { key })).body.data[0].balance;
    assert.deepEqual(await resultOf(await change([0, 10, 20])), { raised: 1, lowered: 0 });
    assert.deepEqual([await levelOf("low"), await levelOf("high"), await coins()], [1, 3, 7]);
    assert.deepEqual(await resultOf(await change([0, 100])), { raised: 0, lowered: 1 });
    assert.deepEqual(await resultOf(await change([0, 10, 20])), { raised: 1, lowered: 0 });
    assert.deepEqual([await levelOf("high"), await coins()], [3, 7]);
    const told = await api.app.transact(async ({ db }) => {
      const { rows } = await sql<{ type: string; level: number }>`
        select type, coalesce(data ->> 'newLevel', data -> 'after' ->> 'level')::int as level from outbox
        where project_id = ${tenant.projectId} and type in ('player.level_up', 'player.updated')
        order by player_id, player_seq`.execute(db);
      return rows.map(({ type, level }) => `${type} ${level}`);
    });
    assert.deepEqual(told, ["player.level_up 3", "player.updated 1", "player.level_up 3"]);
  });

  it("is previewed with the players it would spread, and nothing is saved", async () => {
    for (const [player, xp] of [
      ["a", 5],
      ["b", 15],
      ["c", 16],
    ] as const) {
      await aPlayer(player);
      await grant(player, xp);
    }
    const preview = await api.post(
      `${PATH}/preview`,
      { type: "LINEAR", params: { base: 10, maxLevel: 3 } },
      { key: tenant.key },
    );
    assert.deepEqual(preview.body, {
      thresholds: [0, 10, 20],
      distribution: [
        { level: 1, players: 1 },
        { level: 2, players: 2 },
      ],
    });
    assert.equal((await api.get(PATH, { key: tenant.key })).body.version, 0);
  });
});
