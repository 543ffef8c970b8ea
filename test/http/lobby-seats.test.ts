import assert from "node:assert/strict";
import { startApp, type TestApp } from "../support/app/app.ts";
import { assertError } from "../support/http/assert-error.ts";
import { must } from "../support/http/client.ts";
import { aLobbyGame, type LobbyGame } from "../support/lobbies/room.ts";
import { pluck } from "../support/pluck.ts";

describe("seats of lobbies", () => {
  let api: TestApp;
  let game: LobbyGame;
  before(async () => {
    api = await startApp();
    game = await aLobbyGame(api);
    const { token, projectId } = game.tenant;
    const settings = { lobby: { onePerMode: false } };
    must(await api.patch(`/api/v1/projects/${projectId}`, { settings }, { token }), 200);
  });

  const AUTOMATIC = { autoStart: true, countdownSeconds: 60 };

  /** A lobby of players of whom nobody is ready. */
  const seated = async (count: number, body: object) => {
    const [host, ...others] = (await game.several(count)) as [string, ...string[]];
    const lobby = await game.open({ hostPlayerId: host, minPlayers: 2, ...body });
    for (const playerId of others) must(await game.join(lobby, playerId), 200);
    const ready = async (playerId: string): Promise<string> =>
      must(await game.act(lobby, "ready", { playerId, ready: true }), 200).status;
    return { lobby, host, others, ready };
  };

  it("are given by quickplay in lobbies in which the player is not already, in whatever role", async () => {
    const [eve, fay] = [await game.someone(), await game.someone()];
    const wish = { mode: "duel", maxPlayers: 2, playerId: eve };
    await game.open({ mode: "duel", maxPlayers: 2, hostPlayerId: eve });
    const other = await game.open({ mode: "duel", maxPlayers: 2, hostPlayerId: fay });
    assert.equal(must(await game.post("/lobbies/quickplay", wish), 200).lobby.id, other.id);
    const watched = await game.open({ mode: "cup", hostPlayerId: fay, settings: { allowSpectators: true } });
    must(await game.post(`/lobbies/${watched.id}/join`, { playerId: eve, asSpectator: true }), 200);
    const { lobby } = must(await game.post("/lobbies/quickplay", { ...wish, mode: "cup" }), 201);
    assert.notEqual(lobby.id, watched.id);
  });

  it("start the game when the one for whom the others waited leaves, or is sent away", async () => {
    for (const change of ["leave", "kick"]) {
      const { lobby, host, others, ready } = await seated(3, { settings: AUTOMATIC });
      assert.deepEqual([await ready(host), await ready(others[0]!)], ["OPEN", "OPEN"]);
      must(await game.act(lobby, change, { playerId: others[1]! }), 200);
      assert.equal((await game.read(lobby)).status, "STARTING", change);
    }
  });

  it("start the game when there are no more of them than players", async () => {
    const { lobby } = await seated(2, { settings: AUTOMATIC, maxPlayers: 4 });
    const { version } = await game.read(lobby);
    const changed = await game.patch(`/lobbies/${lobby.id}`, { version, maxPlayers: 2 });
    assert.equal(must(changed, 200).status, "STARTING");
  });

  it("start the game when the last player has chosen a team", async () => {
    const settings = { ...AUTOMATIC, teams: { count: 2, size: 2, assignment: "MANUAL" } };
    const { lobby, host, others, ready } = await seated(2, { settings, maxPlayers: 4 });
    const players = [host, others[0]!];
    for (const playerId of players) assert.equal(await ready(playerId), "OPEN");
    for (const [i, playerId] of players.entries()) {
      const answer = await game.patch(`/lobbies/${lobby.id}/members/${playerId}`, { team: i + 1 });
      assert.equal(must(answer, 200).status, i === 0 ? "OPEN" : "STARTING");
    }
  });

  it("are offered to as many as the limit says, of whom those who are asked again count once", async () => {
    const lobby = await game.open({ hostPlayerId: await game.someone() });
    const players = Array.from({ length: 200 }, (_, i) => ({ externalUserId: `guest-${i}` }));
    must(await game.post("/players/batch", { players }), 200);
    const names = players.map(({ externalUserId }) => `ext:${externalUserId}`);
    for (let i = 0; i < 200; i += 20)
      must(await game.act(lobby, "invites", { playerIds: names.slice(i, i + 20) }), 200);
    must(await game.act(lobby, "invites", { playerIds: names.slice(50, 70) }), 200);
    const stranger = await game.someone();
    assertError(await game.act(lobby, "invites", { playerIds: [stranger] }), 409, "INVITE_LIMIT");
  });

  it("are the player's whose id is written in capitals", async () => {
    const host = await game.someone();
    const lobby = await game.open({ hostPlayerId: host });
    const playerId = host.toUpperCase();
    const { members } = must(await game.act(lobby, "ready", { playerId, ready: true }), 200);
    assert.deepEqual(pluck(members, "status"), ["READY"]);
  });
});
