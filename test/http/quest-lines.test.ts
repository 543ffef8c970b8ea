import assert from "node:assert/strict";
import { sql } from "kysely";
import { readPlayersNow } from "../../src/domain/delivery/outbox/stream.ts";
import type { Json } from "../../src/domain/kernel/events/events.ts";
import { projectPlans, readPlan } from "../../src/domain/progression/plan.ts";
import { startApp } from "../support/app/app.ts";
import { linesOfPlayer } from "../support/app/player-lines.ts";
import { eventually } from "../support/eventually.ts";
import { playersOf } from "../support/players/players.ts";
import { aQuestGame, counting, findingsOf, type QuestGame } from "../support/quests/quest-game.ts";

const QUESTS = ["a", "b", "c", "d", "e"];

describe("the lines of quests that change together", () => {
  let game: QuestGame;
  let player: string;

  beforeEach(async () => {
    game = await aQuestGame(await startApp());
    for (const key of QUESTS) await game.publish({ key, steps: [counting("do", "did", 4)] });
    player = await game.newPlayer();
  });

  const rowsOf = async <T>(query: ReturnType<typeof sql<T>>): Promise<T[]> =>
    game.api.app.transact(async ({ db }) => (await query.execute(db)).rows);
  const lines = async () => {
    const { projectId } = game.tenant;
    const all = await game.api.app.transact((work) => linesOfPlayer(work, { projectId, playerId: player }));
    return all.filter(({ type }) => type === "quest.updated");
  };
  const keyOf = ({ data }: { data: object }): string => (data as { quest: Json }).quest["questKey"] as string;

  it("share a row, and are one each in the stream, in activity and among an event's effects", async () => {
    const { effects } = await game.send("did");
    const rows = await rowsOf(sql<{ lines: number }>`
      select lines from outbox where player_id = ${player} and type = 'quest.updated'`);
    assert.deepEqual(rows, [{ lines: QUESTS.length }]);
    const stream = await lines();
    assert.deepEqual(stream.map(keyOf), QUESTS);
    assert.equal(new Set(stream.map(({ id }) => id)).size, QUESTS.length);
    assert.deepEqual(
      stream.map(({ seq }) => seq - stream[0]!.seq),
      [0, 1, 2, 3, 4],
    );
    assert.deepEqual(effects.filter(({ type }) => type === "quest.updated").map(keyOf), QUESTS);
    const pages: Json[] = [];
    for (let cursor = ""; ;) {
      const page = await game.get(`/players/${player}/activity?types=quest.updated&limit=2${cursor}`);
      pages.push(...page.data);
      if (page.pagination.nextCursor === null) break;
      cursor = `&cursor=${page.pagination.nextCursor}`;
    }
    assert.deepEqual(
      pages.map(({ id, seq, data }) => [id, seq, data]).toReversed(),
      stream.map(({ id, seq, data }) => [id, seq, data]),
    );
  });

  it("are sent from within a row to who has had the first of them", async () => {
    await game.send("did");
    await game.send("did");
    const stream = await lines();
    assert.equal(stream.length, 2 * QUESTS.length);
    const { app } = game.api;
    const { projectId } = game.tenant;
    await app.transact((work) => readPlan(work, projectId, projectPlans));
    for (const { seq: afterSeq } of stream) {
      const asked = [{ playerId: player, afterSeq }];
      const [page] = (await readPlayersNow(app.read, { projectId, asked, now: app.clock(), limit: 100 }))!;
      assert.deepEqual(
        page!.messages.filter(({ type }) => type === "quest.updated"),
        stream.filter(({ seq }) => seq > afterSeq),
      );
    }
  });

  it("tell webhooks of each of them once", async () => {
    const feed = (cursor: string) => game.get(`/webhook-events?types=quest.progress&cursor=${cursor}`);
    await game.send("did");
    let cursor = (await feed("latest")).pagination.nextCursor as string;
    await game.send("did");
    const stream = (await lines()).slice(-QUESTS.length);
    const told: Json[] = [];
    await eventually(async () => {
      const page = await feed(cursor);
      told.push(...page.data);
      cursor = page.pagination.nextCursor;
      return told.length >= QUESTS.length;
    });
    assert.deepEqual(
      told.map(({ id, data }) => [id, (data as Json)["questKey"], (data as Json)["percent"]]),
      stream.map((line) => [line.id, keyOf(line), 50]),
    );
    assert.deepEqual((await feed(cursor)).data, []);
  });

  it("are erased together, and leave no gap", async () => {
    await game.send("did");
    await game.send("did");
    const before = await lines();
    const job = await game.make(`/players/${player}/erase`, { reason: "asked for" });
    await playersOf(game.api, game.tenant).resultOf(job.id);
    const after = await lines();
    assert.deepEqual(
      after.map(({ id, seq, data }) => [id, seq, data]),
      before.map(({ id, seq }) => [id, seq, {}]),
    );
    assert.deepEqual(await findingsOf(game), []);
  });
});
