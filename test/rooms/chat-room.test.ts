import assert from "node:assert/strict";
import { randomUUID } from "node:crypto";
import { matchMaker } from "@colyseus/core";
import { sql } from "kysely";
import type { WebSocket } from "ws";
import { type ChatMessage } from "../../src/domain/kernel/events/social-views.ts";
import { chatTopic } from "../../src/domain/kernel/topics.ts";
import { tickAll } from "../../src/rooms/pace.ts";
import { roomId } from "../../src/rooms/room-ids.ts";
import { aTenant, startApp, type Tenant, type TestApp } from "../support/app/app.ts";
import { eventually, eventuallyHolds } from "../support/eventually.ts";
import { must } from "../support/http/client.ts";
import { rejection } from "../support/lobbies/room.ts";
import { aPlayer, join, type Listener, matchmake, type Player, range } from "../support/rooms/sdk.ts";
import { pluck } from "../support/pluck.ts";

const FREE = { slowModeSeconds: 0, burstMessages: 0, minuteMessages: 0 };

const historyOf = async (listener: Listener) => {
  await eventually(() => listener.named("chat.history").length > 0);
  return listener.named("chat.history")[0]!.data;
};

describe("those who join a channel at once", () => {
  let api: TestApp;
  let tenant: Tenant;
  before(async () => {
    api = await startApp();
    tenant = await aTenant(api);
  });

  const as = () => ({ key: tenant.key });
  const aChannel = async (key: string): Promise<string> => {
    const body = { kind: "PROJECT", key, name: "Test", settings: FREE };
    return must(await api.post("/api/v1/chat/channels", body, as()), 201).id;
  };

  it("are each shown what they may see: their own part of it, and what they have missed", async () => {
    const key = `c-${randomUUID()}`;
    const channelId = await aChannel(key);
    const players = await Promise.all(range(1, 4).map(() => aPlayer(api, tenant.key)));
    const [ann, bob, cid, dan] = players as [Player, Player, Player, Player];
    const messages = `/api/v1/chat/channels/${channelId}/messages`;
    for (const n of range(1, 4)) {
      const body = { playerId: ann.playerId, content: `message ${n}`, clientMsgId: `m-${n}` };
      must(await api.post(messages, body, as()), 201);
    }
    const thumb = `${messages}/2/reactions/${encodeURIComponent("👍")}`;
    must(await api.put(`${thumb}?playerId=${bob.playerId}`, {}, as()), 200);

    const [a, b, c, d] = await Promise.all([
      join(api, ann.token, "chat", { channelId: key }),
      join(api, bob.token, "chat", { channelId }),
      join(api, cid.token, "chat", { channelId, lastSeq: 3 }),
      join(api, dan.token, "chat", { channelId, lastSeq: 99 }),
    ]);
    const shown = await Promise.all([a, b, c, d].map((listener) => historyOf(listener)));
    const seqs = shown.map(({ messages: all }) => all.map(({ seq }: { seq: number }) => seq));
    assert.deepEqual(seqs, [range(1, 4), range(1, 4), [4], range(1, 4)]);
    assert.deepEqual(pluck(shown, "resumed"), [false, false, true, false]);
    assert.deepEqual(
      shown.map(({ messages: all }) => all.at(-1).clientMsgId),
      ["m-4", undefined, undefined, undefined],
    );
    const mine = (n: number) => shown[n].messages[1].reactions;
    assert.deepEqual(mine(0), [{ emoji: "👍", count: 1, mine: false }]);
    assert.deepEqual(mine(1), [{ emoji: "👍", count: 1, mine: true }]);
  });

  it("are let in or refused each for themselves", async () => {
    const [channelId, ann, bob] = [
      await aChannel(`c-${randomUUID()}`),
      await aPlayer(api, tenant.key),
      await aPlayer(api, tenant.key),
    ];
    const ban = { playerId: bob.playerId, channelId, kind: "BAN", reason: "test" };
    must(await api.post("/api/v1/chat/sanctions", ban, as()), 201);
    const ask = (token: string, channel: string) =>
      matchmake(api, "joinOrCreate/chat", { token, body: { channelId: channel } });
    const answers = await Promise.all([
      ask(bob.token, channelId),
      ask(ann.token, channelId),
      ask(ann.token, randomUUID()),
      ask(ann.token, `none-${randomUUID()}`),
      ask(bob.token, "global"),
    ]);
    assert.deepEqual(pluck(answers, "status"), [403, 200, 404, 404, 200]);
    assert.equal(answers[0].body.error.reason, "PLAYER_BANNED");
  });

  it("end with a message deleted that another process deletes while the history is in memory", async () => {
    const channelId = await aChannel(`c-${randomUUID()}`);
    const { playerId } = await aPlayer(api, tenant.key);
    const messages = `/api/v1/chat/channels/${channelId}/messages`;
    for (const content of ["kept", "removed"])
      must(await api.post(messages, { playerId, content }, as()), 201);
    const [one, other] = [await aPlayer(api, tenant.key), await aPlayer(api, tenant.key)];
    const here = await join(api, one.token, "chat", { channelId });
    assert.equal((await historyOf(here)).messages[1].content, "removed");
    // By SQL and a topic, as another process would have done it.
    await api.sql`update chat_messages set content = '', deleted_at = now(), deleted_by = 'SENDER'
      where project_id = ${tenant.projectId} and channel_id = ${channelId} and seq = 2`;
    const line = { name: "chat.deleted", data: { channelId, seq: 2, by: "SENDER" } };
    api.app.topics.publish(chatTopic(tenant.projectId, channelId), [line]);
    await eventually(() => here.named("chat.deleted").length === 1);
    const there = await join(api, other.token, "chat", { channelId });
    await historyOf(there);
    await eventually(() => {
      const last = there.heard.findLast(({ name }) => name === "chat.history" || name === "chat.deleted")!;
      return last.name === "chat.deleted" || last.data.messages[1].content === "";
    });
  });
});

