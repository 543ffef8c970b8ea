import assert from "node:assert/strict";
import { Client } from "@colyseus/sdk";
import { aTenant, startApp, type Tenant, type TestApp } from "../support/app/app.ts";
import { eventually } from "../support/eventually.ts";
import {
  anOldToken,
  aPlayer,
  cutOff,
  grantXp,
  heardUpTo,
  join,
  type Listener,
  matchmake,
  serverRoom,
} from "../support/rooms/sdk.ts";

describe("taking up a session that was lost", () => {
  let api: TestApp;
  let tenant: Tenant;
  let stranger: Tenant;
  before(async () => {
    api = await startApp();
    [tenant, stranger] = [await aTenant(api), await aTenant(api)];
  });

  /** What `POST /matchmake/reconnect` answers to somebody who knows all that the SDK keeps. */
  const reconnect = async (
    { room }: Listener,
    token?: string,
  ): Promise<{ status: number; reason?: string }> => {
    const [roomId, reconnectionToken] = room.reconnectionToken.split(":");
    const given = { body: { reconnectionToken }, ...(token === undefined ? {} : { token }) };
    const { status, body } = await matchmake(api, `reconnect/${roomId}`, given);
    return { status, reason: body.error?.reason ?? body.error?.code };
  };

  /** All who have the reconnection token, but no token of the player. */
  const refusals = async (me: Listener, playerId: string): Promise<unknown[]> => {
    const [other, foreign] = [await aPlayer(api, tenant.key), await aPlayer(api, stranger.key)];
    return [
      await reconnect(me),
      await reconnect(me, "x"),
      await reconnect(me, await anOldToken(api, tenant, playerId, 1_000)),
      await reconnect(me, other.token),
      await reconnect(me, foreign.token),
    ];
  };

  const REFUSED = [
    { status: 401, reason: "TOKEN_MISSING" },
    { status: 401, reason: "TOKEN_INVALID" },
    { status: 401, reason: "TOKEN_EXPIRED" },
    { status: 410, reason: "GONE" },
    { status: 410, reason: "GONE" },
  ];

  it("takes a token of its player beside the reconnection token, which the SDK sends", async () => {
    const { token, playerId } = await aPlayer(api, tenant.key);
    const me = await join(api, token, "player");
    me.room.reconnection.enabled = false;
    await eventually(() => me.heard.length === 2);
    cutOff(tenant.projectId, playerId, me.room.sessionId);
    await eventually(() => me.left !== undefined);
    assert.deepEqual(await refusals(me, playerId), REFUSED);
    const client = new Client(api.url);
    client.auth.token = token;
    const room = await client.reconnect(me.room.reconnectionToken);
    assert.equal(room.sessionId, me.room.sessionId);
    await room.leave();
  });

  it("leaves a session alone that is still there, unless its player asks", async () => {
    const { token, playerId } = await aPlayer(api, tenant.key);
    const me = await join(api, token, "player");
    await eventually(() => me.heard.length === 2);
    assert.deepEqual(await refusals(me, playerId), REFUSED);
    await grantXp(api, tenant.key, playerId);
    await heardUpTo(me, 2);
    assert.equal(serverRoom(tenant.projectId, playerId).clients.length, 1);
    assert.equal(me.left, undefined);
    me.room.reconnection.enabled = false;
    assert.deepEqual(await reconnect(me, token), { status: 200, reason: undefined });
    await eventually(() => me.left !== undefined);
  });
});
