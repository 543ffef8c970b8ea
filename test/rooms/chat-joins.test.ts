import assert from "node:assert/strict";
import { randomUUID } from "node:crypto";
import { sql } from "kysely";
import { chatTopic } from "../../src/domain/kernel/events/chat-views.ts";
import { aTenant, startApp, type Tenant, type TestApp } from "../support/app/app.ts";
import { must } from "../support/http/client.ts";
import { eventually } from "../support/eventually.ts";
import { aPlayer, join, type Listener, matchmake, type Player, range } from "../support/rooms/sdk.ts";

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
    assert.deepEqual(
      shown.map(({ resumed }) => resumed),
      [false, false, true, false],
    );
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
    assert.deepEqual(
      answers.map(({ status }) => status),
      [403, 200, 404, 404, 200],
    );
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
    await api.app.transact(({ db }) =>
      sql`update chat_messages set content = '', deleted_at = now(), deleted_by = 'SENDER'
        where project_id = ${tenant.projectId} and channel_id = ${channelId} and seq = 2`.execute(db),
    );
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
