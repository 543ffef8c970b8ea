import assert from "node:assert/strict";
import { randomUUID } from "node:crypto";
import { aGuest, aLobby } from "../support/lobbies/room.ts";
import { aPlayer, join, type Listener } from "../support/rooms/sdk.ts";
import { anAdmin } from "../support/app/admin.ts";
import { anotherServer } from "../support/app/another-server.ts";
import { aTenant, startApp } from "../support/app/app.ts";
import { assertError } from "../support/http/assert-error.ts";
import { must } from "../support/http/client.ts";
import { blockWith, finished, runPrinted } from "../support/documents/documents.ts";
import { eventually, eventuallyHolds } from "../support/eventually.ts";
import { madeOnce } from "../support/made.ts";
import { pluck } from "../support/pluck.ts";

const PATHS = ["rooms", "rooms/unknown", "processes"];

describe("super-admins and the rooms that are open", () => {
  const api = madeOnce(startApp);
  const tenant = madeOnce(() => aTenant(api));
  const admin = madeOnce(() => anAdmin(api));

  const get = (path: string) => api.get(`/api/v1/admin/${path}`, { token: admin.token });
  const rooms = async (query = "") => must(await get(`rooms?projectId=${tenant.projectId}${query}`), 200);
  const look = async ({ room }: Listener) => must(await get(`rooms/${room.roomId}`), 200);
  const disconnect = (roomId: string, sessionId: string, body: object = { reason: "It hangs" }) =>
    api.post(`/api/v1/admin/rooms/${roomId}/clients/${sessionId}/disconnect`, body, { token: admin.token });

  it("look into them with the commands that the guide prints", async () => {
    const host = await aLobby(api, tenant);
    const block = blockWith("docs/guides/operate.md", "admin processes");
    const env = {
      URL: api.url,
      ADMIN: admin.token,
      PROJECT: tenant.projectId,
      ROOM: host.room.roomId,
      SESSION: host.room.sessionId,
    };
    const answers = (await finished(runPrinted(block.replaceAll(/^(admin .*?)( +#.*)?$/gm, "$1; echo"), env)))
      .trim()
      .split("\n")
      .map((line) => JSON.parse(line) as { error?: unknown; clients?: unknown });
    assert.equal(answers.length, 5);
    for (const answer of answers) assert.equal(answer.error, undefined, JSON.stringify(answer));
    await eventually(() => !host.room.connection.isOpen);
  });

  it("list each kind with what it is about, by clients, and page and filter", async () => {
    const player = await aPlayer(api, tenant.key);
    const board = { key: `wins-${randomUUID().slice(0, 8)}`, name: "Wins" };
    const metric = { metric: { source: "CUSTOM" }, operator: "SUM", sort: "DESC" };
    must(await api.post("/api/v1/leaderboards", { ...board, ...metric }, { key: tenant.key }), 201);
    const host = await aLobby(api, tenant);
    await aGuest(api, tenant, host);
    await join(api, player.token, "player");
    await join(api, player.token, "leaderboard", { leaderboardKey: board.key });
    await join(api, player.token, "lobbies", { mode: "duel" });
    const channel = { kind: "PROJECT", key: `c-${randomUUID().slice(0, 8)}`, name: "Market" };
    const { id: channelId } = must(
      await api.post("/api/v1/chat/channels", channel, { key: tenant.key }),
      201,
    );
    await join(api, player.token, "chat", { channelId });

    const { data, pagination } = await rooms();
    assert.equal(pagination.total, 5);
    assert.deepEqual([data[0].kind, data[0].clients, data[0].roomId], ["lobby", 2, host.room.roomId]);
    const subjects = Object.fromEntries(
      data.map(({ kind, subject }: { kind: string; subject: string }) => [kind, subject]),
    );
    assert.deepEqual(subjects, {
      player: player.playerId,
      leaderboard: board.key,
      lobbies: "duel",
      lobby: host.lobbyId,
      chat: channelId,
    });
    assert.deepEqual(pluck((await rooms("&kind=chat")).data, "subject"), [channelId]);
    const own = async (key: string) => must(await api.get("/api/v1/rooms", { key }), 200);
    const listed = (await own(tenant.key)).data;
    assert.deepEqual(
      listed.flatMap(({ playerId }: { playerId: string | null }) => playerId ?? []),
      [player.playerId],
    );
    // The id of a private lobby is enough to join it.
    assert.ok(!JSON.stringify(listed).includes(host.lobbyId));
    assert.equal((await own((await aTenant(api)).key)).pagination.total, 0);
    const { processId } = data[0];
    assert.equal((await rooms(`&processId=${processId}`)).pagination.total, 5);
    assert.equal((await rooms("&processId=nobody")).pagination.total, 0);

    const sorted = "&sort=createdAt&order=asc";
    const whole = (await rooms(sorted)).data;
    assert.equal(whole[0].kind, "lobby", "it was made first");
    const [first, second] = [await rooms(`${sorted}&limit=3`), await rooms(`${sorted}&limit=3&page=2`)];
    assert.deepEqual([...first.data, ...second.data], whole);
    for (const bad of ["kind=queue", "projectId=x", "processId=%20", "sort=name", "limit=101"])
      assertError(await get(`rooms?${bad}`), 400);
  });

  it("look into a room: its state without secrets and names, and who is in it", async () => {
    const secrets = { joinCode: "let-me-in", nested: [{ authToken: "abc", mapName: "dunes" }] };
    const create = { metadata: secrets, passcode: "open-sesame", privateData: { seed: "hidden-seed" } };
    const host = await aLobby(api, tenant, create);
    const guest = await aGuest(api, tenant, host, { passcode: "open-sesame" });
    const shown = await look(host);
    const { code } = host.room.state;
    const text = JSON.stringify(shown);
    for (const secret of [code, "let-me-in", "abc", "open-sesame", "hidden-seed", host.token])
      assert.ok(!text.includes(`"${secret}"`), secret);
    assert.ok(!text.includes(host.externalUserId) && !text.includes(guest.externalUserId));
    assert.equal(shown.state.metadata.nested[0].mapName, "dunes");
    assert.deepEqual(Object.keys(shown.state.members).toSorted(), [host.playerId, guest.playerId].toSorted());
    assert.equal(shown.state.members[host.playerId].isHost, true);
    assert.equal(shown.isStateTruncated, false);
    const sessions = new Map(
      shown.sessions.map((one: { sessionId: string; playerId: string }) => [one.sessionId, one.playerId]),
    );
    assert.deepEqual(
      sessions,
      new Map([
        [host.room.sessionId, host.playerId],
        [guest.room.sessionId, guest.playerId],
      ]),
    );
    for (const { joinedAt, bufferedBytes, userId } of shown.sessions) {
      assert.ok(Date.parse(joinedAt) <= Date.now());
      assert.deepEqual([bufferedBytes, userId], [0, null]);
    }
    const [listed] = (await rooms("&kind=lobby")).data.filter(
      ({ roomId }: { roomId: string }) => roomId === host.room.roomId,
    );
    const { state: _state, sessions: _sessions, isStateTruncated: _cut, ...same } = shown;
    assert.deepEqual(same, listed);
  });

  it("see no text of a chat, and no more than 64 KiB of a state", async () => {
    const channel = { kind: "PROJECT", key: `c-${randomUUID().slice(0, 8)}`, name: "Market" };
    const { id: channelId } = must(
      await api.post("/api/v1/chat/channels", channel, { key: tenant.key }),
      201,
    );
    const { token } = await aPlayer(api, tenant.key);
    const chat = await join(api, token, "chat", { channelId });
    await chat.room.request("chat.send", { content: "meet me at the harbour" });
    const shown = await look(chat);
    assert.equal(shown.state.lastSeq, 1);
    assert.ok(!JSON.stringify(shown).includes("harbour"));

    const metadata = { filler: "ä".repeat(900) };
    const other = await aTenant(api);
    for (let made = 0; made < 45; made++)
      must(
        await api.post("/api/v1/lobbies", { mode: "duel", maxPlayers: 2, metadata }, { key: other.key }),
        201,
      );
    const watcher = await aPlayer(api, other.key);
    const list = await join(api, watcher.token, "lobbies");
    const cut = await look(list);
    assert.equal(cut.isStateTruncated, true);
    const shownRows = Object.keys(cut.state.lobbies).length;
    assert.ok(shownRows > 20 && shownRows < 45, String(shownRows));
    assert.ok(Buffer.byteLength(JSON.stringify(cut.state)) <= 64 * 1024);
  });

  it("see the processes with what they hold", async () => {
    const { data, pagination } = must(await get("processes"), 200);
    assert.equal(pagination.total, 1);
    const [own] = data;
    assert.deepEqual([own.isAnswering, own.pid], [true, process.pid]);
    assert.deepEqual(own.roles.toSorted(), ["web", "worker"]);
    const { data: chats, pagination: all } = must(await get("rooms?kind=chat&limit=100"), 200);
    assert.equal(own.rooms.chat, all.total);
    assert.ok(own.clients.chat >= chats.length && own.memory.rssBytes > own.memory.heapUsedBytes);
    assert.ok(Date.parse(own.since) < Date.now() && /^\d+\.\d+\.\d+/.test(own.version));
    assert.equal(must(await get("processes?page=2"), 200).data.length, 0);
  });

  it("end a session, which is told so and may come back, and the tenant's log says why", async () => {
    const player = await aPlayer(api, tenant.key);
    const first = await join(api, player.token, "player");
    const second = await join(api, player.token, "player");
    const { roomId, sessionId } = first.room;
    assert.deepEqual(must(await disconnect(roomId, sessionId), 200), { disconnected: true });
    await eventually(() => first.left);
    assert.equal(first.left!.code, 4001);
    assert.deepEqual(first.named("session.closed")[0]?.data, { reason: "DISCONNECTED" });
    assert.equal(second.left, undefined);
    const [entry] = must(
      await api.get("/api/v1/audit-log?action=room.client_disconnected&limit=1", { token: tenant.token }),
      200,
    ).data;
    assert.deepEqual([entry.actor, entry.target], [`admin:${admin.adminId}`, { type: "room", id: roomId }]);
    const { reason, sessionId: ended, playerId, kind } = entry.data;
    assert.deepEqual([reason, ended, playerId, kind], ["It hangs", sessionId, player.playerId, "player"]);

    await eventuallyHolds(async () => assertError(await disconnect(roomId, sessionId), 404));
    const third = await join(api, player.token, "player");
    await eventuallyHolds(async () => assert.equal((await look(third)).sessions.length, 2));
    assertError(await disconnect(roomId, third.room.sessionId, { reason: " " }), 400);
    assert.equal(third.left, undefined);
  });

  it("are told 404 for what is not there", async () => {
    const { room } = await join(api, (await aPlayer(api, tenant.key)).token, "player");
    for (const id of ["unknown", randomUUID(), "%20", "__proto__", "constructor"]) {
      assertError(await get(`rooms/${id}`), 404);
      assertError(await disconnect(id, room.sessionId), 404);
      assertError(await disconnect(room.roomId, id), 404);
    }
    await room.leave();
    await eventuallyHolds(async () => assertError(await get(`rooms/${room.roomId}`), 404));
    const without = await anotherServer(api, {}, { liveRooms: undefined });
    for (const path of PATHS)
      assertError(await without.get(`/api/v1/admin/${path}`, { token: admin.token }), 404);
  });
});
