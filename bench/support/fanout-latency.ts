import { setTimeout as delay } from "node:timers/promises";
import { Client, type Room } from "@colyseus/sdk";
import type { Setup } from "./fanout-crowds.ts";
import { PLAYERS, sampleEvent } from "./sample.ts";
import { post } from "./setup.ts";
import { percentile } from "./stats.ts";

const WATCHERS = 20;
/** Between two events that are followed. */
const EVERY_MS = 50;
/** Between two batches of the load. */
const LOAD_EVERY_MS = 100;
const BATCH_MAX = 1_000;
const SEEN_MAX_MS = 10_000;

// oxlint-disable-next-line typescript/no-explicit-any -- the state is learnt from the handshake
type AnyRoom = Room<any, any>;
type Times = { samples: number; p50Ms: number; p99Ms: number };
/** From the answer to the POST of an event. */
export type Latency = { rate: number; xp: Times; board: Times };

type Watcher = {
  externalUserId: string;
  points: number;
  /** Told when the message, and the row, say at least so many points. */
  seen: { xp: (points: number) => void; board: (points: number) => void };
  rooms: AnyRoom[];
};

const openWatcher = async (url: string, token: string, externalUserId: string): Promise<Watcher> => {
  const client = new Client(url);
  client.auth.token = token;
  const ignore = (): void => undefined;
  const watcher: Watcher = { externalUserId, points: 0, seen: { xp: ignore, board: ignore }, rooms: [] };
  const player: AnyRoom = await client.joinOrCreate("player", {});
  player.onMessage("*", ignore);
  player.onMessage("player.xp", ({ data }: { data: { xp: number } }) => watcher.seen.xp(data.xp));
  const board: AnyRoom = await client.joinOrCreate("leaderboard", { leaderboardKey: "points", top: 10 });
  board.onMessage("*", ignore);
  board.onStateChange((state: { me?: Map<string, { score: number }> }) => {
    const [place] = [...(state.me?.values() ?? [])];
    watcher.seen.board(place?.score ?? 0);
  });
  watcher.rooms.push(player, board);
  return watcher;
};

/** When `what` first says so many points. @throws Error when it does not */
const reached = (watcher: Watcher, what: "xp" | "board", points: number): Promise<number> =>
  new Promise((resolve, reject) => {
    const late = setTimeout(() => reject(new Error(`no ${what} within ${SEEN_MAX_MS} ms`)), SEEN_MAX_MS);
    watcher.seen[what] = (shown) => {
      if (shown < points) return;
      clearTimeout(late);
      resolve(performance.now());
    };
  });

const timesOf = (found: readonly number[]): Times => {
  const sorted = found.toSorted((a, b) => a - b);
  return { samples: sorted.length, p50Ms: percentile(sorted, 0.5), p99Ms: percentile(sorted, 0.99) };
};

/** Events of other players at a steady rate until it is told to stop. */
const load = async ({ stage: { site } }: Setup, rate: number, isOver: () => boolean): Promise<void> => {
  const size = Math.round((rate * LOAD_EVERY_MS) / 1_000);
  const startMs = performance.now();
  for (let n = 0; !isOver(); n++) {
    const events = Array.from({ length: size }, (_, i) => sampleEvent((n * size + i) % PLAYERS));
    for (let from = 0; from < size; from += BATCH_MAX)
      await post(site, "/events/batch", { events: events.slice(from, from + BATCH_MAX) });
    await delay(Math.max(0, startMs + (n + 1) * LOAD_EVERY_MS - performance.now()));
  }
};

/** @param rate of the events beside those that are followed */
export const runLatency = async (setup: Setup, rate: number, seconds: number): Promise<Latency> => {
  const { site, players } = setup.stage;
  const server = await setup.stage.startLaurel(1);
  try {
    const url = `http://127.0.0.1:${server.target.ports[0]!}`;
    const watchers: Watcher[] = [];
    for (let n = 0; n < WATCHERS; n++)
      watchers.push(await openWatcher(url, players[n]!.token, `player-${n}`));
    let isOver = false;
    const loading = load(setup, rate, () => isOver);
    const found = { xp: [] as number[], board: [] as number[] };
    const lane = async (watcher: Watcher, at: number): Promise<void> => {
      const endMs = performance.now() + seconds * 1_000;
      await delay(at * EVERY_MS);
      while (performance.now() < endMs) {
        const nextMs = performance.now() + WATCHERS * EVERY_MS;
        const total = (watcher.points += 1);
        const shown = [reached(watcher, "xp", total), reached(watcher, "board", total)] as const;
        const event = { ...sampleEvent(0), externalUserId: watcher.externalUserId };
        await post(site, "/events", { ...event, properties: { ...event.properties, points: 1 } });
        const answeredMs = performance.now();
        const [xpMs, boardMs] = await Promise.all(shown);
        found.xp.push(xpMs - answeredMs);
        found.board.push(boardMs - answeredMs);
        await delay(Math.max(0, nextMs - performance.now()));
      }
    };
    await Promise.all(watchers.map(lane));
    isOver = true;
    await loading;
    await Promise.all(watchers.flatMap(({ rooms }) => rooms.map((room) => room.leave())));
    return { rate, xp: timesOf(found.xp), board: timesOf(found.board) };
  } finally {
    await server.stop();
  }
};
