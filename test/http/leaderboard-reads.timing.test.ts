import assert from "node:assert/strict";
import { ANSWER_AGE_MS } from "../../src/domain/kernel/caches.ts";
import { type Answer, startApp } from "../support/app/app.ts";
import { aGame } from "../support/app/game.ts";
import { eventually } from "../support/eventually.ts";
import { must } from "../support/http/client.ts";
import { madeForEach, madeOnce } from "../support/made.ts";

const AGE = "x-data-age-ms";
const custom = { key: "race", name: "Race", metric: { source: "CUSTOM" }, operator: "BEST" };

describe("reads of a leaderboard", () => {
  const api = madeOnce(startApp);
  const game = madeForEach(() => aGame(api));
  let ada: string;
  let bob: string;
  beforeEach(async () => {
    await game.make("/leaderboards", custom);
    [ada, bob] = [await game.player("ada"), await game.player("bob")];
    await score(ada, 20);
    await score(bob, 10);
  });

  const score = async (playerId: string, value: number, board = "race"): Promise<void> =>
    void must(await game.post(`/leaderboards/${board}/scores`, { playerId, score: value }), 200);
  const read = (query = "", board = "race") => game.get(`/leaderboards/${board}/entries${query}`);
  /** Every way to read the board: external ids and scores, with the age that was told. */
  const lines = (answer: Answer): string =>
    must(answer, 200)
      .data.map((line: { externalUserId: string; score: number }) => `${line.externalUserId}:${line.score}`)
      .join(" ");
  const everyWay = async (board = "race"): Promise<string[]> => {
    const answers = [
      await read("", board),
      await read("?limit=2", board),
      await read(`?around=${ada}`, board),
      await read("?around=ext:ada", board),
      await read(`?playerId=${ada}`, board),
    ];
    return [...new Set(answers.map(lines))];
  };

  it("show what another change has done to a board of XP, before the relay has come to it", async () => {
    await game.make("/leaderboards", { key: "xp", name: "XP", metric: { source: "XP" } });
    await everyWay("xp").catch(() => undefined);
    for (const amount of [5, 7]) {
      await game.make(`/players/${ada}/xp`, { amount });
      await game.make(`/players/${bob}/xp`, { amount: 1 });
    }
    assert.deepEqual(await everyWay("xp"), ["ada:12 bob:2"]);
    const place = await game.get(`/leaderboards/xp/players/ext:bob`);
    assert.deepEqual([must(place, 200).rank, place.headers.get(AGE) === null], [2, false]);
  });

  it("say how old they are, never more than promised, and nothing with fresh=true", async () => {
    const ages = await Promise.all(Array.from({ length: 20 }, () => read()));
    for (const answer of ages) {
      const age = Number(must(answer, 200) && answer.headers.get(AGE));
      assert.ok(age >= 0 && age <= ANSWER_AGE_MS, String(age));
    }
    const older = await eventually(async () => {
      const answer = await read();
      return Number(answer.headers.get(AGE)) > 0 && answer;
    });
    assert.equal(lines(older), "ada:20 bob:10");
    // By SQL, as another process would have done it.
    await game.setStatus(bob, "BANNED");
    assert.equal(lines(await read("?fresh=true")), "ada:20");
    assert.equal((await read("?fresh=perhaps")).status, 400);
    await eventually(async () => lines(await read()) === "ada:20", { timeoutMs: 2 * ANSWER_AGE_MS });
  });

  it("answer 304 to who has the page, compressed or not, until it changes", async () => {
    const page = await read();
    const etag = page.headers.get("etag")!;
    const again = (tag: string) =>
      api.get("/api/v1/leaderboards/race/entries", {
        key: game.tenant.key,
        headers: { "If-None-Match": tag },
      });
    assert.equal((await again(etag)).status, 304);
    await score(ada, 99);
    const changed = await again(etag);
    assert.equal(lines(changed), "ada:99 bob:10");
    assert.notEqual(changed.headers.get("etag"), etag);
  });
});
