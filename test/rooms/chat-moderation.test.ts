import assert from "node:assert/strict";
import { randomUUID } from "node:crypto";
import { aTenant, startApp, type Tenant, type TestApp } from "../support/app/app.ts";
import { must } from "../support/http/client.ts";
import { eventually } from "../support/eventually.ts";
import { aPlayer, join, type Listener, type Player, range } from "../support/rooms/sdk.ts";

type InChat = Player & Listener;

const FREE = { slowModeSeconds: 0, burstMessages: 0, minuteMessages: 0 };

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
  const refusal = async (sending: Promise<unknown>): Promise<string> => {
    const error = await sending.then(
      () => undefined,
      (one: unknown) => JSON.stringify(one) + String(one),
    );
    return /PLAYER_MUTED|LINK_NOT_ALLOWED/.exec(error ?? "sent")?.[0] ?? String(error);
  };

  it("mutes after the third message that was blocked, and tells the player's own sockets", async () => {
    const ada = await enter();
    const own = await join(api, ada.token, "player");
    const refusals: string[] = [];
    for (const n of range(1, 4)) refusals.push(await refusal(send(ada, `evil${n}.com`)));
    assert.deepEqual(refusals, ["LINK_NOT_ALLOWED", "LINK_NOT_ALLOWED", "LINK_NOT_ALLOWED", "PLAYER_MUTED"]);
    await eventually(() => own.named("chat.sanction").length === 1);
    const { kind, channelId: where } = own.named("chat.sanction")[0]!.data;
    assert.deepEqual([kind, where], ["MUTE", null]);
  });

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
