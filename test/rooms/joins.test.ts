import assert from "node:assert/strict";
import { once } from "node:events";
import { CloseCode, Protocol } from "@colyseus/core";
import { WebSocket } from "ws";
import { newId } from "../../src/domain/kernel/ids.ts";
import { Player } from "../../src/domain/players/player.ts";
import { LIMITS } from "../../src/domain/accounts/rate-limits/limiter.ts";
import { OLD_SDK } from "../../src/rooms/sockets.ts";
import { tickAll } from "../../src/rooms/pace.ts";
import { aTenant, startApp, type Tenant, type TestApp } from "../support/app/app.ts";
import { eventually } from "../support/eventually.ts";
import { limitOf } from "../support/http/limit-headers.ts";
import { anOldToken, aPlayer, join, matchmake } from "../support/rooms/sdk.ts";

/** Much longer than a socket that is refused takes to be closed. */
const CLOSE_MAX_MS = 20_000;

describe("a join of a room", () => {
  let api: TestApp;
  let tenant: Tenant;
  before(async () => {
    api = await startApp();
    tenant = await aTenant(api);
  });

  const status = async (
    path: string,
    request: Parameters<typeof matchmake>[2],
  ): Promise<[number, string, string]> => {
    const answer = await matchmake(api, path, request);
    return [answer.status, answer.body.error?.code, answer.body.error?.reason];
  };

  it("is refused 401 without a token, with a wrong one and with one of another kind", async () => {
    const { token } = await aPlayer(api, tenant.key);
    assert.deepEqual(await status("joinOrCreate/player", {}), [401, "UNAUTHORIZED", "TOKEN_MISSING"]);
    const refused = [401, "UNAUTHORIZED", "TOKEN_INVALID"];
    assert.deepEqual(await status("joinOrCreate/player", { token: "x.y.z" }), refused);
    assert.deepEqual(await status("joinOrCreate/player", { token: `${token.slice(0, -3)}AAA` }), refused);
    assert.deepEqual(await status("joinOrCreate/player", { token: tenant.token }), refused);
    assert.deepEqual(await status("joinOrCreate/leaderboard", { token: tenant.key }), refused);
  });

  it("is refused 401 with a token that has ended", async () => {
    const { playerId } = await aPlayer(api, tenant.key);
    const token = await anOldToken(api, tenant, playerId, 910);
    assert.deepEqual(await status("joinOrCreate/player", { token }), [401, "UNAUTHORIZED", "TOKEN_EXPIRED"]);
  });

  it("has the error body of every other operation, and the SDK shows its reason and message", async () => {
    const { body } = await matchmake(api, "joinOrCreate/player");
    assert.deepEqual(Object.keys(body.error).toSorted(), [
      "code",
      "details",
      "message",
      "reason",
      "requestId",
      "timestamp",
    ]);
    await assert.rejects(join(api, "x", "player"), {
      code: 401,
      message: /^TOKEN_INVALID: The WebSocket token is not valid/,
    });
  });

  it("enters the room of the token, whatever the options name", async () => {
    const [me, other] = [await aPlayer(api, tenant.key), await aPlayer(api, tenant.key)];
    const options = { playerId: other.playerId, projectId: newId(), sessionId: "x", roomId: "y" };
    const joined = await join(api, me.token, "player", options);
    await eventually(() => joined.room.state.playerId === me.playerId);
    await joined.room.leave();
  });

  it("is refused 404 for a player who is gone, a room or a method that is not there", async () => {
    const { token } = await aPlayer(api, tenant.key);
    const gone = await anOldToken(api, tenant, newId(), 0);
    assert.deepEqual((await status("joinOrCreate/player", { token: gone })).slice(0, 2), [404, "NOT_FOUND"]);
    assert.deepEqual((await status("joinOrCreate/lobby-of-doom", { token })).slice(0, 2), [404, "NOT_FOUND"]);
    for (const method of ["create", "join", "joinById", "setup", "constructor"]) {
      assert.deepEqual((await status(`${method}/player`, { token })).slice(0, 2), [404, "NOT_FOUND"], method);
    }
  });

  it("is refused 400 for options that are not valid, naming the field", async () => {
    const { token } = await aPlayer(api, tenant.key);
    const bad = await matchmake(api, "joinOrCreate/player", { token, body: { lastSeq: -1 } });
    assert.equal(bad.status, 400);
    assert.equal(bad.body.error.details[0].field, "lastSeq");
    for (const body of ["[]", "null", "3", "{", '"x"']) {
      assert.equal((await matchmake(api, "joinOrCreate/player", { token, body })).status, 400, body);
    }
    const hostile = '{"__proto__":{"x":1},"hasOwnProperty":1,"constructor":2}';
    assert.equal((await matchmake(api, "joinOrCreate/player", { token, body: hostile })).status, 200);
  });

  it("is refused 429 when a player joins again and again, and says when to come back", async () => {
    const { token } = await aPlayer(api, tenant.key);
    const answers: Awaited<ReturnType<typeof matchmake>>[] = [];
    const startedMs = Date.now();
    for (let i = 0; i < 45; i++) answers.push(await matchmake(api, "joinOrCreate/player", { token }));
    const refused = answers.find((answer) => answer.status === 429);
    assert.ok(refused, "45 joins");
    assert.ok(Number(refused.headers.get("retry-after")) >= 1);
    assert.equal(refused.body.error.reason, "JOIN_RATE");
    assert.equal(refused.headers.get("x-request-id"), refused.body.error.requestId);
    const { limit, remaining, reset } = limitOf(refused)!;
    assert.deepEqual([limit, remaining], [LIMITS.joins.points, 0]);
    assert.ok(Number.isInteger(reset) && reset * 1_000 > startedMs - LIMITS.joins.seconds * 1_000);
  });

  it("leads an SDK before 0.17 to a socket that says which version is needed", async () => {
    const { token } = await aPlayer(api, tenant.key);
    const { body } = await matchmake(api, "joinOrCreate/player", { token });
    const { processId, roomId } = body.room;
    const socket = new WebSocket(`${api.url.replace("http", "ws")}/${processId}/${roomId}?sessionId=x`);
    const frames: Buffer[] = [];
    socket.on("message", (frame: Buffer) => void frames.push(frame));
    const [code, reason] = (await once(socket, "close")) as [number, Buffer];
    assert.deepEqual([code, reason.toString()], [4002, OLD_SDK]);
    assert.ok(frames[0]!.includes(OLD_SDK));
  });

  it("needs the seat that it was given: a socket without one is told so and closed", async () => {
    const { token } = await aPlayer(api, tenant.key);
    const { body } = await matchmake(api, "joinOrCreate/player", { token });
    const address = `${api.url.replace("http", "ws")}/${body.processId}/${body.roomId}?sessionId=`;
    const seated = new WebSocket(`${address}${body.sessionId}`);
    await once(seated, "message");
    for (const [sessionId, closeCode] of [
      ["x", CloseCode.WITH_ERROR],
      [body.sessionId, CloseCode.WITH_ERROR],
      ["x&reconnectionToken=y", CloseCode.FAILED_TO_RECONNECT],
    ]) {
      const socket = new WebSocket(`${address}${sessionId}`);
      const frames: Buffer[] = [];
      socket.on("message", (frame: Buffer) => void frames.push(frame));
      const [code] = (await once(socket, "close", { signal: AbortSignal.timeout(CLOSE_MAX_MS) })) as [number];
      assert.equal(code, closeCode, sessionId);
      assert.equal(frames[0]?.[0], Protocol.ERROR, sessionId);
    }
    assert.equal(seated.readyState, WebSocket.OPEN);
    seated.close();
  });

  it("is refused for a banned player, and a ban ends the session", async () => {
    const { token, playerId } = await aPlayer(api, tenant.key);
    const me = await join(api, token, "player");
    await api.app.transact(async (work) => {
      await work.em.nativeUpdate(Player, { projectId: tenant.projectId, id: playerId }, { status: "BANNED" });
    });
    tickAll();
    await eventually(() => me.left !== undefined);
    assert.deepEqual(me.left, { code: 4403, reason: "BANNED" });
    await assert.rejects(join(api, token, "player"), {
      code: 403,
      message: "PLAYER_BANNED: the player is banned",
    });
  });
});
