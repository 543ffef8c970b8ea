import assert from "node:assert/strict";
import { aTenant, startApp, type Tenant, type TestApp } from "../support/app/app.ts";
import { must } from "../support/http/client.ts";
import { eventually, eventuallyHolds } from "../support/eventually.ts";
import {
  aGuest,
  aLobby,
  drop,
  enter,
  type InLobby,
  memberIn,
  readByApi,
  rejection,
  sharedState,
} from "../support/lobbies/room.ts";
import { aPlayer, matchmake } from "../support/rooms/sdk.ts";
import { pluck } from "../support/pluck.ts";

const GAME = ["lobby.countdown", "lobby.ended", "lobby.game_finished", "lobby.started"];

const told = ({ heard }: InLobby): string[] =>
  heard.map(({ name }) => name).filter((name) => GAME.includes(name));

const statusOf = (seenBy: InLobby, who: InLobby): string | undefined => memberIn(seenBy, who)?.status;

describe("room lobby", () => {
  let api: TestApp;
  let tenant: Tenant;
  before(async () => {
    api = await startApp();
    tenant = await aTenant(api);
  });

  const leaveAll = async (...all: InLobby[]): Promise<void> => {
    for (const { room } of all) if (room.connection.isOpen) await room.leave();
  };

  it("takes two clients through a whole game, who see the same and hear all once", async () => {
    const settings = { countdownSeconds: 3, endAuthority: "HOST" };
    const host = await aLobby(api, tenant, { settings, metadata: { region: "eu" } });
    const { code } = host.room.state;
    const guest = await enter(api, await aPlayer(api, tenant.key), { code, data: { hero: "elf" } });
    assert.equal(guest.lobbyId, host.lobbyId);
    await eventually(() => memberIn(host, guest)?.data === '{"hero":"elf"}');
    assert.equal(JSON.parse(host.room.state.metadata).region, "eu");

    assert.equal((await rejection(host.room.request("lobby.start", {}))).reason, "LOBBY_NOT_READY");
    for (const { room } of [host, guest]) await room.request("lobby.ready", { ready: true });
    const { version } = await host.room.request("lobby.start", {});
    // The answer follows the state that it is about.
    assert.deepEqual([host.room.state.status, host.room.state.version], ["STARTING", version]);
    await eventually(() => [host, guest].every(({ room }) => room.state.status === "IN_GAME"));
    const { matchId } = guest.room.state;
    const results = [host, guest].map(({ playerId }, i) => ({ playerId, outcome: i === 0 ? "WIN" : "LOSS" }));
    await host.room.request("lobby.end", { matchId, results });

    await eventuallyHolds(() => {
      for (const client of [host, guest]) {
        assert.equal(client.room.state.status, "CLOSED");
        assert.deepEqual(told(client).toSorted(), GAME);
      }
      assert.deepEqual(sharedState(guest), sharedState(host));
    });
    assert.equal(host.named("lobby.started")[0]?.data.matchId, matchId);
    assert.equal(host.named("lobby.ended")[0]?.data.closeReason, "COMPLETED");
    assert.equal(host.room.state.closeReason, "COMPLETED");
    await leaveAll(host, guest);
  });

  it("tells a client of a wrong passcode, and lives on", async () => {
    const host = await aLobby(api, tenant, { passcode: "sesame" });
    assert.equal(host.room.state.hasPasscode, true);
    const { token } = await aPlayer(api, tenant.key);
    for (const options of [{}, { passcode: "simsim" }]) {
      const body = { lobbyId: host.lobbyId, ...options };
      const refused = await matchmake(api, "joinOrCreate/lobby", { token, body });
      assert.deepEqual([refused.status, refused.body.error.reason], [403, "INVALID_PASSCODE"]);
    }
    const guest = await aGuest(api, tenant, host, { passcode: "sesame" });
    const { version } = host.room.state;
    await host.room.request("lobby.update", { version, passcode: "barley" });
    const late = await aGuest(api, tenant, host, { passcode: "barley" });
    await eventually(() => memberIn(host, guest) && memberIn(host, late));
    await leaveAll(late, guest, host);
  });

  it("keeps the seat of who was cut off, and takes it after the grace", async () => {
    const host = await aLobby(api, tenant, { settings: { graceSeconds: 60 } });
    const guest = await aGuest(api, tenant, host);
    await guest.room.request("lobby.ready", { ready: true });
    drop(tenant, guest);
    await eventually(() => statusOf(host, guest) === "DISCONNECTED");
    await eventually(() => statusOf(host, guest) === "READY", { label: "the SDK has come back" });
    await eventually(() => statusOf(guest, guest) === "READY");

    await host.room.request("lobby.update", {
      version: host.room.state.version,
      settings: { graceSeconds: 0 },
    });
    drop(tenant, guest, true);
    await eventually(() => !memberIn(host, guest), { label: "the grace is over" });
    await eventually(() => host.named("lobby.member_left").length > 0);
    assert.deepEqual(host.named("lobby.member_left")[0]?.data.reason, "TIMEOUT");
    await leaveAll(host);
  });

  it("counts a player once, however many sockets there are, and leaves with the last", async () => {
    const host = await aLobby(api, tenant);
    const one = await aGuest(api, tenant, host);
    const two = await enter(api, one, { lobbyId: host.lobbyId });
    assert.notEqual(one.room.sessionId, two.room.sessionId);
    assert.equal(host.room.state.memberCount, 2);
    await one.room.leave();
    drop(tenant, two);
    await eventually(() => statusOf(host, one) === "DISCONNECTED");
    await eventually(() => statusOf(host, one) === "JOINED");
    await two.room.leave();
    await eventually(() => !memberIn(host, one));
    await eventually(() => host.named("lobby.member_left")[0]?.data.reason === "LEFT");
    assert.equal(host.named("lobby.member_joined").length, 1);
    await leaveAll(host);
  });

  it("shows what the API has changed, and the API what the room has", async () => {
    const { key } = tenant;
    const host = await aLobby(api, tenant);
    const guest = await aPlayer(api, key);
    must(await api.post(`/api/v1/lobbies/${host.lobbyId}/join`, { playerId: guest.playerId }, { key }), 200);
    await eventually(() => memberIn(host, guest) && host.named("lobby.member_joined").length === 1);
    const { version } = await host.room.request("lobby.ready", { ready: true });
    const shown = await readByApi(api, tenant, host.lobbyId);
    assert.equal(shown.version, version);
    assert.deepEqual(pluck(shown.members, "playerId", "status"), [
      [host.playerId, "READY"],
      [guest.playerId, "JOINED"],
    ]);
    must(await api.post(`/api/v1/lobbies/${host.lobbyId}/close`, {}, { key }), 200);
    await eventually(() => host.named("lobby.ended").length === 1 && host.room.state.status === "CLOSED");
    await leaveAll(host);
  });

  it("ends the sessions of who is kicked with 4403, and of who leaves elsewhere with 4000", async () => {
    const { key } = tenant;
    const host = await aLobby(api, tenant);
    const [kicked, gone] = [await aGuest(api, tenant, host), await aGuest(api, tenant, host)];
    await host.room.request("lobby.kick", { playerId: kicked.playerId, reason: "rude" });
    must(await api.post(`/api/v1/lobbies/${host.lobbyId}/leave`, { playerId: gone.playerId }, { key }), 200);
    await eventually(() => kicked.left && gone.left);
    assert.deepEqual([kicked.left?.code, gone.left?.code], [4403, 4000]);
    assert.equal(kicked.named("session.closed")[0]?.data.reason, "KICKED");
    assert.equal(gone.named("session.closed")[0]?.data.reason, "LEFT");
    await eventually(() => host.room.state.members.size === 1);
    await leaveAll(host);
  });

  it("answers a player who leaves before it ends the session", async () => {
    const host = await aLobby(api, tenant);
    const guest = await aGuest(api, tenant, host);
    const { version } = await guest.room.request("lobby.leave", {});
    assert.ok(version > 0);
    await eventually(() => guest.left);
    await eventually(() => !memberIn(host, guest));
    await leaveAll(host);
  });

  it("lets a lobby be found or made by quickplay", async () => {
    const quickplay = { mode: "quick" };
    const first = await enter(api, await aPlayer(api, tenant.key), { quickplay });
    const second = await enter(api, await aPlayer(api, tenant.key), { quickplay });
    assert.equal(first.lobbyId, second.lobbyId);
    await leaveAll(second, first);
  });
});
