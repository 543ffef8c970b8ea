import assert from "node:assert/strict";
import { startApp } from "../support/app/app.ts";
import { assertError } from "../support/http/assert-error.ts";
import { type Answer, must } from "../support/http/client.ts";
import { aGame } from "../support/app/game.ts";
import { madeForEach, madeOnce } from "../support/made.ts";
import { pluck } from "../support/pluck.ts";

const OPEN = { slowModeSeconds: 0, burstMessages: 0, minuteMessages: 0 };

describe("chat by REST", () => {
  const api = madeOnce(startApp);
  const game = madeForEach(() => aGame(api));
  let ada: string;
  let bob: string;
  beforeEach(async () => {
    [ada, bob] = [await game.player("ada"), await game.player("bob")];
    await game.make("/chat/channels", { key: "trade", name: "Trade", settings: OPEN });
  });

  const at = (path = "", channel = "trade") => `/chat/channels/${channel}${path}`;
  const send = (playerId: string | undefined, content: string, more: object = {}): Promise<Answer> =>
    game.post(at("/messages"), { content, ...(playerId === undefined ? {} : { playerId }), ...more });
  const say = async (playerId: string | undefined, content: string, more: object = {}) =>
    must(await send(playerId, content, more), 201);
  const list = async (query = "") => must(await game.get(at(`/messages${query}`)), 200);
  const seqs = async (query: string) =>
    (await list(query)).data.map(({ seq }: { seq: number }) => seq) as number[];
  const put = (path: string) => api.put(`/api/v1${path}`, {}, { key: game.tenant.key });

  it("takes messages of players and of the server, and reads them both ways and by page", async () => {
    const first = await say("ext:ada", "  Hello\u0000".replace("\u0000", "\u0007 "), { clientMsgId: "c1" });
    assert.deepEqual(
      [first.seq, first.content, first.type, first.sender.playerId, first.clientMsgId],
      [1, "Hello", "TEXT", ada, "c1"],
    );
    const again = must(await send(ada, "Other", { clientMsgId: "c1" }), 200);
    assert.deepEqual([again.id, again.content], [first.id, "Hello"]);
    const system = await say(undefined, "Server here");
    assert.deepEqual([system.seq, system.type, system.sender], [2, "SYSTEM", null]);
    for (let i = 3; i <= 7; i++) await say(bob, `text ${i}`, { replyTo: 1 });
    assert.deepEqual(await seqs("?limit=3"), [7, 6, 5]);
    assert.deepEqual(await seqs("?limit=3&before=5"), [4, 3, 2]);
    assert.deepEqual(await seqs("?limit=3&after=5"), [6, 7]);
    assert.deepEqual(await seqs("?limit=3&page=3"), [1]);
    assert.equal((await list("?limit=7")).pagination.hasMore, false);
    assert.equal((await list("?limit=6")).pagination.hasMore, true);
    // Only the sender sees the clientMsgId.
    const seen = async (who: string) => (await list(`?after=0&playerId=${who}`)).data[0].clientMsgId;
    assert.deepEqual([await seen(ada), await seen(bob)], ["c1", undefined]);
  });

  it("refuses what is no message, and what the channel does not allow", async () => {
    assertError(await send(ada, " \u200e\u0007 ".replace("\u200e", "")), 400);
    assertError(await send(ada, "x".repeat(501)), 400);
    assertError(await send(ada, "text", { replyTo: 9 }), 400);
    assertError(await send(ada, "text", { clientMsgId: "x".repeat(65) }), 400);
    assertError(await send(ada, "half \ud800"), 400);
    assertError(await send("ext:nobody", "text"), 404);
    assert.equal((await game.get(at())).body.lastSeq, 0);
    must(await game.patch(at(), { settings: { readOnly: true } }), 200);
    assertError(await send(ada, "may I?"), 403, "CHANNEL_RESTRICTED");
    must(await game.patch(at(`/members/${ada}`), { role: "MODERATOR" }), 200);
    await say(ada, "I may");
    must(await game.post(at("/archive")), 200);
    assertError(await send(ada, "may I still?"), 403, "CHANNEL_RESTRICTED");
    assertError(await send(undefined, "text"), 403, "CHANNEL_RESTRICTED");
    await game.setStatus(bob, "SUSPENDED");
    must(await game.post(at("/unlock")), 200);
    must(await game.patch(at(), { settings: { readOnly: false } }), 200);
    assertError(await send(bob, "text"), 409, "PLAYER_INACTIVE");
    assertError(await put(at(`/messages/1/reactions/x?playerId=${bob}`)), 409, "PLAYER_INACTIVE");
    assertError(
      await game.post("/chat/direct", { playerIds: [ada, bob], playerId: bob }),
      409,
      "PLAYER_INACTIVE",
    );
  });

  it("is edited by its sender in time, deleted by sender or moderator, and keeps its place", async () => {
    await say(ada, "one");
    const edit = (playerId: string, content: string) => game.patch(at("/messages/1"), { content, playerId });
    assertError(await edit(bob, "mine"), 403, "NOT_SENDER");
    const edited = must(await edit(ada, "two"), 200);
    assert.deepEqual([edited.content, edited.editedAt === null], ["two", false]);
    must(await game.patch(at(), { settings: { editWindowSeconds: 0 } }), 200);
    assertError(await edit(ada, "three"), 409, "INVALID_STATE");
    const remove = (seq: number, player: string) => game.remove(at(`/messages/${seq}?playerId=${player}`));
    assertError(await remove(1, bob), 403, "NOT_SENDER");
    for (let i = 0; i < 2; i++) {
      const gone = must(await remove(1, ada), 200);
      assert.deepEqual([gone.content, gone.moderation, gone.deletedAt === null], ["", "VISIBLE", false]);
    }
    assertError(await edit(ada, "four"), 409, "INVALID_STATE");
    await say(bob, "rude");
    must(await game.patch(at(`/members/${ada}`), { role: "MODERATOR" }), 200);
    assert.equal(must(await remove(2, ada), 200).moderation, "REMOVED");
    const log = must(await api.get("/api/v1/audit-log?limit=3", { token: game.tenant.token }), 200).data;
    assert.equal(log[0].action, "chat_message.removed");
    assert.deepEqual(await seqs(""), [2, 1]);
    const rows = await api.sql<{ original: string }>`
      select original from chat_messages where project_id = ${game.tenant.projectId} order by seq`;
    assert.deepEqual(pluck(rows, "original"), ["one", "rude"]);
  });

  it("counts reactions once for each player, 20 different ones at most", async () => {
    await say(ada, "react!");
    const one = (emoji: string, player: string) =>
      put(at(`/messages/1/reactions/${encodeURIComponent(emoji)}?playerId=${player}`));
    must(await one("🎉", ada), 200);
    must(await one("🎉", ada), 200);
    const both = must(await one("🎉", bob), 200);
    assert.deepEqual(both.reactions, [{ emoji: "🎉", count: 2, mine: true }]);
    const [shown] = (await list()).data;
    assert.deepEqual(shown.reactions, [{ emoji: "🎉", count: 2, mine: false }]);
    const take = (player: string) =>
      game.remove(at(`/messages/1/reactions/${encodeURIComponent("🎉")}?playerId=${player}`));
    assert.deepEqual(must(await take(bob), 200).reactions, [{ emoji: "🎉", count: 1, mine: false }]);
    const racing = await Promise.all(Array.from({ length: 25 }, (_, i) => one(`e${i}`, bob)));
    assert.equal(racing.filter(({ status }) => status === 200).length, 19);
    assertError(
      racing.find(({ status }) => status !== 200)!,
      409,
      "LIMIT_REACHED",
    );
    assertError(await put(at("/messages/1/reactions/x")), 400);
  });

  it("tells what is unread, by a mark that moves forward only", async () => {
    for (let i = 1; i <= 5; i++) await say(ada, `text ${i}`);
    const read = async (seq: number) =>
      must(await game.post(at("/read"), { seq, playerId: bob }), 200).unread as number;
    assert.deepEqual([await read(3), await read(1), await read(99)], [2, 2, 0]);
    await say(ada, "one more");
    const channels = must(await game.get(`/chat/channels?playerId=${bob}`), 200).data;
    const trade = channels.find(({ key }: { key: string }) => key === "trade");
    assert.deepEqual([trade.unread, trade.lastMessage.content], [1, "one more"]);
    assert.ok(channels.some(({ key }: { key: string }) => key === "global"));
  });

  it("puts mentions into inboxes, once for each message, but not of who wants none", async () => {
    await say(ada, "Hi @bob and @bob, @nobody, mail@ada.example and @ada");
    await say(ada, "By id", { mentions: [bob] });
    const inbox = async () => must(await game.get(`/players/${bob}/inbox`), 200).data;
    const [second, first] = await inbox();
    assert.deepEqual(
      [first.type, first.title.slice(0, 20), first.body, first.data.seq, second.data.seq],
      ["chat-mention", "ada mentioned you in", null, 1, 2],
    );
    assert.deepEqual((await list()).data[1].mentions.toSorted(), [ada, bob].toSorted());
    assert.equal(must(await game.get(`/players/${ada}/inbox`), 200).data.length, 0);
    const many = Array.from({ length: 11 }, (_, i) => `@p${i}`).join(" ");
    assertError(await send(ada, many), 400, "SPAM");
    must(await game.patch(at(`/members/${bob}`), { notify: "NONE" }), 200);
    await say(ada, "Again @bob");
    assert.equal((await inbox()).length, 2);
  });

  it("keeps slow mode and flood limits, but not against what is sent again", async () => {
    const settings = { slowModeSeconds: 60 };
    await game.make("/chat/channels", { key: "slow", settings });
    const slow = (playerId: string, clientMsgId: string) =>
      game.post(at("/messages", "slow"), { content: `text ${clientMsgId}`, clientMsgId, playerId });
    const first = must(await slow(ada, "1"), 201);
    assert.equal(must(await slow(ada, "1"), 200).id, first.id);
    const refused = await slow(ada, "2");
    assertError(refused, 429, "SLOW_MODE");
    assert.ok(Number(refused.headers.get("retry-after")) >= 1);
    must(await slow(bob, "1"), 201);
    await game.make("/chat/channels", { key: "flood", settings: { ...OPEN, burstMessages: 3 } });
    await game.player("eve");
    const flood = (n: number) =>
      game.post(at("/messages", "flood"), { content: `number ${n}`, playerId: "ext:eve" });
    const statuses = await Promise.all([1, 2, 3, 4, 5].map(async (n) => (await flood(n)).status));
    assert.deepEqual(statuses.toSorted(), [201, 201, 201, 429, 429]);
    await say(bob, "same");
    await say(bob, "SaMe");
    assertError(await send(bob, "same"), 429, "SPAM");
  });

  it("opens one channel for two players, which nobody else reads, if the project lets them", async () => {
    const eve = await game.player("eve");
    const open = (...playerIds: string[]) => game.post("/chat/direct", { playerIds });
    const racing = await Promise.all([open(ada, bob), open(bob, "ext:ada"), open(ada, bob)]);
    assert.deepEqual(racing.map(({ status }) => status).toSorted(), [200, 200, 201]);
    assert.equal(new Set(racing.map(({ body }) => body.id)).size, 1);
    const { id } = racing[0].body;
    must(await game.post(at("/messages", id), { content: "psst", playerId: ada }), 201);
    assert.equal(must(await game.get(at(`/messages?playerId=${bob}`, id)), 200).data.length, 1);
    assertError(await game.get(at(`/messages?playerId=${eve}`, id)), 404);
    assertError(await game.post(at("/messages", id), { content: "hi", playerId: eve }), 404);
    assertError(await open(ada, ada), 400);
    const { token, projectId } = game.tenant;
    const patch = { settings: { chat: { directPolicy: "OFF" } } };
    must(await api.patch(`/api/v1/projects/${projectId}`, patch, { token }), 200);
    assertError(await open(ada, eve), 403, "CHANNEL_RESTRICTED");
    assertError(
      await game.post(at("/messages", id), { content: "hey", playerId: ada }),
      403,
      "CHANNEL_RESTRICTED",
    );
  });

  it("has a channel of its own key, and groups have none", async () => {
    assertError(await game.post("/chat/channels", { kind: "GROUP", key: "g" }), 400);
    assertError(await game.post("/chat/channels", { key: "trade" }), 409, "KEY_TAKEN");
    assertError(await game.post("/chat/channels", { key: "global" }), 409, "KEY_TAKEN");
    must(await game.get("/chat/channels/global"), 200);
    assertError(await game.post("/chat/channels", { key: game.tenant.projectId }), 400);
  });
});
