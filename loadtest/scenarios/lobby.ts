import { randomUUID } from "node:crypto";
import { post } from "../../bench/support/setup.ts";
import type { LoadContext, Scenario } from "../scenario.ts";
import { type AnyRoom, joinRoom, type LoadPlayer, makePlayers, until } from "../support/clients.ts";

const SEATS = 4;
const STARTED_MAX_MS = 10_000;
/** Between two games of a group: a player may join 20 times in 10 s. */
const PAUSE_MS = 1_500;

type Started = { data: { matchId: string; players: { playerId: string }[] } };

const startedOf = (room: AnyRoom): Promise<Started["data"]> =>
  new Promise((resolve, reject) => {
    const timer = setTimeout(() => reject(new Error("lobby.started did not come")), STARTED_MAX_MS);
    room.onMessage("lobby.started", ({ data }: Started) => {
      clearTimeout(timer);
      resolve(data);
    });
  });

const settings = { countdownSeconds: 0 };

/** One game of one group: create, join, ready, start, results. */
const play = async (context: LoadContext, group: readonly LoadPlayer[], mode: string): Promise<void> => {
  const { site, tally } = context;
  const [host, ...guests] = group;
  const create = { name: "Load test", mode, minPlayers: SEATS, maxPlayers: SEATS, settings };
  const first = await tally.measure("create and join", () => joinRoom(host!, "lobby", { create }));
  if (!first) return;
  const state = first.state as { id?: string };
  await until(() => Boolean(state.id), STARTED_MAX_MS, "the state of the lobby");
  const lobbyId = state.id!;
  const others = await Promise.all(
    guests.map((guest) => tally.measure("join lobby", () => joinRoom(guest, "lobby", { lobbyId }))),
  );
  const rooms = [first, ...others].filter((room) => room !== undefined);
  if (rooms.length === SEATS) {
    const started = rooms.map(startedOf);
    for (const room of rooms)
      await tally.measure("ready", () => room.request("lobby.ready", { ready: true }));
    const startMs = performance.now();
    await tally.measure("start", () => first.request("lobby.start", {}));
    const games = await Promise.all(started);
    tally.time("start to started at all", performance.now() - startMs);
    tally.delivered("started once for all", {
      expected: 1,
      received: new Set(games.map(({ matchId }) => matchId)).size,
    });
    const results = group.map(({ playerId }) => ({ playerId, outcome: "DRAW" }));
    const path = `/lobbies/${lobbyId}/end`;
    await tally.measure("end by REST", () => post(site, path, { matchId: games[0]!.matchId, results }));
  }
  await Promise.all(rooms.map((room) => room.leave()));
};

const run = async (context: LoadContext): Promise<void> => {
  const { site, tally, clients, seconds, say } = context;
  const mode = `load-${randomUUID().slice(0, 8)}`;
  say("players");
  const players = await makePlayers(site, Math.ceil(clients / SEATS) * SEATS, { tally, prefix: mode });
  const groups = Array.from({ length: players.length / SEATS }, (_, n) =>
    players.slice(n * SEATS, (n + 1) * SEATS),
  );
  say("games");
  const endMs = performance.now() + seconds * 1_000;
  await Promise.all(
    groups.map(async (group) => {
      do {
        await play(context, group, mode).catch((error: unknown) => tally.fail("game", error));
        await new Promise((resolve) => setTimeout(resolve, PAUSE_MS));
      } while (performance.now() < endMs);
    }),
  );
};

export const lobby: Scenario = {
  name: "lobby",
  about: "groups of four make a lobby, join, get ready, start and end a game, again and again",
  defaults: { clients: 40, seconds: 10, rate: 0 },
  run,
};
