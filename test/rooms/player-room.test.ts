import assert from "node:assert/strict";
import { sql } from "kysely";
import type { WebSocket } from "ws";
import { STREAM_BYTES } from "../../src/domain/delivery/outbox/stream.ts";
import { getPlayer, grantPlayerXp } from "../../src/domain/progression/players/players.ts";
import { aTenant, startApp, type Tenant, type TestApp } from "../support/app/app.ts";
import { eventually } from "../support/eventually.ts";
import {
  aPlayer,
  cutOff,
  grantXp,
  heardUpTo,
  join,
  type Listener,
  range,
  seqs,
  serverRoom,
} from "../support/rooms/sdk.ts";
import { pluck } from "../support/pluck.ts";

describe("room player", () => {
  let api: TestApp;
  let tenant: Tenant;
  before(async () => {
    api = await startApp();
    tenant = await aTenant(api);
  });

  it("greets with the session, then the whole state", async () => {
    const { token, playerId, externalUserId } = await aPlayer(api, tenant.key);
    const me = await join(api, token, "player");
    await eventually(() => me.heard.length >= 2);
    const [ready, snapshot] = me.heard;
    assert.equal(ready?.name, "session.ready");
    assert.equal(ready?.v, 1);
    assert.equal(ready?.seq, undefined);
    const { expiresAt, ...session } = ready.data;
    assert.ok(Date.parse(expiresAt) > Date.now() + 800_000);
    assert.deepEqual(session, {
      projectId: tenant.projectId,
      playerId,
      sessionId: me.room.sessionId,
      seq: 1,
      resumed: false,
      heartbeatSeconds: 5,
    });
    assert.equal(snapshot?.name, "state.snapshot");
    assert.equal(snapshot?.data.reason, "CONNECT");
    assert.equal(snapshot?.data.seq, 1);
    assert.equal(snapshot?.data.player.externalUserId, externalUserId);
    await eventually(() => me.room.state.externalUserId === externalUserId);
    await me.room.leave();
  });

  it("tells every change once and in order, to each session", async () => {
    const { token, playerId } = await aPlayer(api, tenant.key);
    const [one, two] = [await join(api, token, "player"), await join(api, token, "player")];
    await Promise.all(range(1, 12).map(() => grantXp(api, tenant.key, playerId, 20)));
    const { body: player } = await api.get(`/api/v1/players/${playerId}`, { key: tenant.key });
    for (const session of [one, two]) {
      await heardUpTo(session, player.seq);
      assert.deepEqual(seqs(session), range(2, player.seq));
      const grants = session.named("player.xp");
      assert.deepEqual(
        grants.map(({ data }) => data.xp),
        range(1, 12).map((n) => n * 20),
      );
      assert.equal(grants.at(-1)?.data.levelProgress.level, player.level);
      assert.equal(grants[0]?.data.amount, 20);
      assert.equal(grants[0]?.data.cause.kind, "API");
      const [levelUp] = session.named("player.level_up");
      const { externalUserId } = player;
      const risen = { playerId, externalUserId, previousLevel: 1, newLevel: 2, xp: 100, rewards: null };
      assert.deepEqual(levelUp?.data, risen);
      await eventually(
        () => session.room.state.xp === player.xp && session.room.state.level === player.level,
      );
      assert.equal(session.room.state.seq, player.seq);
      await session.room.leave();
    }
  });

  it("tells of a changed profile", async () => {
    const { token, playerId } = await aPlayer(api, tenant.key);
    const me = await join(api, token, "player");
    await api.patch(`/api/v1/players/${playerId}`, { displayName: "Ada" }, { key: tenant.key });
    const [updated] = await eventually(
      () => me.named("player.updated").length > 0 && me.named("player.updated"),
    );
    assert.deepEqual(updated?.data, { changed: ["displayName"], player: { displayName: "Ada" } });
    await eventually(() => me.room.state.displayName === "Ada");
    await me.room.leave();
  });

  it("resumes with exactly the lines that were missed", async () => {
    const { token, playerId } = await aPlayer(api, tenant.key);
    for (let i = 0; i < 3; i++) await grantXp(api, tenant.key, playerId, 10);
    const first = await join(api, token, "player", { lastSeq: 2 });
    await heardUpTo(first, 4);
    assert.deepEqual(pluck(first.heard, "name"), ["session.ready", "player.xp", "player.xp"]);
    assert.equal(first.heard[0]?.data.resumed, true);
    assert.deepEqual(seqs(first), [3, 4]);
    await first.room.leave();
    await grantXp(api, tenant.key, playerId, 10);
    const again = await join(api, token, "player", { lastSeq: 4 });
    await heardUpTo(again, 5);
    await grantXp(api, tenant.key, playerId, 10);
    await heardUpTo(again, 6);
    assert.deepEqual(seqs(again), [5, 6]);
    await again.room.leave();
  });

  it("sends the whole state to a client that knows more than there is", async () => {
    const { token } = await aPlayer(api, tenant.key);
    const me = await join(api, token, "player", { lastSeq: 99 });
    const [snapshot] = await eventually(
      () => me.named("state.snapshot").length > 0 && me.named("state.snapshot"),
    );
    assert.equal(snapshot?.data.reason, "GAP");
    assert.equal(me.named("session.ready")[0]?.data.resumed, false);
    await me.room.leave();
  });

  it("sends the whole state to a client that has missed more bytes than are told line by line", async () => {
    const { token, playerId } = await aPlayer(api, tenant.key);
    await grantXp(api, tenant.key, playerId);
    const fatten = (bytes: number) =>
      api.sql`
        update outbox set bytes = null,
          data = data || jsonb_build_object('externalUserId', repeat('x', ${bytes}::int))
        where project_id = ${tenant.projectId} and player_id = ${playerId}`;
    await fatten(STREAM_BYTES / 4);
    const first = await join(api, token, "player", { lastSeq: 0 });
    await heardUpTo(first, 2);
    assert.deepEqual(seqs(first), [1, 2]);
    await first.room.leave();
    await fatten(STREAM_BYTES / 2);
    const again = await join(api, token, "player", { lastSeq: 0 });
    const [snapshot] = await eventually(
      () => again.named("state.snapshot").length > 0 && again.named("state.snapshot"),
    );
    assert.equal(snapshot?.data.reason, "GAP");
    await again.room.leave();
  });

  it("brings a client up to date that asks for it", async () => {
    const { token, playerId } = await aPlayer(api, tenant.key);
    const me = await join(api, token, "player");
    await grantXp(api, tenant.key, playerId);
    await heardUpTo(me, 2);
    const answer = await me.room.request("session.resync", { lastSeq: 1 });
    assert.deepEqual(answer, { seq: 2, resumed: true });
    assert.deepEqual(seqs(me), [2, 2]);
    await grantXp(api, tenant.key, playerId);
    await heardUpTo(me, 3);
    assert.deepEqual(seqs(me), [2, 2, 3]);
    await me.room.leave();
  });

  it("keeps the seat of a dropped connection and tells what was missed", async () => {
    const { token, playerId } = await aPlayer(api, tenant.key);
    const me = await join(api, token, "player");
    await eventually(() => me.heard.length === 2);
    me.room.reconnection.minUptime = 0;
    cutOff(tenant.projectId, playerId, me.room.sessionId);
    await grantXp(api, tenant.key, playerId);
    await heardUpTo(me, 2);
    await grantXp(api, tenant.key, playerId);
    await heardUpTo(me, 3);
    assert.deepEqual(seqs(me), [2, 3]);
    assert.equal(me.named("session.ready").at(-1)?.data.resumed, true);
    assert.equal(me.left, undefined);
    await me.room.leave();
  });

  it("keeps the seat of a browser that was offline, also when its close comes after its return", async () => {
    const { token, playerId } = await aPlayer(api, tenant.key);
    const me = await join(api, token, "player");
    await eventually(() => me.heard.length === 2);
    me.room.reconnection.minUptime = 0;
    const room = serverRoom(tenant.projectId, playerId);
    for (const isLate of [false, true]) {
      const socket = room.clients.get(me.room.sessionId)!.ref as WebSocket;
      if (isLate) socket.pause();
      me.room.connection.close(4010);
      if (isLate) {
        await eventually(() => Object.keys(room["_reconnectionAttempts"]).length > 0);
        socket.resume();
      }
      await eventually(() => me.named("session.ready").length === (isLate ? 3 : 2));
      assert.equal(me.named("session.ready").at(-1)?.data.resumed, true);
    }
    assert.equal(me.left, undefined);
    await me.room.leave();
  });

  it("shows within 5 s what was committed although no word of it came", async () => {
    const { token, playerId } = await aPlayer(api, tenant.key);
    const me = await join(api, token, "player");
    await grantSilently(playerId, 30);
    await eventually(() => me.room.state.xp === 30);
    assert.deepEqual(seqs(me), [2]);
    await me.room.leave();
  });

  it("ends the oldest of more than five sessions", async () => {
    const { token } = await aPlayer(api, tenant.key);
    const sessions: Listener[] = [];
    for (let i = 0; i < 6; i++) sessions.push(await join(api, token, "player"));
    await eventually(() => sessions[0]?.left !== undefined);
    assert.deepEqual(sessions[0]?.named("session.closed")[0]?.data, { reason: "REPLACED" });
    assert.deepEqual(sessions[0]?.left, { code: 4000, reason: "REPLACED" });
    assert.equal(new Set(sessions.map(({ room }) => room.roomId)).size, 1);
    for (const { left } of sessions.slice(1)) assert.equal(left, undefined);
    for (const { room } of sessions.slice(1)) await room.leave();
  });

  /** Commits a grant and takes its announcement away, as a publish that is lost. */
  const grantSilently = (playerId: string, amount: number): Promise<void> =>
    api.app.transact(async (work) => {
      const player = await getPlayer(work, tenant.projectId, playerId);
      await grantPlayerXp(work, player, { amount, reason: "TEST", cause: { kind: "API" } });
      await sql`delete from outbox_q where project_id = ${tenant.projectId}`.execute(work.db);
    });
});
