import assert from "node:assert/strict";
import { randomUUID } from "node:crypto";
import { matchMaker } from "@colyseus/core";
import type { WebSocket } from "ws";
import type { ChatMessage } from "../../src/domain/kernel/events/chat-views.ts";
import { chatRoomId } from "../../src/rooms/mirror-room.ts";
import { aTenant, startApp, type Tenant, type TestApp } from "../support/app/app.ts";
import { must } from "../support/http/client.ts";
import { eventually, eventuallyHolds } from "../support/eventually.ts";
import { aPlayer, join, type Listener, matchmake, type Player, range } from "../support/rooms/sdk.ts";

type InChat = Player & Listener;

const FREE = { slowModeSeconds: 0, burstMessages: 0, minuteMessages: 0 };

const messagesOf = ({ heard }: Listener): ChatMessage[] =>
  heard.flatMap(({ name, data }): ChatMessage[] => {
    if (name === "chat.history") return data.messages;
    return name === "chat.message" ? [data] : [];
  });
const seqsOf = (listener: Listener): number[] => messagesOf(listener).map(({ seq }) => seq);

describe("room chat", () => {
  let api: TestApp;
  let tenant: Tenant;
  before(async () => {
    api = await startApp();
    tenant = await aTenant(api);
  });

  const aChannel = async (settings: object = FREE): Promise<string> => {
    const body = { kind: "PROJECT", key: `c-${randomUUID()}`, name: "Test", settings };
    return must(await api.post("/api/v1/chat/channels", body, { key: tenant.key }), 201).id;
  };
  const enter = async (channelId: string, options: object = {}): Promise<InChat> => {
    const player = await aPlayer(api, tenant.key);
    return Object.assign(await join(api, player.token, "chat", { channelId, ...options }), player);
  };
  const send = ({ room }: InChat, content: string, more: object = {}): Promise<ChatMessage> =>
    room.request("chat.send", { content, clientMsgId: randomUUID(), ...more });
  const cut = (channelId: string, { room }: InChat): void => {
    const held = matchMaker.getLocalRoomById(chatRoomId(tenant.projectId, channelId, 0));
    (held.clients.get(room.sessionId)!.ref as WebSocket).terminate();
  };

  it("tells every message to all in one order without gaps, and acknowledges each", async () => {
    const channelId = await aChannel();
    const readers = [await enter(channelId), await enter(channelId), await enter(channelId)];
    const sent = await Promise.all(
      range(1, 45).map((n) =>
        send(readers[n % 3]!, `message ${n}`).then(({ seq, content }) => ({ seq, content })),
      ),
    );
    assert.deepEqual(
      sent.map(({ seq }) => seq).toSorted((a, b) => a - b),
      range(1, 45),
    );
    const late = await enter(channelId);
    await eventuallyHolds(() => {
      for (const reader of [...readers, late]) {
        assert.deepEqual(seqsOf(reader), range(1, 45));
        const said = new Map(messagesOf(reader).map(({ seq, content }) => [seq, content]));
        for (const { seq, content } of sent) assert.equal(said.get(seq), content);
      }
    });
  });

  it("counts a message once, however often it is sent", async () => {
    const channelId = await aChannel();
    const sender = await enter(channelId);
    const clientMsgId = randomUUID();
    const acks = await Promise.all(range(1, 10).map(() => send(sender, "once", { clientMsgId })));
    assert.deepEqual(new Set(acks.map(({ seq }) => seq)), new Set([1]));
    assert.equal(acks[0]!.clientMsgId, clientMsgId);
    await send(sender, "two");
    await eventually(() => seqsOf(sender).length === 2);
    assert.deepEqual(seqsOf(sender), [1, 2]);
  });

  it("shows what REST sends, edits and deletes, and REST shows what the room sent", async () => {
    const channelId = await aChannel();
    const reader = await enter(channelId);
    const writer = await aPlayer(api, tenant.key);
    const path = `/api/v1/chat/channels/${channelId}/messages`;
    const { playerId } = writer;
    const body = { content: "by REST", playerId };
    const first = must(await api.post(path, body, { key: tenant.key }), 201);
    await eventually(() => seqsOf(reader).includes(first.seq));
    await api.patch(`${path}/${first.seq}`, { content: "edited", playerId }, { key: tenant.key });
    await eventually(() => reader.named("chat.edited").length === 1);
    assert.equal(reader.named("chat.edited")[0]!.data.content, "edited");
    const mine = await send(reader, "by room");
    await reader.room.request("chat.react", { seq: first.seq, emoji: "👍", op: "ADD" });
    await eventually(() => reader.named("chat.reaction").length === 1);
    await reader.room.request("chat.delete", { seq: mine.seq });
    await eventually(() => reader.named("chat.deleted").length === 1);
    const { data } = must(await api.get(path, { key: tenant.key }), 200);
    assert.deepEqual(
      data.map(({ seq, content }: ChatMessage) => [seq, content]),
      [
        [2, ""],
        [1, "edited"],
      ],
    );
  });

  it("resumes after lastSeq with nothing lost or twice, and loses nothing with a connection", async () => {
    const channelId = await aChannel();
    const sender = await enter(channelId);
    for (const n of range(1, 5)) await send(sender, `message ${n}`);
    const back = await enter(channelId, { lastSeq: 3 });
    await eventually(() => back.named("chat.history").length === 1);
    assert.deepEqual(seqsOf(back), [4, 5]);
    assert.equal(back.named("chat.history")[0]!.data.resumed, true);
    back.room.reconnection.minUptime = 0;
    cut(channelId, back);
    for (const n of range(6, 8)) await send(sender, `message ${n}`);
    await eventuallyHolds(() => assert.deepEqual(new Set(seqsOf(back)), new Set(range(1, 8))));
    const asked = back.heard.length;
    assert.deepEqual(await back.room.request("chat.resync", { lastSeq: 6 }), { seq: 8 });
    await eventually(() => back.heard.length > asked);
    const { data } = back.named("chat.history").at(-1)!;
    assert.deepEqual([data.resumed, data.messages.map(({ seq }: ChatMessage) => seq)], [true, [7, 8]]);
  });

  it("tells who types, reads, comes and goes, to members of a small channel", async () => {
    const [ann, bob] = [await aPlayer(api, tenant.key), await aPlayer(api, tenant.key)];
    const playerIds = [ann.playerId, bob.playerId];
    const channelId = must(await api.post("/api/v1/chat/direct", { playerIds }, { key: tenant.key }), 201).id;
    const inAs = async (player: Player): Promise<InChat> =>
      Object.assign(await join(api, player.token, "chat", { channelId }), player);
    const a = await inAs(ann);
    const b = await inAs(bob);
    await eventually(() => a.named("chat.presence").some(({ data }) => data.joined === bob.playerId));
    b.room.send("chat.typing", {});
    await eventually(() => a.named("chat.typing").length === 1);
    assert.equal(a.named("chat.typing")[0]!.data.playerId, bob.playerId);
    assert.equal(b.named("chat.typing").length, 0);
    const { seq } = await send(a, "hello");
    await b.room.request("chat.read", { seq });
    await eventually(() => a.named("chat.read").some(({ data }) => data.seq === seq));
    await b.room.leave();
    await eventually(() => a.named("chat.presence").some(({ data }) => data.left === bob.playerId));
  });

  it("lets nobody in who may not read, and ends the sockets of who may no longer", async () => {
    const [ann, bob] = [await aPlayer(api, tenant.key), await aPlayer(api, tenant.key)];
    const playerIds = [ann.playerId, bob.playerId];
    const direct = must(await api.post("/api/v1/chat/direct", { playerIds }, { key: tenant.key }), 201).id;
    const eve = await aPlayer(api, tenant.key);
    const refused = await matchmake(api, "joinOrCreate/chat", {
      token: eve.token,
      body: { channelId: direct },
    });
    assert.equal(refused.status, 404);
    const other = await aTenant(api);
    const stranger = await aPlayer(api, other.key);
    const options = { token: stranger.token, body: { channelId: await aChannel() } };
    assert.equal((await matchmake(api, "joinOrCreate/chat", options)).status, 404);

    const channelId = await aChannel();
    const reader = await enter(channelId);
    const ban = { playerId: reader.playerId, kind: "BAN", reason: "test" };
    must(await api.post("/api/v1/chat/sanctions", ban, { key: tenant.key }), 201);
    await assert.rejects(send(reader, "still here"));
    await eventually(() => reader.left?.code === 4403, { timeoutMs: 60_000 });
  });

  it("lets console users read, and ask for nothing, whatever their role", async () => {
    const channelId = await aChannel();
    const sender = await enter(channelId);
    await send(sender, "for all");
    const { token: console_ } = tenant;
    const { token } = must(
      await api.post("/api/v1/auth/ws-token", { projectId: tenant.projectId }, { token: console_ }),
      200,
    );
    const watcher = await join(api, token, "chat", { channelId });
    await eventually(() => seqsOf(watcher).includes(1));
    const playerIds = [(await aPlayer(api, tenant.key)).playerId, (await aPlayer(api, tenant.key)).playerId];
    const direct = must(await api.post("/api/v1/chat/direct", { playerIds }, { key: tenant.key }), 201);
    await assert.rejects(join(api, token, "chat", { channelId: direct.id }), /channel not found/);
    for (const [name, body] of [
      ["chat.send", { content: "as nobody" }],
      ["chat.delete", { seq: 1 }],
      ["chat.report", { seq: 1, reason: "SPAM" }],
    ] as const) {
      const reason = await watcher.room
        .request(name, body)
        .catch((error: { reason: object }) => error.reason);
      assert.partialDeepStrictEqual(reason, { code: "FORBIDDEN", reason: "PLAYER_TOKEN_REQUIRED" });
    }
  });

  it("takes a reader's report of a message once, and none of the own", async () => {
    const channelId = await aChannel();
    const [sender, reader] = [await enter(channelId), await enter(channelId)];
    const { seq } = await send(sender, "something");
    const report = ({ room }: InChat): Promise<{ id: string }> =>
      room.request("chat.report", { seq, reason: "SPAM" });
    const { id } = await report(reader);
    const { data } = must(await api.get("/api/v1/chat/reports", { key: tenant.key }), 200);
    assert.ok(data.some((one: { id: string }) => one.id === id));
    for (const again of [reader, sender]) await assert.rejects(report(again));
  });

  it("refuses a hostile or empty message with the error object, and stays", async () => {
    const channelId = await aChannel();
    const sender = await enter(channelId);
    for (const body of [
      {},
      { content: "" },
      { content: "a\0b" },
      { content: 7 },
      { content: "x".repeat(501) },
    ]) {
      const error = await sender.room.request("chat.send", body).then(
        () => undefined,
        (rejected: { reason: { code: string } }) => rejected.reason,
      );
      assert.equal(error?.code, "VALIDATION_ERROR", JSON.stringify(body).slice(0, 40));
    }
    assert.equal((await send(sender, "fine")).seq, 1);
  });
});
