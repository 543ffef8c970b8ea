import assert from "node:assert/strict";
import { Client } from "@colyseus/sdk";
import { aTenant, aWsToken, startApp, type Tenant, type TestApp } from "../support/app/app.ts";
import { eventually } from "../support/eventually.ts";
import { laurel, temporaryDir } from "../support/processes/process.ts";
import {
  defineWorldcup,
  expectedXp,
  hasRealData,
  sorted,
  topTwenty,
  WORLDCUP,
  worldcupTruth,
} from "../support/data/worldcup.ts";
import { allProcessed } from "../support/app/processed.ts";
import { pluck } from "../support/pluck.ts";

type Row = { rank: number; externalUserId: string; score: number };

const importFile = async (api: TestApp, key: string, stateDir: string) => {
  const run = laurel([
    "import",
    WORLDCUP,
    "--key",
    key,
    "--url",
    api.url,
    "--json",
    "--state",
    `${stateDir}/state.json`,
  ]);
  assert.equal(await run.ended, 0, run.output());
  return JSON.parse(run.output().trim().split("\n").at(-1)!) as {
    accepted: number;
    skipped: number;
    rejected: number;
  };
};

describe("the World Cup, 1930 to 2022, imported as real events", function () {
  let api: TestApp;
  let tenant: Tenant;
  const seen: Row[][] = [];
  const truth = hasRealData ? worldcupTruth() : undefined;

  before(async function () {
    if (!hasRealData) this.skip();
    api = await startApp();
    tenant = await aTenant(api);
    await defineWorldcup(api, tenant.key);
    const { token } = await aWsToken(api, tenant.key, "watcher");
    const client = new Client(api.url);
    client.auth.token = token;
    const room = await client.joinOrCreate("leaderboard", { leaderboardKey: "goals" });
    room.onStateChange((state: unknown) => {
      const { top } = state as { top: Iterable<Row> };
      seen.push([...top].map(({ rank, externalUserId, score }) => ({ rank, externalUserId, score })));
    });
    const dir = await temporaryDir();
    const summary = await importFile(api, tenant.key, dir.path);
    assert.deepEqual([summary.accepted, summary.skipped, summary.rejected], [truth!.events, 0, 0]);
    await allProcessed(api, { key: tenant.key }, 120_000);
    await dir.remove();
  });

  it("gives the true top 20 of goals and cards, with every tie at the cut", async () => {
    const { goalsAll, goalsMen, goalsWomen, cards, xp } = truth!.leaderboards;
    const boards = {
      goals: goalsAll,
      "goals-men": goalsMen,
      "goals-women": goalsWomen,
      cards,
      points: xp.top,
    };
    for (const [board, standings] of Object.entries(boards)) {
      const expected = sorted(standings);
      await eventually(async () => {
        const top = await topTwenty(api, tenant.key, board);
        // A truth cut at exactly twenty may leave out ties of the last place.
        const shown = board === "points" ? top.filter((row) => row.rank < expected.at(-1)!.rank) : top;
        const wanted =
          board === "points" ? expected.filter((row) => row.rank < expected.at(-1)!.rank) : expected;
        assert.deepEqual(sorted(shown), wanted);
        return true;
      });
    }
  });

  it("gives the true first three of each tournament, by a board that is divided by it", async () => {
    for (const [tournament, standings] of Object.entries(truth!.leaderboards.goalsByTournamentTop3)) {
      const places = { most: standings.at(-1)!.rank, value: tournament };
      const found = await topTwenty(api, tenant.key, "goals-by-tournament", places);
      assert.deepEqual(sorted(found), sorted(standings), tournament);
    }
  });

  it("gives every player the XP that plain loops over the file give", async () => {
    const expected = await expectedXp();
    assert.equal(expected.size, truth!.players);
    const xp = new Map<string, number>();
    for (let page = 1; xp.size < expected.size; page++) {
      const { data } = (
        await api.get(`/api/v1/players?limit=100&order=asc&page=${page}`, { key: tenant.key })
      ).body;
      if (data.length === 0) break;
      for (const player of data)
        if (player.externalUserId !== "watcher") xp.set(player.externalUserId, player.xp);
    }
    assert.deepEqual([...xp].toSorted(), [...expected].toSorted());
  });

  it("showed a watcher the final order in the end, and on the way only states that were true", async () => {
    const final = sorted(truth!.leaderboards.goalsAll).slice(0, 10);
    await eventually(() => {
      const last = seen
        .at(-1)!
        .map(({ rank, externalUserId, score }) => ({ rank, player: externalUserId, value: score }));
      assert.deepEqual(pluck(last, "rank", "value"), pluck(final, "rank", "value"));
      return true;
    });
    assert.ok(seen.length > 3, `the watcher saw the board move (${seen.length} states)`);
    const last = new Map<string, number>();
    for (const state of seen) {
      state.forEach((row, index) => {
        const above = state[index - 1];
        assert.ok(!above || above.score >= row.score, "in order");
        assert.equal(
          row.rank,
          above?.score === row.score ? above.rank : index + 1,
          "ranks follow from the scores",
        );
        // A player's goals so far: never taken back, never more than the file holds.
        assert.ok(row.score >= (last.get(row.externalUserId) ?? 0), `${row.externalUserId} lost goals`);
        last.set(row.externalUserId, row.score);
      });
    }
    const goals = new Map(truth!.leaderboards.goalsAll.map(({ player, value }) => [player, value]));
    for (const [player, score] of last)
      assert.ok(score <= (goals.get(player) ?? final.at(-1)!.value), `${player} has ${score}`);
  });

  it("changes nothing when the file is imported again", async () => {
    const before = await topTwenty(api, tenant.key, "points");
    const dir = await temporaryDir();
    const summary = await importFile(api, tenant.key, dir.path);
    await dir.remove();
    assert.deepEqual([summary.accepted, summary.skipped, summary.rejected], [0, truth!.events, 0]);
    await allProcessed(api, { key: tenant.key }, 120_000);
    assert.deepEqual(await topTwenty(api, tenant.key, "points"), before);
  });
});
