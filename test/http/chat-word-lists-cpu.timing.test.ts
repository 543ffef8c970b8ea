import assert from "node:assert/strict";
import { sql } from "kysely";
import { prepareFilter } from "../../src/domain/social/chat/moderation/filters.ts";
import { newId } from "../../src/domain/kernel/ids.ts";
import type { Transact } from "../../src/domain/kernel/work.ts";
import { startApp, type TestApp } from "../support/app/app.ts";
import { must } from "../support/http/client.ts";
import { CPU_SLACK, leastBlockMs } from "../support/cpu.ts";
import { aGame, type Game } from "../support/app/game.ts";

/** CPU that a process may spend on one caller before others are served. */
const BLOCK_MAX_MS = 100 * CPU_SLACK;
const LISTS = 25;
const WORDS = 5_000;

/** Words of 54 letters, most of which may stand for others. */
const wordsOf = (list: number): string[] =>
  Array.from({ length: WORDS }, (_, i) => {
    const letters = [i % 26, Math.floor(i / 26) % 26, Math.floor(i / 676), list].map((one) => 97 + one);
    return "il1o0s5".repeat(8).slice(0, 50) + String.fromCharCode(...letters);
  });

describe("CPU of a project of a hundred thousand words", () => {
  let api: TestApp;
  let game: Game;
  before(async () => {
    api = await startApp();
    game = await aGame(api);
    const settings = { slowModeSeconds: 0, burstMessages: 0, minuteMessages: 0 };
    await game.make("/chat/channels", { key: "trade", settings });
    for (let list = 0; list < LISTS; list += 1)
      await api.app.transact(({ db }) =>
        sql`
          insert into chat_word_lists
            (project_id, key, action, match, words, version, created_at, updated_at)
          values (${game.tenant.projectId}, ${`big${list}`}, 'BLOCK', 'SUBSTRING',
            ${JSON.stringify(wordsOf(list))}::json, ${newId()}, now(), now())`.execute(db),
      );
  });

  /** As if these lists had been replaced by the same words. */
  const renew = (keys = "big%") =>
    api.app.transact(({ db }) =>
      sql`
        update chat_word_lists set version = gen_random_uuid()
        where project_id = ${game.tenant.projectId} and key like ${keys}`.execute(db),
    );

  it("is spent in slices, for a trial and for a message, none of which passes unread", async () => {
    const bad = `well ${wordsOf(LISTS - 1)[WORDS - 1]}`;
    const trial = async () => {
      await renew();
      assert.equal(must(await game.post("/chat/filter/test", { text: bad }), 200).outcome, "BLOCKED");
    };
    assert((await leastBlockMs(trial, BLOCK_MAX_MS)) < BLOCK_MAX_MS);
    let senders = 0;
    const message = async () => {
      await renew();
      // Another one each time: three such messages mute a player.
      const externalUserId = `sender-${(senders += 1)}`;
      await game.player(externalUserId);
      const body = { content: bad, playerId: `ext:${externalUserId}` };
      const answers = await Promise.all([1, 2].map(() => game.post("/chat/channels/trade/messages", body)));
      for (const answer of answers) assert.equal(answer.body.error.reason, "MESSAGE_BLOCKED");
    };
    assert((await leastBlockMs(message, BLOCK_MAX_MS)) < BLOCK_MAX_MS);
  });

  it("is spent on what has changed, while no transaction is open", async () => {
    let open = 0;
    let transactions = 0;
    const transact: Transact = async (run) => {
      open += 1;
      transactions += 1;
      try {
        return await api.app.transact(run);
      } finally {
        open -= 1;
      }
    };
    /** How many transactions it takes to be ready, and in how many turns of the event loop none is open. */
    const prepare = async () => {
      transactions = 0;
      let turns = 0;
      let isOver = false;
      const look = (): void => {
        if (open === 0) turns += 1;
        if (!isOver) setImmediate(look);
      };
      setImmediate(look);
      await Promise.all([1, 2, 3].map(() => prepareFilter({ transact }, game.tenant.projectId)));
      isOver = true;
      return { transactions, turns };
    };
    await renew();
    const first = await prepare();
    // Each of the three looks for changes; one of them finds the lists, and reads each of them.
    assert.equal(first.transactions, 3 + 1 + LISTS);
    assert(first.turns > LISTS, `${first.turns} turns`);
    await renew("big7");
    assert.equal((await prepare()).transactions, 3 + 1 + 1);
    assert.equal((await prepare()).transactions, 3);
  });
});
