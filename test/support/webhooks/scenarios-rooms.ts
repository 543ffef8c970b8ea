import type { LobbyView } from "../../../src/domain/kernel/events/chat-views.ts";
import { must } from "../http/client.ts";
import type { Scenario } from "./stage.ts";

/** Leo opens a lobby, Mia and Nils join, Nils leaves; Mia becomes host, and both play a game. */
const match: Scenario = {
  tells: [
    "lobby.created",
    "lobby.member_joined",
    "lobby.member_left",
    "lobby.host_changed",
    "lobby.started",
    "lobby.game_finished",
    "lobby.ended",
  ],
  play: async ({ game }) => {
    const players = [];
    for (const name of ["Leo", "Mia", "Nils"])
      players.push(await game.make("/players", { externalUserId: name.toLowerCase(), displayName: name }));
    const [leo, mia, nils] = players.map(({ id }) => id as string);
    const teams = { count: 2, size: 1, assignment: "BALANCED", balanceBy: "skill" };
    const lobby: LobbyView = await game.make("/lobbies", {
      name: "Friday duel",
      mode: "duel",
      maxPlayers: 2,
      hostPlayerId: leo,
      metadata: { map: "harbour" },
      settings: { countdownSeconds: 0, teams },
    });
    const act = async (what: string, body: object): Promise<LobbyView> =>
      must(await game.post(`/lobbies/${lobby.id}/${what}`, body), 200);
    await act("join", { playerId: nils });
    await act("leave", { playerId: nils });
    await act("join", { playerId: mia });
    await act("host", { playerId: mia, actingPlayerId: leo });
    for (const playerId of [leo, mia]) await act("ready", { playerId, ready: true });
    const { matchId } = await act("start", { playerId: mia });
    const results = [
      { playerId: leo, outcome: "WIN", score: 70, stats: { hits: 3 } },
      { playerId: mia, outcome: "LOSS", score: 7, stats: { hits: 1 } },
    ];
    await act("end", { matchId, results });
  },
};

const channel: Scenario = {
  tells: ["chat.message_sent", "chat.message_reported", "chat.message_moderated", "chat.player_sanctioned"],
  play: async ({ game }) => {
    for (const name of ["Olga", "Pete"])
      await game.make("/players", { externalUserId: name.toLowerCase(), displayName: name });
    await game.make("/chat/channels", { key: "trade", name: "Trade", settings: { slowModeSeconds: 0 } });
    const path = "/chat/channels/trade/messages";
    await game.make(path, { playerId: "ext:olga", content: "A hat for 15 coins, who wants it?" });
    const reply = { playerId: "ext:pete", content: "@olga You cheat", replyTo: 1, clientMsgId: "m-1" };
    const { seq } = await game.make(path, reply);
    await game.make(`${path}/${seq}/reports`, { playerId: "ext:olga", reason: "HARASSMENT" });
    must(await game.remove(`${path}/${seq}`), 200);
    await game.make("/chat/sanctions", {
      playerId: "ext:pete",
      kind: "MUTE",
      reason: "Insults",
      durationSeconds: 3_600,
    });
  },
};

/** Scenarios about lobbies and chat. */
export const ROOM_SCENARIOS: readonly Scenario[] = [match, channel];
