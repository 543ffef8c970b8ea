import { randomUUID } from "node:crypto";
import type { LobbyView } from "../../../src/domain/kernel/events/chat-views.ts";
import type { Answer, TestApp } from "../app/app.ts";
import { must } from "../http/client.ts";
import { aGame, type Game } from "../app/game.ts";

/** A game with shorthands for its lobbies, spoken to by the key as a server would. */
export type LobbyGame = Game & {
  someone(): Promise<string>;
  several(n: number): Promise<string[]>;
  open(body?: object): Promise<LobbyView>;
  /** A lobby of a host and guests, all of whom are ready. */
  filled(guests: number, body?: object): Promise<{ lobby: LobbyView; host: string; guests: string[] }>;
  act(lobby: { id: string }, what: string, body?: object): Promise<Answer>;
  join(lobby: { id: string }, playerId: string, body?: object): Promise<Answer>;
  read(lobby: { id: string }): Promise<LobbyView>;
};

export const aLobbyGame = async (api: TestApp): Promise<LobbyGame> => {
  const game = await aGame(api);
  const lobbies: LobbyGame = {
    ...game,
    someone: () => game.player(`p-${randomUUID()}`),
    several: (n) => Promise.all(Array.from({ length: n }, () => lobbies.someone())),
    open: (body = {}) =>
      game.make("/lobbies", { mode: `m-${randomUUID().slice(0, 8)}`, maxPlayers: 4, ...body }),
    filled: async (count, body = {}) => {
      const [host, ...guests] = await lobbies.several(count + 1);
      const lobby = await lobbies.open({ hostPlayerId: host, ...body });
      for (const guest of guests) must(await lobbies.join(lobby, guest), 200);
      for (const playerId of [host!, ...guests])
        must(await lobbies.act(lobby, "ready", { playerId, ready: true }), 200);
      return { lobby: await lobbies.read(lobby), host: host!, guests };
    },
    act: ({ id }, what, body = {}) => game.post(`/lobbies/${id}/${what}`, body),
    join: (lobby, playerId, body = {}) => lobbies.act(lobby, "join", { playerId, ...body }),
    read: async ({ id }) => must(await game.get(`/lobbies/${id}`), 200),
  };
  return lobbies;
};
