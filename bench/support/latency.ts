import { setTimeout as delay } from "node:timers/promises";
import type { Pool } from "./box.ts";
import { addEvents, type QueuedEvent, queuedEvent } from "./queued.ts";

/** Between two commits of events, in ms. */
const TICK_MS = 100;
/** How often a committed batch is looked for, in ms: what is measured is late by half of it. */
const POLL_MS = 5;
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
  const open = new Map<string, number>();
  const found: number[] = [];
  let isSending = true;
  const following = follow(pool, projectId, { open, found, isOver: () => !isSending && open.size === 0 });
  const startMs = performance.now();
  for (let tick = 0; tick < ticks; tick++) {
    const size = Math.round((rate * TICK_MS) / 1_000);
    const events = Array.from({ length: size }, (_, n) =>
      queuedEvent(projectId, { n: tick * size + n, players, prefix: "player" }),
    );
    await addEvents(pool, projectId, events);
    const sentMs = performance.now();
    for (const part of new Set(events.map(({ h }) => h))) wake(part);
    for (const { i } of everyNth(events)) open.set(i, sentMs);
    await delay(Math.max(0, startMs + (tick + 1) * TICK_MS - performance.now()));
  }
  isSending = false;
  await following;
  return found.toSorted((a, b) => a - b);
};

const everyNth = (events: readonly QueuedEvent[]): QueuedEvent[] => {
  const step = Math.max(1, Math.floor(events.length / FOLLOWED));
  return events.filter((_, n) => n % step === 0);
};

/** By event id, when it was sent; ms until each was done; and whether there are no more to come. */
type Followed = { open: Map<string, number>; found: number[]; isOver: () => boolean };

/** One query for all that are open, by their key: what looks must not be the load. */
const follow = async (pool: Pool, projectId: string, { open, found, isOver }: Followed): Promise<void> => {
  while (!isOver()) {
    await delay(POLL_MS);
    if (open.size === 0) continue;
    const asked = [...open.keys()];
    const { rows } = await pool.query(
      "select event_id from event_q where project_id = $1 and event_id = any($2::uuid[])",
      [projectId, asked],
    );
    const waiting = new Set(rows.map((row) => String(row["event_id"])));
    const nowMs = performance.now();
    for (const id of asked) {
      if (waiting.has(id)) continue;
      found.push(nowMs - open.get(id)!);
      open.delete(id);
    }
  }
};
