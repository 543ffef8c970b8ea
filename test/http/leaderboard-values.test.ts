import assert from "node:assert/strict";
import { startApp } from "../support/app/app.ts";
import { aGame, type Game } from "../support/app/game.ts";
import { eventually, pastMidnight } from "../support/eventually.ts";
import { must } from "../support/http/client.ts";
import { madeOnce } from "../support/made.ts";
import { playersOf } from "../support/players/players.ts";

const GOALS = { source: "EVENT", event: { eventTypes: ["goal"] }, aggregate: "sum", property: "points" };
const goals = { key: "goals", name: "Goals by team", metric: GOALS, breakdownProperty: "match.team" };

type Value = { rank: number; value: string; players: number; total: number; average: number; best: number };

describe("values of a leaderboard's breakdown", () => {
  let game: Game;
  const api = madeOnce(startApp);
  beforeEach(async () => {
    await pastMidnight();
    game = await aGame(api);
  });

  const goal = (user: string, points: number, team?: unknown): Promise<void> =>
    game.track(user, "goal", { points, ...(team === undefined ? {} : { match: { team } }) });
  const read = (query = "", board = "goals") => game.get(`/leaderboards/${board}/values${query}`);
  const places = async (query = "", board = "goals"): Promise<unknown[]> =>
    must(await read(query, board), 200).data.map(({ rank, value, players, total }: Value) => [
      rank,
      value,
      players,
      total,
    ]);
  const entries = async (team: string): Promise<unknown[]> =>
    must(await game.get(`/leaderboards/goals/entries?board=${team}&fresh=true`), 200).data.map(
      (line: { externalUserId: string; score: number }) => [line.externalUserId, line.score],
    );

  it("are ranked by the scores of all who scored for them, whoever that is", async () => {
    await game.make("/leaderboards", goals);
    await goal("ada", 3, "red");
    await goal("ada", 2, "blue");
    await goal("bob", 4, "red");
    await goal("cy", 7, 11);
    await goal("dan", 50);
    await goal("dan", 50, { a: 1 });
    await goal("dan", 50, "x".repeat(201));
    assert.deepEqual(await places(), [
      [1, "11", 1, 7],
      [1, "red", 2, 7],
      [3, "blue", 1, 2],
    ]);
    const { body } = await read("?by=average&limit=1");
    assert.deepEqual(body.data, [{ rank: 1, value: "11", players: 1, total: 7, average: 7, best: 7 }]);
    assert.deepEqual([body.by, body.leaderboardKey, body.pagination.total], ["average", "goals", 3]);
    assert.deepEqual(
      (await places("?by=players")).map((place) => (place as unknown[])[1]),
      ["red", "11", "blue"],
    );
    assert.deepEqual(await places("?page=2&limit=2"), [[3, "blue", 1, 2]]);
    await eventually(async () => (await entries("red")).length === 2);
    assert.deepEqual(await entries("red"), [
      ["bob", 4],
      ["ada", 3],
    ]);
  });

  it("lose reverted scores and those of banned or removed players, not of merged ones", async () => {
    await game.make("/leaderboards", goals);
    const sent = await game.post("/events?wait=true", {
      externalUserId: "ada",
      eventType: "goal",
      properties: { points: 9, match: { team: "red" } },
    });
    await goal("ada", 1, "red");
    await goal("ada", 2, "blue");
    await goal("bob", 5, "red");
    await goal("cy", 6, "blue");
    const job = must(await game.post(`/events/${sent.body.eventId}/revert`, { reason: "a mistake" }), 200);
    await playersOf(api, game.tenant).resultOf(job.id);
    assert.deepEqual(await places("?fresh=true"), [
      [1, "blue", 2, 8],
      [2, "red", 2, 6],
    ]);
    const [cy, bob] = [await game.get("/players/ext:cy"), await game.get("/players/ext:bob")];
    await game.setStatus(cy.body.id, "BANNED");
    assert.deepEqual(await places("?fresh=true"), [
      [1, "red", 2, 6],
      [2, "blue", 1, 2],
    ]);
    const merge = { sourcePlayerId: bob.body.id };
    const ada = must(await game.get("/players/ext:ada"), 200);
    must(await game.post(`/players/${ada.id}/merge`, merge), 200);
    assert.deepEqual(await places("?fresh=true"), [
      [1, "red", 1, 6],
      [2, "blue", 1, 2],
    ]);
    const removed = must(await game.remove("/leaderboards/goals/players/ext:ada", { ban: true }), 200);
    assert.equal(removed.deleted, true);
    assert.deepEqual(await places("?fresh=true"), []);
    await goal("ada", 5, "red");
    assert.deepEqual(await places("?fresh=true"), []);
  });

  it("of past events count where a board is filled with them, and of a closed period stay", async () => {
    await goal("ada", 3, "red");
    await goal("bob", 4, "blue");
    await game.make("/leaderboards", { ...goals, period: { kind: "DAILY" }, backfill: true });
    const expected = [
      [1, "blue", 1, 4],
      [2, "red", 1, 3],
    ];
    assert.deepEqual(await places(), expected);
    const { period } = must(await read(), 200);
    assert.equal(period.status, "OPEN");
    must(await game.post("/leaderboards/goals/reset"), 200);
    assert.deepEqual(await places("?fresh=true"), []);
    const past = `?period=${period.key}&fresh=true`;
    await eventually(async () => must(await read(past), 200).period.status === "CLOSED");
    assert.deepEqual(await places(past), expected);
  });

  it("are shown around one of them, with long names, and as pages", async () => {
    await game.make("/leaderboards", goals);
    const long = "é".repeat(200);
    const teams = ["a", "b", long, "d", "e", "f"];
    for (const [i, team] of teams.entries()) await goal("ada", 10 - i, team);
    const around = async (query: string): Promise<unknown[]> =>
      must(await read(`?fresh=true&${query}`), 200).data.map(({ value }: Value) => value);
    assert.deepEqual(await around(`around=${encodeURIComponent(long)}&limit=3`), ["b", long, "d"]);
    assert.deepEqual(await around("around=a&limit=3"), ["a", "b", long]);
    assert.deepEqual(await around("around=f&limit=3"), ["d", "e", "f"]);
    assert.deepEqual(await around("around=b"), teams);
    const { pagination } = must(await read("?around=f&limit=2"), 200);
    assert.deepEqual(pagination, { page: 3, limit: 2, total: 6, totalPages: 3 });
    assert.equal((await read("?around=zzz")).status, 404);
    assert.equal((await read("?around=a&page=2")).body.error.details[0].field, "page");
    await game.make("/players", { externalUserId: "eve" });
    const pages = [await read("?limit=3"), await read("?limit=3&page=2"), await read("?around=a")];
    const shown = pages.map((page) => must(page, 200).data.map(({ value }: Value) => value));
    assert.deepEqual(shown, [teams.slice(0, 3), teams.slice(3), teams]);
  });

  it("say when a period has as many as it may have, and further ones count for nobody", async () => {
    const { id } = await game.make("/leaderboards", goals);
    await goal("ada", 3, "red");
    const fill = (count: number): Promise<unknown> =>
      api.sql`insert into leaderboard_periods (project_id, id, leaderboard_id, period_key, board, created_at,
          written_at)
        select ${game.tenant.projectId}::uuid, gen_random_uuid(), ${id}::uuid, 'all-time', 'v' || n, now(),
          now()
        from generate_series(1, ${count}) as n on conflict do nothing`;
    await fill(998);
    assert.equal(must(await read("?fresh=true"), 200).isFull, false);
    await goal("ada", 4, "blue");
    assert.equal(must(await read("?fresh=true"), 200).isFull, true);
    await goal("ada", 9, "green");
    await goal("bob", 2, "red");
    assert.deepEqual(await places("?fresh=true"), [
      [1, "red", 2, 5],
      [2, "blue", 1, 4],
    ]);
  });

  it("are those of an attribute too, by the best score where scores do not add up", async () => {
    const definition = {
      metric: { source: "CUSTOM" },
      operator: "BEST",
      sort: "ASC",
      scoreDecimals: 1,
      breakdownAttribute: "city",
    };
    await game.make("/leaderboards", { key: "laps", name: "Laps", ...definition });
    const laps = [
      ["ada", "Rome", 61.5],
      ["bob", "Oslo", 60],
      ["cy", "Rome", 62],
    ] as const;
    for (const [user, city, score] of laps) {
      await game.make("/players", { externalUserId: user, attributes: { city } });
      must(await game.post("/leaderboards/laps/scores", { playerId: `ext:${user}`, score }), 200);
    }
    const { data, by } = must(await read("", "laps"), 200);
    assert.equal(by, "best");
    assert.deepEqual(data, [
      { rank: 1, value: "Oslo", players: 1, total: 60, average: 60, best: 60 },
      { rank: 2, value: "Rome", players: 2, total: 123.5, average: 61.75, best: 61.5 },
    ]);
  });

  it("are refused where there are none, with what is wrong", async () => {
    await game.make("/leaderboards", { key: "plain", name: "Plain", metric: GOALS });
    const refused = async (answer: ReturnType<typeof read>, field: string): Promise<void> => {
      const { status, body } = await answer;
      assert.equal(status, 400);
      assert.equal(body.error.details[0].field, field);
    };
    await refused(read("", "plain"), "leaderboardId");
    await game.make("/leaderboards", goals);
    await refused(read("?by=size"), "by");
    assert.equal((await read("?period=2020-W01")).status, 404);
    const make = (more: object) => game.post("/leaderboards", { ...goals, key: "other", ...more });
    await refused(make({ breakdownAttribute: "city" }), "breakdownProperty");
    await refused(make({ metric: { source: "XP" } }), "breakdownProperty");
    await refused(make({ breakdownProperty: "__proto__.a" }), "breakdownProperty");
  });
});
