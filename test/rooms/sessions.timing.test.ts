import assert from "node:assert/strict";
import { once } from "node:events";
import { ClientState } from "@colyseus/core";
import { WebSocket } from "ws";
import { aTenant, startApp, type Tenant, type TestApp } from "../support/app/app.ts";
import { eventually } from "../support/eventually.ts";
import {
  anOldToken,
  aPlayer,
  grantXp,
  heardUpTo,
  join,
  matchmake,
  type Player,
  seqs,
  serverRoom,
} from "../support/rooms/sdk.ts";

/** First bytes of the frames a client may send. */
const FRAME = { join: 10, error: 11, data: 13, ping: 18 } as const;
/** Of a room's seats, where a test waits for them. */
const SEAT_SECONDS = 2;

describe("sessions of rooms", () => {
  let api: TestApp;
  let tenant: Tenant;
  before(async () => {
    api = await startApp();
    tenant = await aTenant(api);
  });

  /** A bare socket in a room, past the handshake. */
  const aSocket = async ({ token }: Player): Promise<{ socket: WebSocket; closed: Promise<number> }> => {
    const { body: seat } = await matchmake(api, "joinOrCreate/player", { token });
    const url = `ws://127.0.0.1:${api.port}/${seat.processId}/${seat.roomId}?sessionId=${seat.sessionId}`;
    const socket = new WebSocket(url);
    const closed = new Promise<number>((resolve) => socket.once("close", resolve));
    await new Promise((resolve) => socket.once("message", resolve));
    socket.send(Buffer.of(FRAME.join));
    return { socket, closed };
  };

  it("that took long to begin give their clients as long as others to acknowledge that", async () => {
    const player = await aPlayer(api, tenant.key);
    await join(api, player.token, "player");
    const room = serverRoom(tenant.projectId, player.playerId);
    room.seatReservationTimeout = SEAT_SECONDS;
    const { body: seat } = await matchmake(api, "joinOrCreate/player", { token: player.token });
    const later = (ms: number) => {
      const endMs = performance.now() + ms;
      return eventually(() => performance.now() > endMs, { timeoutMs: 2 * ms });
    };
    // What the room shows its client is read meanwhile.
    const busy = api.app.transact(() => later(1.1 * SEAT_SECONDS * 1_000));
    const socket = new WebSocket(
      `ws://127.0.0.1:${api.port}/${seat.processId}/${seat.roomId}?sessionId=${seat.sessionId}`,
    );
    const told = once(socket, "message");
    await busy;
    await told;
    // Sessions are looked at every second.
    await later(1_200);
    assert.equal(socket.readyState, WebSocket.OPEN);
    socket.send(Buffer.of(FRAME.join));
    await eventually(() => room.clients.getById(seat.sessionId)?.state === ClientState.JOINED);
    socket.close();
  });

  it("go to a client that comes back over another network before its old socket is missed", async () => {
    const player = await aPlayer(api, tenant.key);
    const old = await aSocket(player);
    const room = serverRoom(tenant.projectId, player.playerId);
    // Less than the heartbeat takes to miss anybody.
    room.seatReservationTimeout = 2 * SEAT_SECONDS;
    const comeBack = async (): Promise<number> => {
      const [client] = room.clients as unknown as { sessionId: string; reconnectionToken: string }[];
      const { sessionId, reconnectionToken } = client!;
      const query = new URLSearchParams({ sessionId, reconnectionToken }).toString();
      const socket = new WebSocket(`ws://127.0.0.1:${api.port}/x/${room.roomId}?${query}`);
      const [first] = (await once(socket, "message")) as [Buffer];
      return first[0]!;
    };
    await eventually(() => room.clients[0]?.state === ClientState.JOINED);
    assert.equal(await comeBack(), FRAME.error, "a socket that answers keeps its seat");
    assert.equal(old.socket.readyState, WebSocket.OPEN);
    old.socket.pause();
    assert.equal(await comeBack(), FRAME.join);
  });

  describe("a token", () => {
    it("that is about to end is announced, and its end closes the session", async () => {
      const { playerId } = await aPlayer(api, tenant.key);
      const me = await join(api, await anOldToken(api, tenant, playerId, 897), "player");
      await eventually(() => me.left !== undefined);
      assert.equal(me.named("session.expiring").length, 1);
      assert.deepEqual(me.named("session.closed")[0]?.data, { reason: "EXPIRED" });
      assert.deepEqual(me.left, { code: 4401, reason: "EXPIRED" });
    });

    it("is renewed on the socket, for the same player only", async () => {
      const [player, other] = [await aPlayer(api, tenant.key), await aPlayer(api, tenant.key)];
      const me = await join(api, await anOldToken(api, tenant, player.playerId, 898), "player");
      const endsMs = Date.now() + 2_000;
      await assert.rejects(me.room.request("session.renew", { token: other.token }), {
        reason: {
          code: "FORBIDDEN",
          reason: "OTHER_PLAYER",
          message: "the token belongs to another player: use one of the same player",
          details: [],
        },
      });
      await assert.rejects(
        me.room.request("session.renew", { token: "x" }),
        (error: { reason?: { code?: string } }) => {
          return error.reason?.code === "UNAUTHORIZED";
        },
      );
      await assert.rejects(me.room.request("session.renew", {}), (error: { reason?: { code?: string } }) => {
        return error.reason?.code === "VALIDATION_ERROR";
      });
      const { expiresAt } = await me.room.request("session.renew", { token: player.token });
      assert.ok(Date.parse(expiresAt) > Date.now() + 800_000);
      // Sessions are looked at every second.
      await eventually(() => Date.now() > endsMs + 1_200);
      assert.equal(me.left, undefined);
      await me.room.leave();
    });
  });

  describe("a client that misbehaves", () => {
    it("is closed for a message beyond 16 KiB", async () => {
      const { socket, closed } = await aSocket(await aPlayer(api, tenant.key));
      socket.send(Buffer.alloc(16 * 1024 + 1, FRAME.data));
      assert.equal(await closed, 1009);
    });

    it("is closed for more than 20 messages a second", async () => {
      const player = await aPlayer(api, tenant.key);
      const me = await join(api, player.token, "player");
      const { socket, closed } = await aSocket(player);
      for (let i = 0; i < 200; i++) socket.send(Buffer.of(FRAME.ping));
      assert.equal(await closed, 4002);
      await grantXp(api, tenant.key, player.playerId);
      await heardUpTo(me, 2);
      await me.room.leave();
    });

    it("is not closed for 15 in each second, however seldom the room's clock ticks", async () => {
      const player = await aPlayer(api, tenant.key);
      const { socket, closed } = await aSocket(player);
      const room = await eventually(() => serverRoom(tenant.projectId, player.playerId));
      room.patchRate = 60_000;
      let answers = 0;
      socket.on("message", (frame: Buffer) => void (answers += frame[0] === FRAME.ping ? 1 : 0));
      const ping = async (): Promise<true> => {
        for (let second = 1; second <= 3; second++) {
          for (let i = 0; i < 15; i++) socket.send(Buffer.of(FRAME.ping));
          await eventually(() => answers === 15 * second, { timeoutMs: 60_000 });
          // The server has counted them by now, however late it was.
          const countedMs = performance.now();
          await eventually(() => performance.now() - countedMs > 1_100);
        }
        return true;
      };
      assert.equal(await Promise.race([ping(), closed]), true);
      socket.close();
    });
  });

  it("throwing handlers, timers and hooks end neither room nor process", async () => {
    const player = await aPlayer(api, tenant.key);
    const me = await join(api, player.token, "player");
    const room = serverRoom(tenant.projectId, player.playerId);
    const boom = (): never => {
      throw new Error("boom");
    };
    let timers = 0;
    room.onMessage("boom", boom);
    const lateBoom = (): unknown => Promise.resolve().then(boom);
    room.onMessage("late boom", lateBoom);
    room.clock.setTimeout(() => {
      timers++;
      boom();
    }, 1);
    room["later"](1, async () => {
      timers++;
      boom();
    });
    me.room.send("boom");
    me.room.send("late boom");
    await eventually(() => timers === 2);
    // Core runs a timer that has thrown again at every tick, unless the room takes what it throws.
    for (let i = 0; i < 2; i++) room.clock.tick();
    assert.equal(timers, 2);
    await grantXp(api, tenant.key, player.playerId);
    await heardUpTo(me, 2);
    assert.deepEqual(seqs(me), [2]);
    await me.room.leave();
  });
});
