import assert from "node:assert/strict";
import { matchMaker } from "@colyseus/core";
import type { Schema } from "@colyseus/schema";
import { aTenant, startApp, type Tenant, type TestApp } from "../support/app/app.ts";
import { eventually } from "../support/eventually.ts";
import { must } from "../support/http/client.ts";
import { aGuest, aLobby, drop } from "../support/lobbies/room.ts";
import { aPlayer, join } from "../support/rooms/sdk.ts";
import { pluck } from "../support/pluck.ts";

type Field = { name: string; type: unknown };

/** The scalars of a state and of its rows that have no value, and how many rows there are. */
const unsetIn = (state: Schema): { unset: string[]; rows: number } => {
  const fields = Object.values((state.constructor as unknown as Record<symbol, Field[]>)[Symbol.metadata]!);
  const found = { unset: [] as string[], rows: 0 };
  for (const { name, type } of fields) {
    const value = (state as unknown as Record<string, unknown>)[name];
    if (typeof type === "string") {
      if (value === undefined) found.unset.push(`${state.constructor.name}.${name}`);
      continue;
    }
    for (const row of (value as Map<string, Schema>).values()) {
      const { unset, rows } = unsetIn(row);
      found.unset.push(...unset);
      found.rows += rows + 1;
    }
  }
  return found;
};

describe("a client that comes back to a room", () => {
  let api: TestApp;
  let tenant: Tenant;
  before(async () => {
    api = await startApp();
    tenant = await aTenant(api);
  });

  it("finds a value for every field, since it keeps what it knew of those without", async () => {
    const { key } = tenant;
    const player = await aPlayer(api, key);
    const board = { key: "laps", name: "Laps", metric: { source: "CUSTOM" }, operator: "BEST" };
    must(await api.post("/api/v1/leaderboards", board, { key }), 201);
    const score = { playerId: player.playerId, score: 7 };
    must(await api.post("/api/v1/leaderboards/laps/scores", score, { key }), 200);
    must(await api.post("/api/v1/chat/channels", { key: "all", name: "All" }, { key }), 201);
    const host = await aLobby(api, tenant);
    const rooms = [
      host.room,
      (await join(api, player.token, "player")).room,
      (await join(api, player.token, "lobbies")).room,
      (await join(api, player.token, "leaderboard", { leaderboardKey: "laps", around: 1 })).room,
      (await join(api, player.token, "chat", { channelId: "all" })).room,
    ];
    const found = () =>
      rooms.map(({ roomId }) => unsetIn(matchMaker.getLocalRoomById(roomId).state as Schema));
    await eventually(() => found()[2]!.rows === 1 && found()[3]!.rows === 3);
    assert.deepEqual(
      pluck(found(), "rows", "unset"),
      [1, 0, 1, 3, 0].map((rows) => [rows, []]),
    );
    for (const room of rooms) await room.leave();
  });

  it("sees that a start was called off meanwhile", async () => {
    const host = await aLobby(api, tenant, { settings: { countdownSeconds: 60 } });
    const guest = await aGuest(api, tenant, host);
    for (const { room } of [host, guest]) await room.request("lobby.ready", { ready: true });
    await host.room.request("lobby.start", {});
    await eventually(() => guest.room.state.startsAt !== "");
    drop(tenant, guest);
    await host.room.request("lobby.cancel_start", {});
    let isBack = false;
    guest.room.onReconnect(() => (isBack = true));
    await eventually(() => isBack && guest.room.state.status === "OPEN");
    assert.equal(guest.room.state.startsAt, "");
    for (const { room } of [guest, host]) await room.leave();
  });
});
