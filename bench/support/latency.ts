import { setTimeout as delay } from "node:timers/promises";
import type { Pool } from "./box.ts";
import { addEvents, type QueuedEvent, queuedEvent } from "./queued.ts";

/** Between two commits of events, in ms. */
const TICK_MS = 100;
/** How often a committed batch is looked for, in ms: what is measured is late by half of it. */
const POLL_MS = 3;
/** Events of a tick that are followed. */
const FOLLOWED = 10;

export type LatencyLoad = {
  projectId: string;
  players: number;
  /** Events a second. */
  rate: number;
  seconds: number;
  wake: (part: number) => void;
};

/**
 * Sends events at a steady rate, and follows some of each commit until their effects are committed.
 * @returns ms from the commit of the event to the commit of its effects, ascending
 */
export const measureLatency = async (pool: Pool, load: LatencyLoad): Promise<number[]> => {
  const { projectId, players, rate, seconds, wake } = load;
  const ticks = Math.round((seconds * 1_000) / TICK_MS);
  const followed: Promise<number[]>[] = [];
  const startMs = performance.now();
  for (let tick = 0; tick < ticks; tick++) {
    const size = Math.round((rate * TICK_MS) / 1_000);
    const events = Array.from({ length: size }, (_, n) =>
      queuedEvent(projectId, { n: tick * size + n, players, prefix: "player" }),
    );
    await addEvents(pool, projectId, events);
    const sentMs = performance.now();
    for (const part of new Set(events.map(({ h }) => h))) wake(part);
    followed.push(follow(pool, events, sentMs));
    await delay(Math.max(0, startMs + (tick + 1) * TICK_MS - performance.now()));
  }
  return (await Promise.all(followed)).flat().toSorted((a, b) => a - b);
};

const follow = async (pool: Pool, events: readonly QueuedEvent[], sentMs: number): Promise<number[]> => {
  const step = Math.max(1, Math.floor(events.length / FOLLOWED));
  let open = events.filter((_, n) => n % step === 0).map(({ i }) => i);
  const found: number[] = [];
  while (open.length > 0) {
    await delay(POLL_MS);
    const { rows } = await pool.query("select event_id from event_q where event_id = any($1::uuid[])", [
      open,
    ]);
    const waiting = new Set(rows.map((row) => String(row["event_id"])));
    const ms = performance.now() - sentMs;
    for (const id of open) if (!waiting.has(id)) found.push(ms);
    open = open.filter((id) => waiting.has(id));
  }
  return found;
};
