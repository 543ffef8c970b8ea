import { Client, type Room } from "@colyseus/sdk";
import { post, type Site } from "../bench/support/stage.ts";
import type { Tally } from "./tally.ts";

// oxlint-disable-next-line typescript/no-explicit-any -- the state is learnt from the handshake
export type AnyRoom = Room<any, any>;
export type LoadPlayer = { playerId: string; client: Client };

/** Joins and tokens asked for at one time; more would measure this process. */
const AT_ONCE = 32;
/** Events of one request. */
const BATCH = 100;

// The SDK tells of lost connections and unheard messages on the console; the summary counts them.
for (const name of ["info", "warn", "log"] as const) {
  const say = console[name].bind(console);
  console[name] = (...parts: unknown[]) => {
    if (!/colyseus|onMessage|connection was closed/i.test(String(parts[0]))) say(...parts);
  };
}

/** Runs for each item, so many at one time, and returns the results in the order of the items. */
const mapAtOnce = async <T, R>(items: readonly T[], run: (item: T, n: number) => Promise<R>) => {
  const results: R[] = [];
  let next = 0;
  const lane = async (): Promise<void> => {
    for (let n = next++; n < items.length; n = next++) results[n] = await run(items[n]!, n);
  };
  await Promise.all(Array.from({ length: AT_ONCE }, lane));
  return results;
};

/**
 * Players of a run, with tokens. They are made a hundred at a time by events of theirs: one by one each would
 * cost a transaction.
 * @param url where they join; default: at the site
 */
export const makePlayers = async (
  site: Site,
  count: number,
  { prefix, tally, url = site.url }: { prefix: string; tally: Tally; url?: string },
): Promise<LoadPlayer[]> => {
  const names = Array.from({ length: count }, (_, n) => `${prefix}-${n}`);
  for (let start = 0; start < count; start += BATCH) {
    const events = names
      .slice(start, start + BATCH)
      .map((externalUserId) => ({ externalUserId, eventType: "loadtest_begun" }));
    await post(site, "/events/batch?wait=true", { events });
  }
  return mapAtOnce(names, async (externalUserId) => {
    const startMs = performance.now();
    const { token, playerId } = await post(site, "/auth/ws-token", { externalUserId });
    tally.time("player and token", performance.now() - startMs);
    const client = new Client(url);
    client.auth.token = String(token);
    return { playerId: String(playerId), client };
  });
};

/** Joins; messages that nobody asked for are heard by nobody. */
export const joinRoom = async ({ client }: LoadPlayer, name: string, options: object): Promise<AnyRoom> => {
  const room: AnyRoom = await client.joinOrCreate(name, options);
  room.onMessage("*", () => undefined);
  return room;
};

/** Joins all, and returns undefined for those that could not. */
export const joinAll = (
  players: readonly LoadPlayer[],
  { tally, name, options }: { tally: Tally; name: string; options: object },
): Promise<(AnyRoom | undefined)[]> =>
  mapAtOnce(players, (player) => tally.measure(`join ${name}`, () => joinRoom(player, name, options)));

/** Leaves those that were joined. */
export const leaveAll = async (rooms: readonly (AnyRoom | undefined)[]): Promise<void> => {
  await Promise.all(rooms.flatMap((room) => (room ? [room.leave()] : [])));
};

/** Calls `send` at a steady rate for so long, whether or not the last call has ended. */
export const atRate = async (
  { rate, seconds }: { rate: number; seconds: number },
  send: (n: number) => Promise<unknown>,
): Promise<void> => {
  const startMs = performance.now();
  const sent: Promise<unknown>[] = [];
  for (let n = 0; n < Math.round(rate * seconds); n++) {
    const waitMs = startMs + (n * 1_000) / rate - performance.now();
    if (waitMs > 1) await new Promise((resolve) => setTimeout(resolve, waitMs));
    sent.push(send(n));
  }
  await Promise.all(sent);
};
