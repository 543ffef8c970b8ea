import assert from "node:assert/strict";
import { randomUUID } from "node:crypto";
import type { App } from "../../src/app.ts";
import { PLAYER_SOCKETS_MAX } from "../../src/domain/kernel/limits.ts";
import { initializeRoomCache } from "@colyseus/core";
import { admitSocket, asOneJoin, Gate, maySpread } from "../../src/rooms/admission.ts";
import { gameRooms } from "../../src/rooms/game-server.ts";
import { startApp } from "../support/app/app.ts";

describe("a crowd whose rooms other processes hold", () => {
  const rooms = (name: string, clients: number, count = 1) =>
    Array.from({ length: count }, () => initializeRoomCache({ name, clients, metadata: {} }));

  let kinds: ReturnType<typeof gameRooms>;

  before(async () => {
    kinds = gameRooms((await startApp()).app);
  });

  it("gets a room here once it is one, unless it has many rooms or may have one only", async () => {
    assert.equal(await maySpread(kinds, rooms("chat", 24)), false);
    assert.equal(await maySpread(kinds, rooms("chat", 25)), true);
    assert.equal(await maySpread(kinds, rooms("leaderboard", 13, 2)), true);
    // Those who come with the first leave it to the first.
    assert.equal(await maySpread(kinds, rooms("leaderboard", 13, 2)), false);
    const ask = () => maySpread(kinds, rooms("lobbies", 25));
    const [first, second] = [1, 2].map(() => asOneJoin(async () => [await ask(), await ask()]));
    assert.deepEqual(
      [await first, await second],
      [
        [true, true],
        [false, false],
      ],
    );
    assert.equal(await maySpread(kinds, rooms("chat", 500, 16)), false);
    assert.equal(await maySpread(kinds, rooms("lobby", 500)), false);
    assert.equal(await maySpread(kinds, []), false);
  });
});

describe("joins that are under way", () => {
  it("are refused at once when the server stops, those let in and those that wait", async () => {
    const gate = new Gate({
      activeMax: { ofOwner: 1, ofProcess: 1 },
      workMaxMs: 2_000,
      waitingMax: 5,
      waitMaxMs: 2_000,
    });
    const join = () => gate.pass("tenant", () => new Promise<void>(() => undefined));
    const joins = [join(), join()];
    gate.close();
    for (const outcome of await Promise.allSettled([...joins, join()]))
      assert.match(String((outcome as PromiseRejectedResult).reason), /the server is stopping/);
  });
});

describe("sockets of one player", () => {
  it("are counted over all rooms, let in up to the limit, and counted out once", async () => {
    const { app } = await startApp();
    const player = randomUUID();
    const admit = () => admitSocket(app, player);
    const leaves = await Promise.all(Array.from({ length: PLAYER_SOCKETS_MAX }, admit));
    await assert.rejects(admit(), { reason: "TOO_MANY_SOCKETS" });
    await admitSocket(app, randomUUID());
    leaves[0]!();
    leaves[0]!();
    const again = await admit();
    await assert.rejects(admit(), { reason: "TOO_MANY_SOCKETS" });
    for (const leave of [again, ...leaves]) leave();
  });

  it("are let in when they cannot be counted", async () => {
    const { app } = await startApp();
    const countSockets = () => Promise.reject(new Error("Connection is closed."));
    const away = { ...app, peers: { countSockets } } as unknown as App;
    (await admitSocket(away, randomUUID()))();
  });
});