type InChat = Player & Listener;

describe("moderation of the room chat", () => {
  let api: TestApp;
  let tenant: Tenant;
  let channelId: string;
  before(async () => {
    api = await startApp();
    tenant = await aTenant(api);
  });
  beforeEach(async () => {
    const body = { key: `c-${randomUUID()}`, settings: FREE };
    channelId = must(await api.post("/api/v1/chat/channels", body, { key: tenant.key }), 201).id;
  });

  const enter = async (): Promise<InChat> => {
    const player = await aPlayer(api, tenant.key);
    return Object.assign(await join(api, player.token, "chat", { channelId }), player);
  };
  const send = ({ room }: InChat, content: string) =>
    room.request("chat.send", { content, clientMsgId: randomUUID() });
  it("reads every message by the word lists as they are then, however often they change", async () => {
    const [ada, reader] = [await enter(), await enter()];
    const put = async (key: string, word: string) => {
      const body = { action: "MASK", words: [word] };
      must(await api.put(`/api/v1/chat/word-lists/${key}`, body, { key: tenant.key }), 200);
    };
    const said: string[] = [];
    for (const word of ["one", "two", "three"]) {
      await put(`list-${word}`, word);
      await put("last", `${word}s`);
      const all = await Promise.all(["one", "two threes"].map((text) => send(ada, `${text} ${word}s`)));
      said.push(...all.map(({ content }) => content));
    }
    const expected = ["*** ****", "two threes ****", "*** ****", "*** threes ****", "*** ******"];
    assert.deepEqual(said, [...expected, "*** ****** ******"]);
    await eventually(() => reader.named("chat.message").length === said.length);
  });

  it("takes a message away from who reads it when five have reported it, and gives it back", async () => {
    const [ada, reader] = [await enter(), await enter()];
    const { seq } = await send(ada, "you again");
    const path = `/api/v1/chat/channels/${channelId}/messages/${seq}`;
    for (let at = 0; at < 5; at += 1) {
      const { playerId } = await aPlayer(api, tenant.key);
      must(await api.post(`${path}/reports`, { playerId, reason: "SPAM" }, { key: tenant.key }), 201);
    }
    await eventually(() => reader.named("chat.deleted").some(({ data }) => data.seq === seq));
    must(await api.post(`${path}/restore`, {}, { key: tenant.key }), 200);
    await eventually(() => reader.named("chat.edited").length === 1);
    assert.equal(reader.named("chat.edited")[0]!.data.content, "you again");
  });
});

