import assert from "node:assert/strict";
import { sql } from "kysely";
import { startApp } from "../support/app/app.ts";
import { must } from "../support/http/client.ts";
import { aQuestGame, counting, findingsOf, type QuestGame } from "../support/quests/quest-game.ts";

type Row = { key: number; state: string; isLatest: boolean; isLive: boolean };

describe("quests that repeat UNLIMITED, of players who are merged", () => {
  let game: QuestGame;
  beforeEach(async () => {
    game = await aQuestGame(await startApp());
  });

  const rowsOf = async (player: string): Promise<Row[]> => {
    const { rows } = await game.api.app.transact(({ db }) =>
      sql<Row>`select cycle_key::int as key, state, is_latest as "isLatest", is_live as "isLive"
        from player_quests where player_id = ${player}::uuid order by 1`.execute(db),
    );
    return rows;
  };
  const publish = (target: number) =>
    game.publish({
      key: "again",
      steps: [counting("do", "done", target)],
      repeat: { mode: "UNLIMITED" },
      claim: "MANUAL",
      rewards: { xp: 10 },
    });
  const complete = async (times: number): Promise<void> => {
    for (let n = 0; n < times; n++) await game.send("done");
  };
  const claim = async (): Promise<unknown> => must(await game.act("again", "claim"), 200);
  const merge = (target: string, source: string) =>
    game.post(`/players/${target}/merge`, { sourcePlayerId: source });
  const assertSound = async (): Promise<void> => assert.deepEqual(await findingsOf(game), []);

  for (const isTargetFirst of [true, false])
    it(`keep all rewards that wait; the target is the ${isTargetFirst ? "first" : "second"}`, async () => {
      await publish(1);
      const first = await game.newPlayer();
      await complete(4);
      const second = await game.newPlayer();
      await complete(2);
      await claim();
      const [target, source] = isTargetFirst ? [first, second] : [second, first];
      must(await merge(target, source), 200);
      const merged = await rowsOf(target);
      assert.equal(new Set(merged.map(({ key }) => key)).size, merged.length);
      assert.equal(merged.filter(({ state }) => state === "COMPLETED").length, 5);
      // What is over of the source stays with it.
      assert.equal(merged.filter(({ state }) => state === "CLAIMED").length, isTargetFirst ? 0 : 1);
      const latest = merged.filter(({ isLatest }) => isLatest);
      assert.deepEqual(latest, [merged.at(-1)]);
      await game.send("done", { externalUserId: (await game.get(`/players/${target}`)).externalUserId });
      const after = await rowsOf(target);
      assert.equal(after.length, merged.length + 1, "the next one takes no other's place");
      assert.equal(after.filter(({ state }) => state === "COMPLETED").length, 6);
      await assertSound();
    });

  it("have one cycle in progress: the other one has ended, and nothing is swept for ever", async () => {
    await publish(2);
    const target = await game.newPlayer();
    await complete(3);
    const source = await game.newPlayer();
    await complete(1);
    must(await merge(target, source), 200);
    const rows = await rowsOf(target);
    assert.deepEqual(
      rows.map(({ state, isLatest, isLive }) => [state, isLatest, isLive]),
      [
        ["COMPLETED", false, true],
        ["EXPIRED", false, false],
        ["IN_PROGRESS", true, true],
      ],
    );
    await assertSound();
  });
});
