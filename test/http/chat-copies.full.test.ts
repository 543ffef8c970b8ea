import assert from "node:assert/strict";
import { sql } from "kysely";
import { aKey, startApp } from "../support/app/app.ts";
import { assertError } from "../support/http/assert-error.ts";
import { must } from "../support/http/client.ts";
import { aLobbyGame } from "../support/lobbies/room.ts";
import { aMember } from "../support/app/member.ts";
import { playersOf } from "../support/players/players.ts";
import { madeForEach, madeOnce } from "../support/made.ts";
import { pluck } from "../support/pluck.ts";

const SECRET = "meet me at the old mill";
const LATER = "meet me at the new bridge";
const REASON = "what she wrote about the mill";

/** The messages themselves, and what their channel's readers are told. */
const READERS = /^(chat_messages TEXT|outbox chat\.(changed|message_sent))$/;

type Credentials = { key?: string; token?: string };
type Note = { type: string; title: string; body: string | null; data: object };

describe("what is said in private channels", () => {
  let ada: string;
  let bob: string;
  let direct: string;
  let lobby: string;
  const api = madeOnce(startApp);
  const game = madeForEach(() => aLobbyGame(api));
  const players = madeForEach(() => playersOf(api, game.tenant));
  beforeEach(async () => {
    ada = await game.player("ada");
    bob = await game.player("bob");
    direct = (await game.make("/chat/direct", { playerIds: [ada, bob] })).id;
    const opened = await game.open({ hostPlayerId: ada });
    must(await game.join(opened, bob), 200);
    const channels = must(await game.get(`/chat/channels?kind=LOBBY&playerId=${ada}`), 200).data;
    lobby = channels.find(({ lobbyId }: { lobbyId: string }) => lobbyId === opened.id).id;
  });

  const say = async (channelId: string, content: string, playerId = ada): Promise<number> =>
    must(await game.post(`/chat/channels/${channelId}/messages`, { content, playerId }), 201).seq;
  const keyOf = async (...scopes: string[]) => ({ key: await aKey(api, { ...game.tenant, scopes }) });
  const readersOfPlayers = async (): Promise<Credentials[]> => [
    await keyOf("players:read"),
    { token: (await aMember(api, game.tenant.tenantId, "VIEWER")).token },
  ];
  const notesFor = async (credentials: Credentials): Promise<Note[]> =>
    must(await api.get(`/api/v1/players/${bob}/inbox`, credentials), 200).data;

  /** Where a text is in the whole database besides the messages, and the lines for their readers. */
  const copiesOf = async (text: string): Promise<string[]> => {
    const tables = await players.query(sql<{ name: string }>`
      select table_name as name from information_schema.tables
      where table_schema = 'public' and table_type = 'BASE TABLE'
        and table_name not in (select relname from pg_class where relispartition)`);
    const places: string[] = [];
    for (const { name } of tables) {
      const found = await players.query(sql<{ type: string | null }>`
        select distinct to_jsonb(t)->>'type' as type from ${sql.table(name)} t
        where to_jsonb(t)->>'project_id' = ${game.tenant.projectId} and position(${text} in t::text) > 0`);
      places.push(...found.map(({ type }) => `${name} ${type}`));
    }
    assert.ok(places.includes("chat_messages TEXT"), "the test looks in the right places");
    return places.filter((place) => !READERS.test(place));
  };

  it("is in no inbox and in no stream of a player: mentions tell where, not what nor who", async () => {
    const seqs = [await say(direct, `${SECRET} @bob`), await say(lobby, `${SECRET} @bob`)];
    for (const credentials of await readersOfPlayers()) {
      const notes = await notesFor(credentials);
      assert.deepEqual(pluck(notes, "type", "body", "data"), [
        ["chat-mention", null, { channelId: lobby, seq: seqs[1] }],
        ["chat-mention", null, { channelId: direct, seq: seqs[0] }],
      ]);
      assert.equal(new Set(notes.map(({ title }) => title)).size, 1, "no name of a channel nor of a sender");
      const stream = JSON.stringify(must(await api.get(`/api/v1/players/${bob}/activity`, credentials), 200));
      assert.ok(stream.includes('"inbox.message"'));
      for (const told of [JSON.stringify(notes), stream])
        for (const hidden of [SECRET, ada]) assert.equal(told.includes(hidden), false, hidden);
    }
    assert.deepEqual(await copiesOf(SECRET), []);
  });

  it("is in no note of any channel, so that edits, deletions and removals leave no copy", async () => {
    const settings = { slowModeSeconds: 0, burstMessages: 0, minuteMessages: 0 };
    must(await game.post("/chat/channels", { key: "open", settings }), 201);
    must(await game.patch(`/chat/channels/${direct}`, { settings }), 200);
    for (const channel of ["open", direct]) {
      const at = async (content: string) =>
        `/chat/channels/${channel}/messages/${await say(channel, content)}`;
      must(await game.patch(await at(`${SECRET} @bob 1`), { content: `${LATER} @bob`, playerId: ada }), 200);
      must(await game.remove(`${await at(`${SECRET} @bob 2`)}?playerId=${ada}`), 200);
      must(await game.remove(await at(`${SECRET} @bob 3`)), 200);
    }
    const notes = JSON.stringify(must(await game.get(`/players/${bob}/inbox`), 200));
    const stream = JSON.stringify(must(await game.get(`/players/${bob}/activity`), 200));
    for (const told of [notes, stream])
      for (const text of [SECRET, LATER]) assert.equal(told.includes(text), false);
    assert.equal(must(await game.get(`/players/${bob}/inbox`), 200).data.length, 6);
    assert.deepEqual([...(await copiesOf(SECRET)), ...(await copiesOf(LATER))], []);
  });

  it("is told to integrators of no sanction, whose player is told why and where", async () => {
    const sanction = async (body: object): Promise<{ id: string }> =>
      must(await game.post("/chat/sanctions", { playerId: bob, reason: REASON, ...body }), 201);
    const secret = [
      await sanction({ kind: "MUTE", channelId: direct }),
      await sanction({ kind: "SHADOW_MUTE", channelId: lobby }),
    ];
    const { id: global } = must(await game.get("/chat/channels/global"), 200);
    const open = [await sanction({ kind: "MUTE" }), await sanction({ kind: "MUTE", channelId: global })];
    const rows = await players.query(sql<{ data: Record<string, unknown> }>`
      select data from outbox where project_id = ${game.tenant.projectId}
        and type = 'chat.player_sanctioned' order by id`);
    assert.deepEqual(
      rows.map(({ data }) => [
        data["sanctionId"],
        data["isInPrivateChannel"],
        data["channelId"],
        data["reason"],
      ]),
      [
        ...secret.map(({ id }) => [id, true, null, null]),
        [open[0]!.id, false, null, REASON],
        [open[1]!.id, false, global, REASON],
      ],
    );
    const kept = must(await game.get(`/chat/sanctions/${secret[0]!.id}`), 200);
    assert.deepEqual([kept.channelId, kept.reason], [direct, REASON], "moderators read both");
  });

  it("is exported as their own words, without others', former texts or moderators' notes", async () => {
    const edit = `/chat/channels/${direct}/messages/${await say(direct, "my former words", bob)}`;
    must(await game.patch(edit, { content: "my own words", playerId: bob }), 200);
    const removed = await say(direct, "my removed words", bob);
    must(await game.remove(`/chat/channels/${direct}/messages/${removed}`), 200);
    await say(direct, `${SECRET} @bob`);
    must(await game.post("/chat/sanctions", { playerId: bob, kind: "SHADOW_MUTE", reason: REASON }), 201);
    const { key } = await keyOf("players:write", "players:read");
    const writer = playersOf(api, { ...game.tenant, key });
    const job = must(await writer.post(`/players/${bob}/export`, {}), 201);
    const { tables } = await writer.resultOf(job.id);
    const text = JSON.stringify(tables);
    for (const hidden of [SECRET, REASON, "my former words", "my removed words"])
      assert.equal(text.includes(hidden), false, hidden);
    assert.deepEqual(pluck(tables.chat_messages, "content"), ["my own words", ""]);
    assert.deepEqual([tables.chat_sanctions.length, tables.inbox_messages.length], [1, 1]);
  });

  it("is not found by a server that may not moderate: to whatever it does but send, 404", async () => {
    const { key } = await keyOf("chat:read", "chat:write");
    const unknown = "019ba9d2-4c00-7000-8000-000000000001";
    for (const id of [direct, lobby]) {
      await say(id, SECRET);
      const sent = await game.post(`/chat/channels/${id}/messages`, { content: "Welcome" }, key);
      assert.equal(must(sent, 201).type, "SYSTEM");
      for (const channel of [id, unknown]) {
        const path = `/api/v1/chat/channels/${channel}`;
        const answers = [
          await api.patch(`${path}/members/${bob}`, { notify: "NONE" }, { key }),
          await api.patch(`${path}/members/${await game.someone()}`, { notify: "NONE" }, { key }),
          await api.patch(`${path}/messages/1`, { content: "changed" }, { key }),
          await api.patch(`${path}/messages/${sent.body.seq}`, { content: "changed" }, { key }),
          await api.patch(`${path}/messages/999`, { content: "changed" }, { key }),
          await api.delete(`${path}/messages/1`, { key }),
          await api.delete(`${path}/messages/999`, { key }),
        ];
        for (const answer of answers) {
          assertError(answer, 404);
          assert.equal(answer.body.error.message, answers[0]!.body.error.message);
        }
      }
      const members = must(await game.get(`/chat/channels/${id}/members`), 200).data;
      assert.ok(members.every(({ notify }: { notify: string }) => notify === "ALL"));
      assert.equal(must(await game.get(`/chat/channels/${id}/messages?playerId=${bob}`), 200).data.length, 2);
    }
  });

  it("is counted for who opens a channel of two only if they may read it", async () => {
    await say(direct, SECRET);
    const playerIds = [ada, bob];
    const open = async (body: object, ...scopes: string[]) =>
      api.post("/api/v1/chat/direct", { playerIds, ...body }, await keyOf(...scopes));
    const shown = must(await open({}, "chat:write"), 200);
    assert.deepEqual([shown.id, "lastSeq" in shown, "unread" in shown], [direct, false, false]);
    assert.equal(must(await open({}, "chat:write", "chat:moderate"), 200).lastSeq, 1);
    const own = must(await open({ playerId: "ext:bob" }, "chat:write"), 200);
    assert.deepEqual([own.lastSeq, own.unread], [1, 1]);
    assertError(await open({ playerId: await game.someone() }, "chat:write"), 400);
  });
});
