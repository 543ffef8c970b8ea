import assert from "node:assert/strict";
import { matchMaker } from "@colyseus/core";
import { sql } from "kysely";
import { connectMember, disconnectMember } from "../../src/domain/social/lobbies/commands.ts";
import { lobbyRoomId } from "../../src/rooms/mirror-room.ts";
import { settleOrphans } from "../../src/rooms/game-server.ts";
import { LobbyPresence } from "../../src/rooms/lobby-mirror.ts";
import { aTenant, startApp, type Tenant, type TestApp } from "../support/app/app.ts";
import { must } from "../support/http/client.ts";
import { eventually } from "../support/eventually.ts";
import { aGuest, aLobby, enter, memberIn, readByApi } from "../support/lobbies/room.ts";
import { aPlayer, type Player } from "../support/rooms/sdk.ts";

describe("who is in a lobby", () => {
  let api: TestApp;
  let tenant: Tenant;
  before(async () => {
    api = await startApp();
    tenant = await aTenant(api);
  });

  const refOf = (lobbyId: string) => ({ projectId: tenant.projectId, lobbyId });

  /** A lobby whose members were there by socket when their process ended. */
  const aLobbyOfBefore = async (): Promise<{ lobbyId: string; players: Player[] }> => {
    const { key } = tenant;
    const players = [await aPlayer(api, key), await aPlayer(api, key)];
    const [hostPlayerId] = players.map(({ playerId }) => playerId);
    const body = { mode: "duel", maxPlayers: 4, hostPlayerId };
    const { id: lobbyId } = must(await api.post("/api/v1/lobbies", body, { key }), 201);
    const { playerId } = players[1]!;
    must(await api.post(`/api/v1/lobbies/${lobbyId}/join`, { playerId }, { key }), 200);
    for (const player of players)
      await api.app.transact((work) => connectMember(work, refOf(lobbyId), player.playerId));
    return { lobbyId, players };
  };

  const statuses = async (lobbyId: string): Promise<string[]> =>
    (await readByApi(api, tenant, lobbyId)).members.map(({ status }) => status);

  it("keeps, in a game, the seat of who leaves, ends their sockets and lets them come back", async () => {
    const host = await aLobby(api, tenant, { settings: { readyPolicy: "HOST", countdownSeconds: 0 } });
    const guest = await aGuest(api, tenant, host);
    const again = await enter(api, guest, { lobbyId: host.lobbyId });
    await host.room.request("lobby.start", {});
    await guest.room.request("lobby.leave", {});
    await eventually(() => guest.left?.code === 4000 && again.left?.code === 4000);
    await eventually(() => memberIn(host, guest)?.status === "DISCONNECTED");
    const back = await enter(api, guest, { lobbyId: host.lobbyId });
    await eventually(() => memberIn(host, guest)?.status === "JOINED");
    for (const { room } of [back, host]) await room.leave();
  });

  it("is there whose socket is there, whatever another room of the lobby has seen", async () => {
    const host = await aLobby(api, tenant);
    const guest = await aGuest(api, tenant, host);
    const { version } = host.room.state;
    await api.app.transact((work) => disconnectMember(work, refOf(host.lobbyId), guest.playerId));
    await eventually(
      () => memberIn(host, guest)?.status === "JOINED" && host.room.state.version >= version + 2,
    );
    for (const { room } of [guest, host]) await room.leave();
  });

  it("is away who does not come back to the room after a restart", async () => {
    const { lobbyId, players } = await aLobbyOfBefore();
    const [host, guest] = players as [Player, Player];
    const first = await enter(api, host, { lobbyId });
    await eventually(() => memberIn(first, guest)?.status === "DISCONNECTED");
    assert.equal(memberIn(first, host)?.status, "JOINED");
    await first.room.leave();
  });

  it("is away, too, when nobody comes back, and not before the lobby was quiet for a while", async () => {
    const [{ lobbyId }, present] = [await aLobbyOfBefore(), await aLobby(api, tenant)];
    await settleOrphans(api.app);
    assert.deepEqual(await statuses(lobbyId), ["JOINED", "JOINED"]);
    await api.app.transact(({ db }) =>
      sql`update lobbies set updated_at = updated_at - interval '1 minute'
        where project_id = ${tenant.projectId}`.execute(db),
    );
    await settleOrphans(api.app);
    assert.deepEqual(await statuses(lobbyId), ["DISCONNECTED", "DISCONNECTED"]);
    assert.deepEqual(await statuses(present.lobbyId), ["JOINED"]);
    await present.room.leave();
  });

  it("is there in a room of this process, listed or not", async () => {
    const host = await aLobby(api, tenant);
    const { version } = host.room.state;
    await api.app.transact(({ db }) =>
      sql`update lobbies set updated_at = updated_at - interval '1 minute'
        where project_id = ${tenant.projectId} and id = ${host.lobbyId}`.execute(db),
    );
    assert.ok(await matchMaker.driver.remove(lobbyRoomId(tenant.projectId, host.lobbyId)));
    await settleOrphans(api.app);
    assert.equal((await readByApi(api, tenant, host.lobbyId)).version, version);
    await host.room.leave();
  });

  it("keeps no socket when the last player was taken out and the lobby has ended", async () => {
    const host = await aLobby(api, tenant);
    const path = `/api/v1/lobbies/${host.lobbyId}/leave`;
    must(await api.post(path, { playerId: host.playerId }, { key: tenant.key }), 200);
    await eventually(() => host.left);
    assert.equal(host.left?.code, 4000);
    assert.equal(host.named("session.closed")[0]?.data.reason, "LEFT");
  });

  it("watches, as a spectator, without a seat", async () => {
    const host = await aLobby(api, tenant, { maxPlayers: 2, settings: { allowSpectators: true } });
    const guest = await aGuest(api, tenant, host);
    const spectator = await aGuest(api, tenant, host, { asSpectator: true });
    assert.equal(host.room.state.memberCount, 2);
    await eventually(() => memberIn(guest, spectator));
    const again = await enter(api, spectator, { lobbyId: host.lobbyId });
    for (const { room } of [again, spectator, guest, host]) await room.leave();
  });

  it("is missed again when the database could not be told, unless they have come back", async () => {
    let outages = 2;
    let commits = 0;
    const presence = new LobbyPresence({
      ref: () => refOf("lobby"),
      commit: async () => {
        if (outages-- > 0) throw new Error("the database is away");
        commits++;
      },
      refresh: async () => undefined,
      onError: () => undefined,
    });
    await presence.reportAbsence("gone", "DISCONNECT");
    await presence.reportAbsence("back", "DISCONNECT");
    await presence.arrive("session", "back");
    await presence.retry();
    await presence.retry();
    // One that "back" is here and one that "gone" is not.
    assert.equal(commits, 2);
    assert.equal(presence.depart("session"), "back");
  });
});
