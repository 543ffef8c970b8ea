import { randomFillSync } from "node:crypto";

/** Players that the events are about. */
export const PLAYERS = 10_000;

const KEY_BYTES = 16;
/** An idempotency key as clients make them: random, so that index pages are met in no order. */
export const KEY_LENGTH = KEY_BYTES * 2;
/** Stands in ready requests where a fresh key belongs. */
export const KEY_MARK = "#".repeat(KEY_LENGTH);
const pool = Buffer.alloc(KEY_BYTES * 4_096);
let used = pool.length;

export const randomKey = (): string => {
  if (used === pool.length) {
    randomFillSync(pool);
    used = 0;
  }
  used += KEY_BYTES;
  return pool.toString("hex", used - KEY_BYTES, used);
};

/** An event as a game would send it, about 320 bytes of JSON. */
export const sampleEvent = (n: number) => ({
  externalUserId: `player-${String(n % PLAYERS).padStart(6, "0")}`,
  eventType: "level_completed",
  properties: {
    level: n % 40,
    points: n % 100,
    world: "the-whispering-forest",
    difficulty: "hard",
    durationSeconds: 84.25,
    deaths: n % 5,
    powerUps: ["shield", "boost"],
  },
  timestamp: "2026-01-31T12:00:00.000Z",
  idempotencyKey: randomKey(),
});
