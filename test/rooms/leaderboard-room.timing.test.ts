import assert from "node:assert/strict";
import { randomUUID } from "node:crypto";
import { aTenant, startApp, type Tenant, type TestApp } from "../support/app/app.ts";
import { REREAD_EVERY_MS } from "../../src/rooms/mirror-room.ts";
import { eventually, eventuallyHolds } from "../support/eventually.ts";
import { aPlayer, join, type Listener, type Player, range } from "../support/rooms/sdk.ts";
import { pluck } from "../support/pluck.ts";

type Row = { rank: number; playerId: string; score: number };

const topOf = ({ room }: Listener): [number, string, number][] =>
  [...(room.state.top as Row[])].map(({ rank, playerId, score }) => [rank, playerId, score]);

type Place = { rank: number; score: number; rows: Row[] };

/** The places that a client can see, its own only if all is well. */
const placesOf = ({ room }: Listener): Place[] =>
  [...(room.state.me?.values() ?? [])].map(({ rank, score, rows }: Place) => ({
    rank,
    score,
    rows: [...rows].map((row) => ({ rank: row.rank, playerId: row.playerId, score: row.score })),
  }));

describe("room leaderboard", () => {
  let api: TestApp;
  let tenant: Tenant;
  let players: Player[];
  before(async () => {
    api = await startApp();
    tenant = await aTenant(api);
    players = await Promise.all(range(1, 15).map(() => aPlayer(api, tenant.key)));
  });

  const aBoard = async (): Promise<string> => {
    const key = `board-${randomUUID().slice(0, 8)}`;
    const body = { key, name: "Board", metric: { source: "CUSTOM" }, operator: "LATEST" };
    const { status, body: answer } = await api.post("/api/v1/leaderboards", body, { key: tenant.key });
    assert.equal(status, 201, JSON.stringify(answer));
    return key;
  };

  const submit = async (board: string, playerId: string, score: number): Promise<void> => {
    const answer = await api.post(
      `/api/v1/leaderboards/${board}/scores`,
      { playerId, score },
      { key: tenant.key },
    );
    assert.ok(answer.status < 300, JSON.stringify(answer.body));
  };

  const seed = async (board: string, count: number): Promise<void> => {
    for (const [i, { playerId }] of players.slice(0, count).entries())
      await submit(board, playerId, 1_000 - i * 10);
  };

  it("shows the first ten, and converges after every change", async () => {
    const board = await aBoard();
    await seed(board, 12);
    const watcher = await join(api, players[0]!.token, "leaderboard", { leaderboardKey: board });
    await eventuallyHolds(() => {
      assert.deepEqual(
        topOf(watcher),
        players.slice(0, 10).map(({ playerId }, i) => [i + 1, playerId, 1_000 - i * 10]),
      );
      assert.equal(watcher.room.state.size, 12);
    });
    const last = players[11]!;
    await submit(board, last.playerId, 5_000);
    await submit(board, players[0]!.playerId, 1);
    await eventuallyHolds(() => {
      const order = [last, ...players.slice(1, 10)];
      assert.deepEqual(
        topOf(watcher).map(([, playerId]) => playerId),
        pluck(order, "playerId"),
      );
      assert.equal(watcher.room.state.top[0].externalUserId, last.externalUserId);
    });
    assert.deepEqual(
      { key: watcher.room.state.leaderboardKey, name: watcher.room.state.name },
      { key: board, name: "Board" },
    );
    await watcher.room.leave();
  });

  it("shows each watcher their own place and the places around, and nobody else's", async () => {
    const board = await aBoard();
    await seed(board, 9);
    const [third, eighth, absent] = [players[2]!, players[7]!, players[14]!];
    const options = { leaderboardKey: board, around: 3 };
    const one = await join(api, third.token, "leaderboard", options);
    const two = await join(api, eighth.token, "leaderboard", options);
    const none = await join(api, absent.token, "leaderboard", { leaderboardKey: board });
    const row = (i: number, score = 1_000 - i * 10): Row => ({
      rank: i + 1,
      playerId: players[i]!.playerId,
      score,
    });
    await eventuallyHolds(() => {
      assert.deepEqual(placesOf(one), [{ rank: 3, score: 980, rows: [row(1), row(2), row(3)] }]);
      assert.deepEqual(placesOf(two), [{ rank: 8, score: 930, rows: [row(6), row(7), row(8)] }]);
      assert.deepEqual(placesOf(none), [{ rank: 0, score: 0, rows: [] }]);
    });
    await submit(board, eighth.playerId, 9_000);
    await submit(board, absent.playerId, 5);
    await eventuallyHolds(() => {
      assert.equal(placesOf(two)[0]?.rank, 1);
      assert.equal(placesOf(one)[0]?.rank, 4);
      assert.deepEqual(placesOf(none), [{ rank: 10, score: 5, rows: [] }]);
    });
    for (const { room } of [one, two, none]) await room.leave();
  });

  it("keeps the places of all watchers right, whoever passes them, comes or goes", async () => {
    const board = await aBoard();
    await seed(board, 12);
    const watching = await Promise.all(
      players.slice(0, 12).map(async ({ playerId, token }) => {
        const listener = await join(api, token, "leaderboard", { leaderboardKey: board });
        return { playerId, listener };
      }),
    );
    const scores = new Map(players.slice(0, 12).map(({ playerId }, i) => [playerId, 1_000 - i * 10]));
    const path = `/api/v1/leaderboards/${board}`;
    const holds = () =>
      eventuallyHolds(() => {
        const order = [...scores].toSorted(([, a], [, b]) => b - a).map(([playerId]) => playerId);
        for (const { playerId, listener } of watching) {
          const [place] = placesOf(listener);
          assert.equal(place?.rank, order.indexOf(playerId) + 1);
          assert.equal(place?.score, scores.get(playerId) ?? 0);
        }
      });
    await holds();
    const set = async (changes: readonly [n: number, score: number][]): Promise<void> => {
      const rows = changes.map(([n, score]) => ({ playerId: players[n]!.playerId, score }));
      for (const { playerId, score } of rows) scores.set(playerId, score);
      if (rows.length === 1) return submit(board, rows[0]!.playerId, rows[0]!.score);
      const answer = await api.post(`${path}/scores/batch`, { scores: rows }, { key: tenant.key });
      assert.equal(answer.status, 200);
    };
    // One passes some, the first falls, several at once, newcomers above and below.
    for (const changes of [
      [[9, 955]],
      [[0, 901]],
      [
        [3, 1_500],
        [5, 3],
      ],
      [[12, 944]],
      [[13, 1]],
    ] as [number, number][][]) {
      await set(changes);
      await holds();
    }
    const gone = players[2]!.playerId;
    const removed = await api.delete(`${path}/players/${gone}`, { key: tenant.key });
    assert.equal(removed.status, 200);
    scores.delete(gone);
    await holds();
    for (const { listener } of watching) await listener.room.leave();
  });

  it("is told that the board is paused, goes on or has another name", async () => {
    const board = await aBoard();
    const watcher = await join(api, players[0]!.token, "leaderboard", { leaderboardKey: board });
    const { state } = watcher.room;
    const path = `/api/v1/leaderboards/${board}`;
    // Of three changes in a row the reads of every five seconds would show one in time at most.
    const timeoutMs = REREAD_EVERY_MS / 2;
    await api.post(`${path}/pause`, {}, { key: tenant.key });
    await eventually(() => state.status === "PAUSED", { timeoutMs });
    await api.post(`${path}/resume`, {}, { key: tenant.key });
    await eventually(() => state.status === "ACTIVE", { timeoutMs });
    await api.patch(path, { name: "Another" }, { key: tenant.key });
    await eventually(() => state.name === "Another", { timeoutMs });
    await watcher.room.leave();
  });

  it("follows the board into a new period", async () => {
    const board = `xp-${randomUUID().slice(0, 8)}`;
    await api.post(
      "/api/v1/leaderboards",
      { key: board, name: "XP", metric: { source: "XP" } },
      { key: tenant.key },
    );
    const watcher = await join(api, players[0]!.token, "leaderboard", { leaderboardKey: board });
    await api.post(`/api/v1/leaderboards/${board}/pause`, {}, { key: tenant.key });
    await api.post(`/api/v1/leaderboards/${board}/resume`, {}, { key: tenant.key });
    await eventually(() => watcher.room.state.status === "ACTIVE");
    await api.post(`/api/v1/players/${players[0]!.playerId}/xp`, { amount: 77 }, { key: tenant.key });
    await eventually(
      () => topOf(watcher).some(([, playerId, score]) => playerId === players[0]!.playerId && score === 77),
      {
        timeoutMs: 7_000,
      },
    );
    await watcher.room.leave();
  });

  it("turns to the next window, and tells how the last one ended", async () => {
    const board = await aBoard();
    await seed(board, 2);
    const watcher = await join(api, players[1]!.token, "leaderboard", { leaderboardKey: board });
    await eventually(() => watcher.room.state.size === 2 && placesOf(watcher)[0]?.rank === 2);
    const first: string = watcher.room.state.periodKey;
    assert.deepEqual([first, watcher.room.state.endsAt, watcher.room.state.board], ["all-time", "", ""]);
    const reset = await api.post(
      `/api/v1/leaderboards/${board}/reset`,
      { reason: "test" },
      { key: tenant.key },
    );
    assert.ok(reset.status < 300, JSON.stringify(reset.body));
    const slowly = { timeoutMs: 60_000 };
    await eventually(() => watcher.room.state.periodKey !== first && watcher.room.state.size === 0, slowly);
    assert.deepEqual(placesOf(watcher), [{ rank: 0, score: 0, rows: [] }]);
    await eventually(() => watcher.named("leaderboard.closed").length === 1, slowly);
    const [closed] = watcher.named("leaderboard.closed");
    assert.partialDeepStrictEqual(closed!.data, { leaderboardKey: board, periodKey: first, participants: 2 });
    await submit(board, players[1]!.playerId, 7);
    await eventually(() => placesOf(watcher)[0]?.rank === 1 && watcher.room.state.size === 1);
    await watcher.room.leave();
  });

  it("has a player's own room told of their place, once a second at most, and the feed of it", async () => {
    const board = await aBoard();
    const [ann, bob] = [players[3]!, players[4]!];
    const own = await join(api, ann.token, "player");
    await eventually(() => own.named("state.snapshot").length === 1);
    await submit(board, ann.playerId, 10);
    const places = () => own.named("leaderboard.me").map(({ data, seq }) => [data.rank, data.score, seq]);
    await eventuallyHolds(() => assert.deepEqual(places().at(-1), [1, 10, undefined]));
    await submit(board, bob.playerId, 20);
    for (let score = 11; score <= 15; score++) await submit(board, ann.playerId, score);
    await eventuallyHolds(() => assert.deepEqual(places().at(-1), [2, 15, undefined]));
    assert.ok(places().length < 6, JSON.stringify(places()));
    const feed = await api.get(`/api/v1/leaderboards/${board}/feed`, { key: tenant.key });
    const lines = (
      feed.body.data as { type: string; data: Record<string, { externalUserId: string }> }[]
    ).map(({ type, data }) => [type, data["externalUserId"] ?? data["leader"]?.externalUserId]);
    assert.deepEqual(lines.slice(-2), [
      ["leaderboard.new_leader", ann.externalUserId],
      ["leaderboard.rank_changed", ann.externalUserId],
    ]);
    assert.ok(lines.some(([type, user]) => type === "leaderboard.new_leader" && user === bob.externalUserId));
    await own.room.leave();
  });
});
