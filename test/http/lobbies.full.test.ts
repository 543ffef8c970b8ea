import assert from "node:assert/strict";
import { sql } from "kysely";
import type { Json } from "../../src/domain/kernel/events/events.ts";
import type { LobbyView } from "../../src/domain/kernel/events/social-views.ts";
import { pruneEnded } from "../../src/jobs/sweeps.ts";
import { startApp } from "../support/app/app.ts";
import { assertError } from "../support/http/assert-error.ts";
import { must } from "../support/http/client.ts";
import { eventually } from "../support/eventually.ts";
import { aLobbyGame } from "../support/lobbies/room.ts";
import { madeOnce } from "../support/made.ts";

const CODE = /^[ABCDEFGHJKMNPQRSTVWXYZ2-9]{6}$/;
const GHOST = "00000000-0000-7000-8000-000000000000";

describe("lobbies", () => {
  const api = madeOnce(startApp);
  const game = madeOnce(() => aLobbyGame(api));

  const told = async (lobbyId: string): Promise<[string, Json][]> => {
    const rows = await api.sql<{ type: string; data: Json }>`
      select type, data from outbox
      where project_id = ${game.tenant.projectId} and data->>'lobbyId' = ${lobbyId}
      order by id`;
    return rows.map(({ type, data }) => [type, data]);
  };
  const namesIn = ({ members }: LobbyView): string[] => members.map(({ playerId }) => playerId);

  it("open with a host in the first seat, a code, and settings over the defaults", async () => {
    const host = await game.someone();
    const lobby = await game.open({
      hostPlayerId: host,
      settings: { countdownSeconds: 9 },
      metadata: { region: "eu" },
    });
    assert.match(lobby.code, CODE);
    assert.deepEqual(
      { status: lobby.status, version: lobby.version, count: lobby.memberCount, host: lobby.hostPlayerId },
      { status: "OPEN", version: 1, count: 1, host },
    );
    assert.equal(lobby.settings.countdownSeconds, 9);
    assert.equal(lobby.settings.readyPolicy, "ALL");
    assert.equal(lobby.members[0]!.slot, 1);
    assert.ok(lobby.channelId);
    const types = (await told(lobby.id)).map(([type]) => type);
    assert.deepEqual(types, ["lobby.created", "lobby.member_joined", "lobby.changed"]);
    const found = must(await game.get(`/lobbies/by-code/${lobby.code.toLowerCase()}`), 200);
    assert.equal(found.id, lobby.id);
  });

  it("refuse what is wrong, naming the field", async () => {
    const refuse = async (body: object, field: string) => {
      const answer = await game.post("/lobbies", { mode: "m", maxPlayers: 4, ...body });
      assertError(answer, 400);
      assert.ok(answer.body.error.message.startsWith(field), answer.body.error.message);
    };
    await refuse({ minPlayers: 3, maxPlayers: 2 }, "maxPlayers");
    const quick = await game.post("/lobbies/quickplay", { mode: "m", playerId: GHOST, near: { max: 3 } });
    assertError(quick, 400);
    assertError(await game.get(`/lobbies/${GHOST}`), 404);
    assertError(await game.get("/lobbies/nothing"), 404);
    assertError(await game.join(await game.open(), GHOST), 404);
  });

  it("show privateData to members and servers, and private lobbies in no list of players", async () => {
    const [host, stranger] = await game.several(2);
    const body = { mode: "hidden", visibility: "PRIVATE", privateData: { secret: 1 }, playerId: host };
    const lobby = await game.open(body);
    const seen = async (query: string) =>
      must(await game.get(`/lobbies/${lobby.id}${query}`), 200).privateData;
    assert.deepEqual(await seen(""), { secret: 1 });
    assert.deepEqual(await seen(`?playerId=${host}`), { secret: 1 });
    assert.equal(await seen(`?playerId=${stranger}`), undefined);
    const { data } = must(await game.get("/lobbies?mode=hidden"), 200);
    assert.deepEqual([data.length, data[0].privateData], [1, undefined]);
    assert.equal(must(await game.get(`/lobbies?mode=hidden&playerId=${stranger}`), 200).pagination.total, 0);
    const left = must(await game.act(lobby, "leave", { playerId: host }), 200);
    assert.equal(left.privateData, undefined);
    assert.equal(left.closeReason, "EMPTY");
  });

  it("are found by mode, room and metadata, numbers too", async () => {
    const full = await game.open({ mode: "found", maxPlayers: 2, metadata: { level: 5 } });
    for (const player of await game.several(2)) must(await game.join(full, player), 200);
    const free = await game.open({ mode: "found", metadata: { level: "5", flags: { a: 1 } } });
    const ids = async (query: string) =>
      must(await game.get(`/lobbies?mode=found&sort=memberCount&${query}`), 200).data.map(
        ({ id }: LobbyView) => id,
      );
    assert.deepEqual(await ids("meta.level=5"), [full.id, free.id]);
    assert.deepEqual(await ids("meta.level=6"), []);
    assert.deepEqual(await ids("hasSpace=true"), [free.id]);
    assert.deepEqual(await ids("hasSpace=false"), [full.id]);
    must(await game.act(free, "close"), 200);
    assert.deepEqual(await ids("status=CLOSED"), [free.id]);
  });

  it("take a passcode from who is not invited, and five attempts a minute", async () => {
    const [host, guest, guesser] = await game.several(3);
    const lobby = await game.open({ hostPlayerId: host, passcode: "open sesame" });
    assert.deepEqual([lobby.hasPasscode, JSON.stringify(lobby).includes("sesame")], [true, false]);
    assertError(await game.join(lobby, guesser!), 403, "INVALID_PASSCODE");
    for (let i = 0; i < 5; i++)
      assertError(await game.join(lobby, guesser!, { passcode: `no ${i}` }), 403, "INVALID_PASSCODE");
    assertError(await game.join(lobby, guesser!, { passcode: "open sesame" }), 429, "LOBBY_PASSCODE");
    must(await game.join(lobby, guest!, { passcode: "open sesame" }), 200);
    must(await game.act(lobby, "invites", { playerId: host, playerIds: [guesser] }), 200);
    const joined = must(await game.act(lobby, "invites/respond", { playerId: guesser, accept: true }), 200);
    assert.deepEqual(namesIn(joined), [host, guest, guesser]);
    assertError(await game.act(lobby, "invites/respond", { playerId: guesser, accept: true }), 404);
    const { version } = await game.read(lobby);
    const open = must(
      await api.patch(`/api/v1/lobbies/${lobby.id}`, { version, passcode: null }, { key: game.tenant.key }),
      200,
    );
    assert.equal(open.hasPasscode, false);
  });

  it("keep out who was banned, by the project or by the lobby", async () => {
    const [host, rude, banned] = await game.several(3);
    const lobby = await game.open({ hostPlayerId: host });
    must(await game.join(lobby, rude!), 200);
    must(await game.join(lobby, banned!), 200);
    const kick = { playerId: rude, ban: true, reason: "rude", actingPlayerId: host };
    assert.deepEqual(namesIn(must(await game.act(lobby, "kick", kick), 200)), [host, banned]);
    assertError(await game.join(lobby, rude!), 403, "PLAYER_BANNED");
    const wish = { mode: lobby.mode, playerId: rude, createIfNone: false };
    assertError(await game.post("/lobbies/quickplay", wish), 404);
    must(await game.post(`/players/${banned}/status`, { status: "BANNED", reason: "cheats" }), 200);
    assert.deepEqual(namesIn(await game.read(lobby)), [host]);
    assertError(await game.join(lobby, banned!), 403, "PLAYER_BANNED");
    const notices = (await told(lobby.id)).length;
    assert.ok(notices > 0);
  });

  it("lose a player who is merged, erased or deleted, and find another host", async () => {
    const { lobby, host, guests } = await game.filled(3);
    const [target, erased, deleted] = guests;
    must(await game.post(`/players/${target}/merge`, { sourcePlayerId: host }), 200);
    assert.deepEqual((await game.read(lobby)).hostPlayerId, target);
    must(await game.remove(`/players/${deleted}`), 200);
    must(await game.post(`/players/${erased}/erase`, { reason: "asked to" }), 201);
    await eventually(async () => (await game.read(lobby)).memberCount === 1, {
      label: "all others have left",
    });
    assert.deepEqual(namesIn(await game.read(lobby)), [target]);
  });

  it("are gone seven days after they were closed, with all that is theirs", async () => {
    const { lobby, host, guests } = await game.filled(1, { settings: { countdownSeconds: 0 } });
    must(await game.act(lobby, "start"), 200);
    must(await game.act(lobby, "kick", { playerId: guests[0], ban: true }), 200);
    must(await game.act(lobby, "invites", { playerIds: [await game.someone()] }), 200);
    must(await game.act(lobby, "close"), 200);
    const age = (days: number) =>
      api.sql`update lobbies set ended_at = now() - ${days}::int * interval '1 day'
        where id = ${lobby.id}`;
    await age(6);
    await pruneEnded.run(api.app, "*");
    assert.equal((await game.read(lobby)).status, "CLOSED");
    await age(8);
    await pruneEnded.run(api.app, "*");
    assertError(await game.get(`/lobbies/${lobby.id}?playerId=${host}`), 404);
    for (const table of ["lobby_members", "lobby_invites", "lobby_bans", "lobby_matches"]) {
      const rows = await api.sql`select from ${sql.table(table)} where lobby_id = ${lobby.id}`;
      assert.equal(rows.length, 0, table);
    }
  });

  it("let a player do what a player may, and the server everything", async () => {
    const { lobby, host, guests } = await game.filled(1);
    const guest = { playerId: guests[0] };
    for (const what of ["start", "close"]) assertError(await game.act(lobby, what, guest), 403, "NOT_HOST");
    assertError(
      await game.act(lobby, "kick", { playerId: host, actingPlayerId: guests[0] }),
      403,
      "NOT_HOST",
    );
    assertError(await game.act(lobby, "leave"), 400);
    assertError(
      await game.act(lobby, "ready", { playerId: await game.someone(), ready: true }),
      409,
      "NOT_IN_LOBBY",
    );
    const handed = must(await game.act(lobby, "host", { ...guest, actingPlayerId: host }), 200);
    assert.equal(handed.hostPlayerId, guests[0]);
    must(await game.act(lobby, "start", { countdownSeconds: 0 }), 200);
    assertError(
      await game.act(lobby, "kick", { playerId: host, actingPlayerId: guests[0] }),
      409,
      "INVALID_STATE",
    );
    assert.equal(must(await game.act(lobby, "close"), 200).closeReason, "ADMIN");
  });

  it("change only from the version that is told", async () => {
    const lobby = await game.open();
    const change = (body: object) => api.patch(`/api/v1/lobbies/${lobby.id}`, body, { key: game.tenant.key });
    const names = await Promise.all(
      Array.from({ length: 5 }, (_, i) => change({ version: 1, name: `n${i}` })),
    );
    assert.equal(names.filter(({ status }) => status === 200).length, 1);
    for (const answer of names) if (answer.status !== 200) assertError(answer, 409, "VERSION_CONFLICT");
    const teams = { count: 2, size: 2 };
    const patched = must(await change({ version: 2, settings: { teams, autoStart: true } }), 200);
    assert.deepEqual(patched.settings.teams, { ...teams, assignment: "MANUAL" });
  });
});
