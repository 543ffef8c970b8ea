import assert from "node:assert/strict";
import { aTenant, startApp } from "../support/app/app.ts";
import { eventuallyHolds } from "../support/eventually.ts";
import { must } from "../support/http/client.ts";
import { aPlayer, join, type Player } from "../support/rooms/sdk.ts";

type Row = { rank: number; playerId: string; score: number };

describe("room leaderboard, after a revert,", () => {
  it("no longer shows a player whose only score was reverted", async () => {
    const api = await startApp();
    const tenant = await aTenant(api);
    const key = "won";
    const metric = { source: "EVENT", event: { eventTypes: [key] }, aggregate: "sum", property: "score" };
    const by = { key: tenant.key };
    must(await api.post("/api/v1/leaderboards", { key, name: "Board", metric }, by), 201);
    const [winner, second] = [await aPlayer(api, tenant.key), await aPlayer(api, tenant.key)];
    const won = async ({ externalUserId }: Player, score: number): Promise<string> => {
      const event = { externalUserId, eventType: key, properties: { score } };
      return must(await api.post("/api/v1/events?wait=true", event, by), 200).eventId;
    };
    const eventId = await won(winner, 70);
    await won(second, 30);
    const watcher = await join(api, winner.token, "leaderboard", { leaderboardKey: key });
    const { state } = watcher.room;
    const topOf = () => [...(state.top as Row[])].map(({ rank, playerId, score }) => [rank, playerId, score]);
    const ranksOf = () => [...(state.me?.values() ?? [])].map(({ rank }: { rank: number }) => rank);
    await eventuallyHolds(() =>
      assert.deepEqual(topOf(), [
        [1, winner.playerId, 70],
        [2, second.playerId, 30],
      ]),
    );
    must(await api.post(`/api/v1/events/${eventId}/revert`, { reason: "a test" }, by), 200);
    await eventuallyHolds(() => {
      assert.deepEqual(topOf(), [[1, second.playerId, 30]]);
      assert.equal(state.size, 1);
      assert.deepEqual(ranksOf(), [0]);
    });
    const place = await api.get(`/api/v1/leaderboards/${key}/players/${winner.playerId}`, by);
    assert.equal(place.status, 404);
    await watcher.room.leave();
  });
});
