import assert from "node:assert/strict";
import type { Json } from "../../src/domain/kernel/events/events.ts";
import { startApp } from "../support/app/app.ts";
import { assertError } from "../support/http/assert-error.ts";
import { must } from "../support/http/client.ts";
import { eventually } from "../support/eventually.ts";
import { aLobbyGame } from "../support/lobbies/room.ts";
import { madeOnce } from "../support/made.ts";

describe("games of lobbies", () => {
  const api = madeOnce(startApp);
  const game = madeOnce(() => aLobbyGame(api));
  before(async () => {
    const rule = await game.make("/rules", {
      key: "winners",
      name: "Winners",
      triggers: [{ kind: "EVENT", eventTypes: ["lobby.result"] }],
      conditions: { all: [{ type: "event_property", path: "outcome", op: "eq", value: "WIN" }] },
      actions: [{ type: "grant_xp", amount: { $ref: "event.properties.score" } }],
    });
    must(await game.post(`/rules/${rule.id}/publish`), 200);
  });

  const begun = async (guests: number, settings: Json = {}) => {
    const body = { settings: { countdownSeconds: 0, ...settings } };
    const { lobby, host, guests: others } = await game.filled(guests, body);
    const started = must(await game.act(lobby, "start", { playerId: host }), 200);
    return { lobby: started, host, others, matchId: String(started.matchId) };
  };
  const results = (winner: string, losers: readonly string[]) => [
    { playerId: winner, outcome: "WIN", score: 70, stats: { kills: 3 } },
    ...losers.map((playerId) => ({ playerId, outcome: "LOSS", score: 7 })),
  ];
  const xpOf = async (playerId: string) => must(await game.get(`/players/${playerId}`), 200).xp;
  const count = async (type: string, lobbyId: string): Promise<number> => {
    const rows = await api.sql<{ n: number }>`
      select count(*)::int as n from outbox
      where project_id = ${game.tenant.projectId} and type = ${type}
        and data->>'lobbyId' = ${lobbyId}`;
    return rows[0]!.n;
  };

  it("end once with their results, which rules hear as events of the players", async () => {
    const { lobby, host, others, matchId } = await begun(1);
    const body = { matchId, results: results(host, others) };
    const ends = await Promise.all(Array.from({ length: 5 }, () => game.act(lobby, "end", body)));
    for (const answer of ends) assert.equal(must(answer, 200).closeReason, "COMPLETED");
    await eventually(async () => (await xpOf(host)) === 70, { label: "the winner has XP" });
    assert.equal(await xpOf(others[0]!), 0);
    const { data } = must(await game.get("/events?eventType=lobby.result"), 200);
    assert.equal(data.length, 2);
    const won = data.find(({ properties }: Json) => (properties as Json)["outcome"] === "WIN");
    assert.deepEqual([won.properties.matchId, won.properties.stats], [matchId, { kills: 3 }]);
    assert.deepEqual(
      [await count("lobby.ended", lobby.id), await count("lobby.game_finished", lobby.id)],
      [1, 1],
    );
    const closed = await game.read(lobby);
    assert.equal(closed.results!.length, 2);
    assert.deepEqual([closed.memberCount, closed.members], [0, []]);
    const sent = { externalUserId: "u", eventType: "lobby.result" };
    assertError(await game.post("/events", sent), 400);
  });

  it("take one result for each player of the match, from who may end it", async () => {
    const { lobby, host, others, matchId } = await begun(1);
    const end = (body: object) => game.act(lobby, "end", { matchId, ...body });
    const [first, second] = results(host, others);
    assertError(await end({ results: [first] }), 400);
    assertError(await end({ results: [first, first] }), 400);
    assertError(await end({ results: [first, second, { ...second!, playerId: lobby.id }] }), 400);
    assertError(await end({ results: [first, second], playerId: host }), 403, "NOT_SERVER");
    assertError(await end({ matchId: lobby.id, results: [first, second] }), 409, "MATCH_UNKNOWN");
    const { externalUserId } = lobby.members.find((one: Json) => one["playerId"] === host);
    const named = [{ ...first!, playerId: `ext:${externalUserId}` }, second];
    const spelled = { matchId: matchId.toUpperCase(), results: named };
    assert.equal(must(await end(spelled), 200).status, "CLOSED");
  });

  it("keep a seat for who leaves, unless they leave for good, and let in who comes late", async () => {
    const { lobby, host, others, matchId } = await begun(1, { allowLateJoin: true });
    const left = must(await game.act(lobby, "leave", { playerId: others[0] }), 200);
    assert.equal(left.members[1].status, "DISCONNECTED");
    assert.equal(must(await game.join(lobby, others[0]!), 200).members[1].status, "READY");
    const late = await game.someone();
    must(await game.join(lobby, late), 200);
    must(await game.act(lobby, "leave", { playerId: host, final: true }), 200);
    const { hostPlayerId, memberCount } = await game.read(lobby);
    assert.deepEqual([hostPlayerId, memberCount], [others[0], 2]);
    const all = { matchId, results: results(late, [host, ...others]) };
    assert.equal(must(await game.act(lobby, "end", all), 200).status, "CLOSED");
  });

  it("begin by themselves after the countdown, which an unready member stops", async () => {
    const stopped = await game.filled(1, { settings: { countdownSeconds: 60, autoStart: true } });
    assert.equal(stopped.lobby.status, "STARTING");
    must(await game.act(stopped.lobby, "ready", { playerId: stopped.host, ready: false }), 200);
    assert.equal((await game.read(stopped.lobby)).status, "OPEN");
    const { lobby } = await game.filled(1, { settings: { countdownSeconds: 1, autoStart: true } });
    await eventually(async () => (await game.read(lobby)).status === "IN_GAME", { label: "the game began" });
    assert.equal(await count("lobby.started", lobby.id), 1);
  });

  it("deal players into teams by their strength, and tell who is in which", async () => {
    const players = await game.several(4);
    for (const [i, playerId] of players.entries())
      must(await game.patch(`/players/${playerId}`, { attributes: { skill: [9, 5, 4, 0][i] } }), 200);
    const teams = { count: 2, size: 2, assignment: "BALANCED", balanceBy: "skill" };
    const settings = { countdownSeconds: 0, readyPolicy: "HOST", teams };
    const lobby = await game.open({ settings });
    for (const playerId of players) must(await game.join(lobby, playerId), 200);
    const { members } = must(await game.act(lobby, "start"), 200);
    const teamOf = (i: number) =>
      members.find(({ playerId }: { playerId: string }) => playerId === players[i]).team;
    assert.equal(teamOf(0), teamOf(3));
    assert.equal(teamOf(1), teamOf(2));
    assert.notEqual(teamOf(0), teamOf(1));
  });

  it("have teams that members choose, each place once", async () => {
    const settings = { teams: { count: 2, size: 1 } };
    const { lobby, host, guests } = await game.filled(1, { maxPlayers: 2, settings });
    const choose = (playerId: string, body: object) =>
      game.patch(`/lobbies/${lobby.id}/members/${playerId}`, { ...body, actingPlayerId: playerId });
    assertError(await game.act(lobby, "start"), 409, "LOBBY_NOT_READY");
    must(await choose(host, { team: 1 }), 200);
    assertError(await choose(guests[0]!, { team: 1 }), 409, "TEAM_FULL");
    assertError(await choose(guests[0]!, { team: 1, slot: 1 }), 409, "SLOT_TAKEN");
    assertError(await choose(guests[0]!, { team: 3 }), 400);
    must(await choose(guests[0]!, { team: 2 }), 200);
    assert.equal(must(await game.act(lobby, "start"), 200).status, "STARTING");
  });
});
