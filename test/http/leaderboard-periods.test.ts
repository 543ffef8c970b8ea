import assert from "node:assert/strict";
import { aTenant, startApp } from "../support/app/app.ts";
import { assertError } from "../support/http/assert-error.ts";
import { must } from "../support/http/client.ts";
import { eventually, eventuallyHolds, pastMidnight } from "../support/eventually.ts";
import { madeOnce } from "../support/made.ts";
import { pluck } from "../support/pluck.ts";

const DAY_MS = 86_400_000;

describe("periods of leaderboards over HTTP", () => {
  const api = madeOnce(startApp);
  const tenant = madeOnce(() => aTenant(api));
  beforeEach(() => pastMidnight());

  const as = () => ({ key: tenant.key });
  const post = (path: string, body: object = {}) => api.post(`/api/v1${path}`, body, as());
  const get = (path: string) => api.get(`/api/v1${path}`, as());
  const board = async (key: string, more: object = {}): Promise<string> => {
    const definition = { key, name: key, metric: { source: "CUSTOM" }, operator: "BEST", ...more };
    must(await post("/leaderboards", definition), 201);
    return key;
  };
  const score = async (key: string, user: string, points: number, occurredAt?: string): Promise<void> => {
    await post("/players", { externalUserId: user });
    const when = occurredAt === undefined ? {} : { occurredAt };
    must(await post(`/leaderboards/${key}/scores`, { playerId: `ext:${user}`, score: points, ...when }), 200);
  };
  type Period = { key: string; status: string; participants: number; leader: object | null };
  const periods = async (key: string, query = ""): Promise<Period[]> =>
    must(await get(`/leaderboards/${key}/periods${query}`), 200).data;
  const results = (key: string, period: string) => get(`/leaderboards/${key}/periods/${period}/results`);

  it("a window opens by itself, and a reset closes it, gives its prizes and begins anew", async () => {
    const prizes = [{ from: 1, to: 1, rewards: { xp: 25 } }];
    const key = await board("daily", { period: { kind: "DAILY" }, prizes, prizeClaim: "CLAIM" });
    const open = await eventually(async (): Promise<Period | undefined> => (await periods(key))[0]);
    assert.deepEqual([open.status, open.participants, open.leader], ["OPEN", 0, null]);
    await score(key, "ann", 7);
    await score(key, "bob", 9);
    await eventually(async () => (await periods(key))[0]!.participants === 2);
    assert.equal((await results(key, open.key)).status, 409);

    const reset = must(await post(`/leaderboards/${key}/reset`, { awardPrizes: true }), 200);
    assert.deepEqual([reset.resets, reset.closing], [1, 1]);
    await eventually(async () => (await results(key, open.key)).status === 200);
    const closed = (await results(key, open.key)).body;
    assert.deepEqual(
      closed.data.map((place: { rank: number; score: number; player: { externalUserId: string } }) => [
        place.rank,
        place.score,
        place.player.externalUserId,
      ]),
      [
        [1, 9, "bob"],
        [2, 7, "ann"],
      ],
    );
    assert.deepEqual(closed.data[0].prize, { prize: 0, status: "WAITING" });
    assert.equal(closed.period.leader.player.externalUserId, "bob");
    const listed = await periods(key);
    assert.deepEqual(pluck(listed, "key", "status", "participants"), [
      [`${open.key}.2`, "OPEN", 0],
      [open.key, "CLOSED", 2],
    ]);
    assert.equal((await periods(key, "?status=CLOSED")).length, 1);
    const { metrics } = must(await get("/analytics/overview?period=7d"), 200);
    assert.deepEqual([metrics.leaderboardsClosed.value, metrics.leaderboardPlaces.value], [1, 2]);

    const [reward] = must(await get("/players/ext:bob/rewards"), 200).data;
    assert.equal(reward.status, "PENDING");
    must(await post(`/players/ext:bob/rewards/${reward.id}/claim`), 200);
    assert.equal(must(await get("/players/ext:bob"), 200).xp, 25);
  });

  /** The cells of a board's file, without the header. */
  const fileOf = async (key: string, query = "") => {
    const answer = await fetch(`${api.url}/api/v1/leaderboards/${key}/export?format=csv${query}`, {
      headers: { "X-API-Key": tenant.key },
    });
    const text = await answer.text();
    assert.equal(answer.status, 200, text);
    return text
      .split("\r\n")
      .slice(1, -1)
      .map((line) => line.split(","));
  };

  it("a whole window is a file, with the ranks of its pages and no formulas of players", async () => {
    const made = await board("many", { ties: "SHARED", scoreDecimals: 2 });
    const players = Array.from({ length: 450 }, (_, i) => `m${i}`);
    players.splice(7, 0, "=1+1");
    const added = await Promise.all(players.map((externalUserId) => post("/players", { externalUserId })));
    for (const answer of added) must(answer, 201);
    const scores = players.map((name, i) => ({ playerId: `ext:${name}`, score: Math.floor(i / 3) + 0.25 }));
    must(await post(`/leaderboards/${made}/scores/batch`, { scores }), 200);
    must(await api.delete("/api/v1/players/ext:m9", as()), 200);
    const expected = async () => {
      const pages = await Promise.all(
        [1, 2, 3, 4, 5].map((page) => get(`/leaderboards/${made}/entries?limit=100&page=${page}&fresh=true`)),
      );
      return pages.flatMap(({ body }) =>
        body.data.map((line: { rank: number; externalUserId: string; score: number; reachedAt: string }) => [
          String(line.rank),
          line.externalUserId.replace("=", "'="),
          String(line.score),
          line.reachedAt,
        ]),
      );
    };
    const columns = "&columns=rank,externalUserId,score,reachedAt";
    await eventuallyHolds(async () => assert.equal((await expected()).length, 450));
    const open = await fileOf(made, columns);
    assert.deepEqual(open, await expected());
    must(await post(`/leaderboards/${made}/reset`), 200);
    await eventually(async () => (await results(made, "all-time")).status === 200);
    assert.deepEqual(await fileOf(made, `${columns}&period=all-time`), open);
    assert.deepEqual(await fileOf(made), []);
    assertError(await get("/leaderboards/nothing/export"), 404);
    assertError(await get(`/leaderboards/${made}/export?board=x`), 400);
    assertError(await get(`/leaderboards/${made}/export?bom=true`), 400);
  });

  it("places of players who are deleted or erased stay, and are nobody's", async () => {
    const key = await board("all");
    await score(key, "cid", 1);
    await score(key, "dan", 2);
    must(await post(`/leaderboards/${key}/reset`), 200);
    await eventually(async () => (await results(key, "all-time")).status === 200);
    must(await api.delete("/api/v1/players/ext:dan", as()), 200);
    const { data, pagination } = must(await results(key, "all-time"), 200);
    assert.deepEqual(
      data.map((place: { rank: number; player: { externalUserId: string } | null }) => [
        place.rank,
        place.player?.externalUserId ?? null,
      ]),
      [
        [1, null],
        [2, "cid"],
      ],
    );
    assert.equal(pagination.total, 2);

    const told = async () => {
      const rows = await api.sql<{ top: { externalUserId: string; score: number }[] }>`
        select data->'top' as top from outbox
        where project_id = ${tenant.projectId} and type = 'leaderboard.period_closed'
          and data->>'leaderboardKey' = ${key}`;
      return rows[0]!.top.map((place) => place.externalUserId);
    };
    assert.deepEqual(await told(), ["dan", "cid"]);
    const { id } = must(await get("/players/ext:cid"), 200);
    must(await post(`/players/${id}/erase`, { reason: "asked for" }), 201);
    await eventuallyHolds(async () => assert.deepEqual(await told(), ["dan", `erased:${id}`]));
  });

  it("after a merge the places of a closed period are the target's", async () => {
    const key = await board("merged");
    await score(key, "eve", 1);
    await score(key, "fay", 2);
    must(await post(`/leaderboards/${key}/reset`), 200);
    await eventually(async () => (await results(key, "all-time")).status === 200);
    const source = must(await get("/players/ext:fay"), 200).id;
    must(await post("/players/ext:eve/merge", { sourcePlayerId: source }), 200);
    const { data } = must(await results(key, "all-time"), 200);
    assert.deepEqual(
      data.map((place: { player: { externalUserId: string } }) => place.player.externalUserId),
      ["eve", "eve"],
    );
  });

  it("a score of before a reset is late, one of after it counts", async () => {
    const key = await board("late");
    await score(key, "gus", 5);
    const before = new Date(Date.now() - DAY_MS).toISOString();
    must(await post(`/leaderboards/${key}/reset`), 200);
    const late = await post(`/leaderboards/${key}/scores`, {
      playerId: "ext:gus",
      score: 50,
      occurredAt: before,
    });
    assert(late.status === 409 || late.body.accepted === false, JSON.stringify(late.body));
    await score(key, "gus", 3);
    const { data } = must(await get(`/leaderboards/${key}/entries`), 200);
    assert.deepEqual(pluck(data, "score"), [3]);
  });

  it("refuses to reset a board of XP in total, or one that is archived", async () => {
    await board("xp", { metric: { source: "XP" }, operator: undefined });
    assert.equal((await post("/leaderboards/xp/reset")).body.error.reason, "SHOWS_TOTALS");
    await board("gone");
    must(await api.delete("/api/v1/leaderboards/gone", as()), 200);
    assert.equal((await post("/leaderboards/gone/reset")).body.error.reason, "LEADERBOARD_ARCHIVED");
    assert.equal((await post("/leaderboards/nobody/reset")).status, 404);
    assert.equal((await results("gone", "2026-01-01")).status, 404);
  });

  it("an admin reads a board's rankings anew", async () => {
    const key = await board("rebuilt");
    await score(key, "hal", 4);
    const answer = await api.post(`/api/v1/leaderboards/${key}/rebuild`, {}, { token: tenant.token });
    assert.deepEqual(must(answer, 200), { rebuilt: 1 });
    assert.equal(must(await get(`/leaderboards/${key}/entries`), 200).data[0].score, 4);
  });

  it("are those of which a player's places are shown, with the value of a breakdown", async () => {
    const inDays = (days: number) => new Date(Date.now() + days * DAY_MS).toISOString();
    const fixed = (from: number, to: number) => ({
      period: { kind: "FIXED", startsAt: inDays(from), endsAt: inDays(to) },
    });
    await board("own-all");
    await board("own-day", { period: { kind: "DAILY" } });
    await board("own-later", fixed(1, 2));
    await board("own-past", fixed(-2, -1));
    await board("own-week", { period: { kind: "WEEKLY" } });
    await board("own-team", { period: { kind: "WEEKLY" }, breakdownAttribute: "team" });
    await board("own-none", { breakdownAttribute: "none" });
    for (const [user, team] of [
      ["zoe", "red"],
      ["max", "blue"],
    ])
      must(await post("/players", { externalUserId: user, attributes: { team } }), 201);
    for (const key of ["own-all", "own-day", "own-week", "own-team"]) {
      await score(key, "zoe", 30);
      await score(key, "max", 40);
    }
    await score("own-past", "zoe", 30, inDays(-1.5));
    await eventuallyHolds(async () => {
      const { ranks } = must(await get("/players/ext:zoe?include=ranks"), 200);
      const own = ranks.filter((rank: { leaderboardKey: string }) => rank.leaderboardKey.startsWith("own-"));
      const view = async (key: string, query = "") =>
        must(await get(`/leaderboards/${key}/entries${query}`), 200).period.key;
      const all = async (key: string, rank: number, participants: number, query?: string) => [
        key,
        await view(key, query),
        rank,
        30,
        participants,
      ];
      assert.deepEqual(pluck(own, "leaderboardKey", "periodKey", "rank", "score", "participants"), [
        await all("own-all", 2, 2),
        await all("own-day", 2, 2),
        ["own-later", "fixed", null, null, 0],
        await all("own-past", 1, 1),
        await all("own-team", 1, 1, "?board=red"),
        await all("own-week", 2, 2),
      ]);
    });
  });
});
