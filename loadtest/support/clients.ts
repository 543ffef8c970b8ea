import { Client, type Room } from "@colyseus/sdk";
import { post, type Site } from "../../bench/support/setup.ts";
import type { Tally } from "./tally.ts";

// oxlint-disable-next-line typescript/no-explicit-any -- the state is learnt from the handshake
export type AnyRoom = Room<any, any>;
export type LoadPlayer = { playerId: string; token: string; client: Client };

/** Joins and tokens asked for at one time; more would measure this process. */
const AT_ONCE = 32;

// The SDK tells of lost connections and unheard messages on the console; the summary counts them.
for (const name of ["info", "warn", "log"] as const) {
  const say = console[name].bind(console);
  console[name] = (...parts: unknown[]) => {
    if (!/colyseus|onMessage|connection was closed/i.test(String(parts[0]))) say(...parts);
  };
}

/** Runs for each item, so many at one time. */
export const forEachAtOnce = async <T>(
  items: readonly T[],
  run: (item: T, index: number) => Promise<void>,
  atOnce = AT_ONCE,
): Promise<void> => {
  let next = 0;
  const lane = async (): Promise<void> => {
    while (next < items.length) {
      const index = next++;
      await run(items[index]!, index);
    }
  };
  await Promise.all(Array.from({ length: Math.min(atOnce, items.length) }, lane));
};

type MakeOptions = {
  prefix: string;
  tally: Tally;
  url?: string;
  /** Is told how many there are, of how many. */
  count?(done: number, of: number): void;
};

/** Events of one request. */
const BATCH = 100;

/** Players are made a hundred at a time by events of theirs; one by one each would cost a transaction. */
const makeByEvents = async (site: Site, count: number, prefix: string): Promise<void> => {
  const starts = Array.from({ length: Math.ceil(count / BATCH) }, (_, n) => n * BATCH);
  for (const start of starts) {
    const events = Array.from({ length: Math.min(BATCH, count - start) }, (_, n) => ({
      externalUserId: `${prefix}-${start + n}`,
      eventType: "loadtest_begun",
    }));
    await post(site, "/events/batch?wait=true", { events });
  }
};

/** A player of the run, with a token; the address may be that of a proxy in front of the site. */
export const makePlayers = async (
  site: Site,
  count: number,
  { prefix, tally, url = site.url, count: onMade }: MakeOptions,
): Promise<LoadPlayer[]> => {
  const players: LoadPlayer[] = [];
  let made = 0;
  await makeByEvents(site, count, prefix);
  await forEachAtOnce(Array.from({ length: count }), async (_, n) => {
    const startMs = performance.now();
    const answer = await post(site, "/auth/ws-token", { externalUserId: `${prefix}-${n}` });
    tally.time("player and token", performance.now() - startMs);
    const client = new Client(url);
    client.auth.token = String(answer["token"]);
    players[n] = { playerId: String(answer["playerId"]), token: client.auth.token, client };
    onMade?.(++made, count);
  });
  return players;
};

/** Joins; messages that nobody asked for are heard by nobody. */
export const joinRoom = async (player: LoadPlayer, name: string, options: object): Promise<AnyRoom> => {
  const room: AnyRoom = await player.client.joinOrCreate(name, options);
  room.onMessage("*", () => undefined);
  return room;
};

/** Resolves with `holds()` once it is true. @throws Error after `maxMs` */
export const until = async (holds: () => boolean, maxMs: number, what: string): Promise<void> => {
  const deadline = performance.now() + maxMs;
  while (!holds()) {
    if (performance.now() > deadline) throw new Error(`${what} did not happen within ${maxMs} ms`);
    await new Promise((resolve) => setTimeout(resolve, 5));
  }
};

/** Calls `send` at a steady rate for so long, whether or not the last call has ended. */
export const atRate = async (
  { rate, seconds }: { rate: number; seconds: number },
  send: (n: number) => Promise<unknown>,
): Promise<void> => {
  const startMs = performance.now();
  const total = Math.round(rate * seconds);
  const sent: Promise<unknown>[] = [];
  for (let n = 0; n < total; n++) {
    const dueMs = startMs + (n * 1_000) / rate;
    const waitMs = dueMs - performance.now();
    if (waitMs > 1) await new Promise((resolve) => setTimeout(resolve, waitMs));
    sent.push(send(n));
  }
  await Promise.all(sent);
};

/** Leaves those that were joined. */
export const leaveAll = async (rooms: readonly (AnyRoom | undefined)[]): Promise<void> => {
  await Promise.all(rooms.flatMap((room) => (room ? [room.leave()] : [])));
};