describe("a chat message that an outage of the database refuses", () => {
  let api: TestApp;
  let tenant: Tenant;
  before(async () => {
    api = await startApp();
    tenant = await aTenant(api);
  });

  const execute = (statement: string): Promise<unknown> =>
    api.app.transact(({ db }) => sql.raw(statement).execute(db));

  /** Runs `run` while PostgreSQL stores no message of this project because its disk is full. */
  const whileRefused = async (run: () => Promise<void>): Promise<void> => {
    await execute(`create function refuse_message() returns trigger language plpgsql as
      $$ begin raise exception 'refused' using errcode = '53100'; end $$`);
    await execute(`create trigger refused before insert on chat_messages for each row
      when (new.project_id = '${tenant.projectId}') execute function refuse_message()`);
    try {
      await run();
    } finally {
      await execute("drop trigger refused on chat_messages");
      await execute("drop function refuse_message");
    }
  };

  const aChannel = async (): Promise<string> => {
    const settings = { slowModeSeconds: 60, burstMessages: 2, minuteMessages: 2 };
    const body = { kind: "PROJECT", key: `c-${randomUUID()}`, name: "Test", settings };
    return must(await api.post("/api/v1/chat/channels", body, { key: tenant.key }), 201).id;
  };

  it("in a room is told so and counts for nothing: the same clientMsgId goes through later", async () => {
    const { token } = await aPlayer(api, tenant.key);
    const { room } = await join(api, token, "chat", { channelId: await aChannel() });
    const message = { content: "hello", clientMsgId: randomUUID() };
    await whileRefused(async () => {
      for (const _ of range(1, 4)) {
        const { code, reason } = await rejection(room.request("chat.send", message));
        assert.deepEqual([code, reason], ["SERVICE_UNAVAILABLE", "DATABASE_UNAVAILABLE"]);
      }
    });
    const sent = await room.request("chat.send", message);
    assert.equal(sent.seq, 1);
    const more = room.request("chat.send", { content: "more", clientMsgId: randomUUID() });
    assert.equal((await rejection(more)).reason, "SLOW_MODE");
    await room.leave();
  });

  for (const isKeyed of [false, true])
    it(`by REST counts for nothing ${isKeyed ? "with" : "without"} an idempotency key`, async () => {
      const { playerId } = await aPlayer(api, tenant.key);
      const path = `/api/v1/chat/channels/${await aChannel()}/messages`;
      const body = { content: "hello", clientMsgId: randomUUID(), playerId };
      const headers = isKeyed ? { "X-Idempotency-Key": randomUUID() } : {};
      const send = () => api.post(path, body, { key: tenant.key, headers });
      await whileRefused(async () => {
        for (const _ of range(1, 4)) {
          const { status, headers: answered } = await send();
          assert.equal(status, 503);
          assert.ok(Number(answered.get("retry-after")) >= 1);
        }
      });
      assert.equal((await send()).status, 201);
      const more = { ...body, clientMsgId: randomUUID() };
      assert.equal((await api.post(path, more, { key: tenant.key })).status, 429);
    });
});

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
    const held = matchMaker.getLocalRoomById(roomId("chat", tenant.projectId, channelId, 0));
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
    assert.deepEqual(pluck(data, "seq", "content"), [
      [2, ""],
      [1, "edited"],
    ]);
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
    tickAll();
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
