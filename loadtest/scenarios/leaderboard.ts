import { randomUUID } from "node:crypto";
import { post } from "../../bench/support/setup.ts";
import type { LoadContext, Scenario } from "../scenario.ts";
import {
  type AnyRoom,
  atRate,
  forEachAtOnce,
  joinRoom,
  makePlayers,
  until,
  leaveAll,
} from "../support/clients.ts";

/** A patch that has not come by then is lost, in ms. */
const SEEN_MAX_MS = 10_000;

type Me = { score: number };
const scoreOf = (room: AnyRoom): number => {
  const me = room.state as { me?: Map<string, Me> } | undefined;
  return [...(me?.me?.values() ?? [])][0]?.score ?? 0;
};

const run = async ({ site, tally, clients, seconds, rate, say }: LoadContext): Promise<void> => {
  const key = `load-${randomUUID().slice(0, 8)}`;
  const definition = { metric: { source: "CUSTOM" }, operator: "SUM", sort: "DESC" };
  await post(site, "/leaderboards", { key, name: "Load test", ...definition });
  say("players");
  const players = await makePlayers(site, clients, { tally, prefix: key });
  const rooms: (AnyRoom | undefined)[] = [];
  say("joins");
  await forEachAtOnce(players, async (player, n) => {
    const options = { leaderboardKey: key, top: 10, around: 2 };
    rooms[n] = await tally.measure("join leaderboard", () => joinRoom(player, "leaderboard", options));
  });
  say("scores");
  const totals = players.map(() => 0);
  let seen = 0;
  let submitted = 0;
  await atRate({ rate, seconds }, async (i) => {
    const n = i % clients;
    const { playerId } = players[n]!;
    const startMs = performance.now();
    const path = `/leaderboards/${key}/scores`;
    const answer = await tally.measure("submit score", () => post(site, path, { playerId, score: 1 }));
    if (!answer) return;
    submitted++;
    const total = (totals[n]! += 1);
    await until(() => scoreOf(rooms[n]!) >= total, SEEN_MAX_MS, "the own score in the room")
      .then(() => {
        seen++;
        tally.time("score to own patch", performance.now() - startMs);
      })
      .catch((error: unknown) => tally.fail("score to own patch", error));
  });
  tally.delivered("scores seen by their player", { expected: submitted, received: seen });
  say("leaves");
  await leaveAll(rooms);
};

export const leaderboard: Scenario = {
  name: "leaderboard",
  about: "players watch a board and submit scores; how soon each sees their own",
  defaults: { clients: 200, seconds: 10, rate: 100 },
  run,
};
