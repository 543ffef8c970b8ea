import assert from "node:assert/strict";
import type { Server } from "@colyseus/core";
import type { ColyseusTestServer } from "@colyseus/testing";
import { LeaderboardState, syncRows } from "../../src/rooms/leaderboard-room.ts";
import { aTenant, startApp, type TestApp } from "../support/app/app.ts";
import { must } from "../support/http/client.ts";
import { eventuallyHolds } from "../support/eventually.ts";
import { aPlayer, range } from "../support/rooms/sdk.ts";
import { pluck } from "../support/pluck.ts";

/**
 * Colyseus's own view of a running server: its rooms and an SDK. What its packages load on the way listens
 * for unhandled rejections and would hide ours, so those listeners are taken off again.
 */
const colyseusOf = async ({ port }: TestApp): Promise<ColyseusTestServer> => {
  const ours = new Set(process.listeners("unhandledRejection"));
  const testing = await import("@colyseus/testing");
  for (const listener of process.listeners("unhandledRejection")) {
    if (!ours.has(listener)) process.off("unhandledRejection", listener);
  }
  // All that it reads of a server is the port: rooms it finds in the process.
  return new testing.ColyseusTestServer({ port } as unknown as Server);
};

describe("patches of a leaderboard", () => {
  it("give each session of a player the neighbours that it has asked for, once", async () => {
    const api = await startApp();
    const { key } = await aTenant(api);
    const colyseus = await colyseusOf(api);
    const board = {
      key: "laps",
      name: "Laps",
      metric: { source: "CUSTOM" },
      operator: "BEST",
      scoreDecimals: 2,
    };
    must(await api.post("/api/v1/leaderboards", board, { key }), 201);
    const players = await Promise.all(range(1, 6).map(() => aPlayer(api, key)));
    for (const [i, { playerId }] of players.entries())
      must(await api.post("/api/v1/leaderboards/laps/scores", { playerId, score: 99.99 - i }, { key }), 200);
    const third = players[2]!;
    colyseus.sdk.auth.token = third.token;
    const join = (around: number) =>
      colyseus.sdk.joinOrCreate("leaderboard", { leaderboardKey: "laps", around });
    const clients = [await join(1), await join(3), await join(5)];
    const room = colyseus.getRoomById<LeaderboardState>(clients[0]!.roomId);
    const expected = [range(3, 3), range(2, 4), range(1, 5)].map((ranks) =>
      ranks.map((rank) => ({ rank, score: Math.round((99.99 - rank + 1) * 100) / 100 })),
    );
    const seen = () =>
      clients.map(({ state, sessionId }) => {
        const own = (state as LeaderboardState).me.get(sessionId);
        return [...(own?.rows ?? [])].map(({ rank, score }) => ({ rank, score }));
      });
    await eventuallyHolds(() => {
      room.broadcastPatch();
      assert.deepEqual(seen(), expected);
    });
    const { playerId } = players[5]!;
    must(await api.post("/api/v1/leaderboards/laps/scores", { playerId, score: 95 }, { key }), 200);
    room.broadcastPatch();
    assert.deepEqual(seen(), expected);
    for (const client of clients) await client.leave();
  });
});

describe("the rows of a board", () => {
  const line = (rank: number) => ({
    rank,
    playerId: `id-${rank}`,
    externalUserId: `user-${rank}`,
    displayName: `Player ${rank}`,
    score: 100 - rank,
  });

  it("say whether there is anything to send: more rows, fewer or other ones, and not the same again", () => {
    const { top: rows } = new LeaderboardState();
    const lines = [1, 2, 3].map(line);
    assert.deepEqual(
      [lines, lines, lines.slice(0, 2), lines, lines.with(1, { ...line(2), score: 0 })].map((shown) =>
        syncRows(rows, shown),
      ),
      [true, false, true, true, true],
    );
    assert.deepEqual(pluck(rows, "score"), [99, 0, 97]);
  });
});
