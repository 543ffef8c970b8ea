import assert from "node:assert/strict";
import { LeaderboardState, syncRows } from "../../src/rooms/leaderboard-state.ts";
import { aTenant, startApp } from "../support/app/app.ts";
import { must } from "../support/http/client.ts";
import { colyseusOf } from "../support/rooms/colyseus-testing.ts";
import { eventuallyHolds } from "../support/eventually.ts";
import { aPlayer, range } from "../support/rooms/sdk.ts";

describe("patches of a leaderboard", () => {
  it("leave every client with exactly the state that the room holds", async () => {
    const api = await startApp();
    const { key } = await aTenant(api);
    const colyseus = await colyseusOf(api);
    const board = { key: "board", name: "Board", metric: { source: "CUSTOM" }, operator: "BEST" };
    must(await api.post("/api/v1/leaderboards", board, { key }), 201);
    const players = await Promise.all(range(1, 6).map(() => aPlayer(api, key)));

    colyseus.sdk.auth.token = players[0]!.token;
    const client = await colyseus.sdk.joinOrCreate("leaderboard", { leaderboardKey: "board" });
    const { state } = colyseus.getRoomById<LeaderboardState>(client.roomId);
    for (const [i, { playerId }] of players.entries()) {
      must(await api.post("/api/v1/leaderboards/board/scores", { playerId, score: i * 10 }, { key }), 200);
    }
    await eventuallyHolds(() => {
      assert.equal(state.top.length, players.length);
      // The rows as data: the client's own classes are made from the handshake.
      assert.deepEqual((client.state as LeaderboardState).top.toJSON(), state.top.toJSON());
    });
    await client.leave();
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
    assert.deepEqual(
      rows.map(({ score }) => score),
      [99, 0, 97],
    );
  });
});
