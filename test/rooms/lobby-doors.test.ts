import assert from "node:assert/strict";
import { matchMaker } from "@colyseus/core";
import { sql } from "kysely";
import { LOBBY_COMMANDS } from "../../src/domain/social/lobbies/commands.ts";
import { lobbyTopic } from "../../src/domain/kernel/events/chat-views.ts";
import { SignalRate } from "../../src/rooms/lobby-room.ts";
import { lobbyRoomId, tickAll } from "../../src/rooms/mirror-room.ts";
import { aTenant, startApp, type Tenant, type TestApp } from "../support/app/app.ts";
import { must } from "../support/http/client.ts";
import { eventually } from "../support/eventually.ts";
import { aGuest, aLobby, enter, type InLobby, memberIn, rejection } from "../support/lobbies/room.ts";
import { aPlayer, join, matchmake, range } from "../support/rooms/sdk.ts";

/** What no request may carry, whatever it asks for, of what the SDK can encode at all. */
const HOSTILE: readonly unknown[] = [
  5,
  "x",
  [1],
  { data: "\0" },
  { constructor: 1 },
  { data: JSON.parse(`${"[".repeat(60)}${"]".repeat(60)}`) },
  { data: Number.NaN },
  { data: 2n ** 60n },
];

describe("the doors of a lobby", () => {
  let api: TestApp;
  let tenant: Tenant;
  before(async () => {
    api = await startApp();
    tenant = await aTenant(api);
  });

  const ask = async (token: string, body: object): Promise<[number, string | undefined]> => {
    const answer = await matchmake(api, "joinOrCreate/lobby", { token, body });
    return [answer.status, answer.body.error?.reason];
  };
  const consoleToken = async (): Promise<string> => {
    const { projectId, token } = tenant;
    return must(await api.post("/api/v1/auth/ws-token", { projectId }, { token }), 200).token;
  };

  it("are shut for another project, bad options and who is not let in", async () => {
    const host = await aLobby(api, tenant);
    const [player, stranger] = [await aPlayer(api, tenant.key), await aTenant(api)];
    const outsider = await aPlayer(api, stranger.key);
    const { lobbyId } = host;
    for (const body of [
      { lobbyId },
      { lobbyId, projectId: tenant.projectId },
      { code: host.room.state.code },
    ])
      assert.equal((await ask(outsider.token, body))[0], 404);
    const bad = [
      {},
      { lobbyId: "x" },
      { lobbyId, create: { mode: "duel", maxPlayers: 2 } },
      { create: { mode: "duel" } },
      { create: 5 },
      { lobbyId, data: "\0" },
    ];
    for (const body of bad) assert.equal((await ask(player.token, body))[0], 400, JSON.stringify(body));
    assert.deepEqual(await ask(player.token, { lobbyId, asSpectator: true }), [409, "LOBBY_NOT_OPEN"]);
    await host.room.leave();
  });

  it("have a seat for as many of those who come at once as there are, in one room", async () => {
    const host = await aLobby(api, tenant);
    const { code } = host.room.state;
    const players = await Promise.all(range(1, 12).map(() => aPlayer(api, tenant.key)));
    const joined = await Promise.allSettled(players.map((player) => enter(api, player, { code })));
    const seated = joined.flatMap((one) => (one.status === "fulfilled" ? [one.value] : []));
    assert.equal(seated.length, 3);
    for (const { room } of seated) assert.equal(room.roomId, host.room.roomId);
    await eventually(() => host.room.state.memberCount === 4 && host.room.state.members.size === 4);
    for (const { room } of [...seated, host]) await room.leave();
  });

  it("show private data to members only, and let the console watch and do nothing", async () => {
    const host = await aLobby(api, tenant, { privateData: { secret: "swordfish" } });
    assert.equal(JSON.parse(host.room.state.privateData).secret, "swordfish");
    const watcher = await join(api, await consoleToken(), "lobby", { lobbyId: host.lobbyId });
    await eventually(() => watcher.room.state.id === host.lobbyId);
    const { version } = host.room.state;
    await host.room.request("lobby.update", { version, privateData: { secret: "marlin" } });
    await eventually(() => JSON.parse(host.room.state.privateData).secret === "marlin");
    const guest = await aGuest(api, tenant, host);
    await eventually(() => JSON.parse(guest.room.state.privateData).secret === "marlin");
    await eventually(() => memberIn(watcher, guest));
    assert.doesNotMatch(JSON.stringify([watcher.room.state, watcher.heard]), /swordfish|marlin/);
    const { reason } = await rejection(watcher.room.request("lobby.ready", { ready: true }));
    assert.equal(reason, "PLAYER_TOKEN_REQUIRED");
    for (const { room } of [watcher, guest, host]) await room.leave();
  });

  it("refuse hostile payloads of every request, and nobody is the worse for it", async () => {
    const host = await aLobby(api, tenant);
    const names = [...Object.keys(LOBBY_COMMANDS), "lobby.signal"];
    assert.ok(names.length > 5);
    for (const name of names) {
      const guest = await aGuest(api, tenant, host);
      for (const payload of HOSTILE) {
        const { code } = await rejection(guest.room.request(name, payload));
        assert.equal(code, "VALIDATION_ERROR", `${name} ${String(payload)}`);
      }
      await guest.room.leave();
      await eventually(() => !memberIn(host, guest));
    }
    assert.equal((await host.room.request("lobby.ready", { ready: true })).version, host.room.state.version);
    await host.room.leave();
  });

  it("pass signals to the members they are for, and nothing too large", async () => {
    const host = await aLobby(api, tenant);
    const [one, two] = [await aGuest(api, tenant, host), await aGuest(api, tenant, host)];
    const signals = (who: InLobby) => who.named("lobby.signal").map(({ data }) => [data.from, data.payload]);
    await one.room.request("lobby.signal", { payload: { offer: 1 } });
    await host.room.request("lobby.signal", { to: [two.playerId], payload: "hush" });
    await eventually(() => signals(two).length === 2 && signals(host).length === 1);
    assert.deepEqual(signals(two), [
      [one.playerId, { offer: 1 }],
      [host.playerId, "hush"],
    ]);
    assert.deepEqual(signals(one), []);
    const big = { payload: "x".repeat(2_048) };
    assert.equal((await rejection(one.room.request("lobby.signal", big))).code, "VALIDATION_ERROR");
    for (const { room } of [two, one, host]) await room.leave();
  });

  it("let a member send 20 signals in a second, and as many in the next", () => {
    const rate = new SignalRate();
    for (const second of [0, 1]) {
      for (let i = 0; i < 20; i++) rate.count("ann", second * 1_000 + i);
      assert.throws(() => rate.count("ann", second * 1_000 + 999), { reason: "SIGNALS_PER_SECOND" });
    }
    rate.count("bob", 1_999);
  });

  it("show a change of which no word came", async () => {
    const host = await aLobby(api, tenant);
    const { projectId } = tenant;
    await api.app.transact(({ db }) =>
      sql`update lobbies set name = 'Renamed', version = version + 1
        where project_id = ${projectId} and id = ${host.lobbyId}`.execute(db),
    );
    tickAll();
    await eventually(() => host.room.state.name === "Renamed");
    await host.room.leave();
  });

  it("are shut to one who is no member any more, whatever the room shows", async () => {
    const host = await aLobby(api, tenant);
    const { lobbyId, room } = host;
    const player = await aPlayer(api, tenant.key);
    const listener = await join(api, player.token, "lobby", { lobbyId });
    // Nobody tells the room.
    await listener.room.leave(false);
    await eventually(() => room.state.members.get(player.playerId)?.status === "DISCONNECTED");
    await api.app.transact(({ db }) =>
      sql`update lobby_members set status = 'LEFT' where player_id = ${player.playerId}`.execute(db),
    );
    await assert.rejects(join(api, player.token, "lobby", { lobbyId }), /not in the lobby/);
  });

  it("keep what throws in one room from all others, and from the room itself", async () => {
    const [host, other] = [await aLobby(api, tenant), await aLobby(api, tenant)];
    const { projectId } = tenant;
    const room = matchMaker.getLocalRoomById(lobbyRoomId(projectId, host.lobbyId));
    const boom = () => {
      throw new Error("boom");
    };
    room.onMessage("boom", boom);
    room.clock.setTimeout(boom, 1);
    (room as unknown as { later(delayMs: number, run: () => void): void }).later(0, boom);
    for (const notice of [undefined, { version: 99 }, "x"])
      api.app.topics.publish(lobbyTopic(projectId, host.lobbyId), notice);
    host.room.send("boom", {});
    for (const { room: client } of [host, other]) {
      const { version } = await client.request("lobby.ready", { ready: true });
      await eventually(() => client.state.version === version);
    }
    for (const { room: client } of [host, other]) await client.leave();
  });
});
