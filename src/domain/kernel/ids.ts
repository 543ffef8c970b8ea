import { hash, randomFillSync } from "node:crypto";
import { NIL, v7, validate } from "uuid";

const REQUEST_ID = /^[\w-]{8,64}$/;

/** Returns the client's own `X-Request-Id` if it is valid, otherwise a new id. */
export const requestIdFrom = (header: unknown): string =>
  typeof header === "string" && REQUEST_ID.test(header) ? header : newId();

/**
 * Number of ids for which random bytes are fetched at once: one call per id costs more than the rest of it.
 */
const POOLED_IDS = 256;
const RANDOM_BYTES = 16;
const pool = Buffer.alloc(POOLED_IDS * RANDOM_BYTES);
let pooledAt = pool.length;

const takeRandom = (): Buffer => {
  if (pooledAt === pool.length) {
    randomFillSync(pool);
    pooledAt = 0;
  }
  pooledAt += RANDOM_BYTES;
  return pool.subarray(pooledAt - RANDOM_BYTES, pooledAt);
};

let lastMs = 0;
let sequence = 0;
let clockMs = (): number => Date.now();

/** Sets the clock that ids are stamped with from here, in ms: one that all processes share. */
export const stampIdsBy = (clock: () => number): void => {
  clockMs = clock;
  lastMs = 0;
};

/** Returns a new UUIDv7: sortable by creation time, monotonic within this process. */
export const newId = (): string => {
  const random = takeRandom();
  const now = Math.floor(clockMs());
  if (now > lastMs) {
    lastMs = now;
    // Starts in the lower half of its 32 bits, so that it cannot overflow within a millisecond.
    sequence = random.readUInt32BE(6) >>> 1;
  } else {
    sequence = (sequence + 1) >>> 0;
    if (sequence === 0) lastMs++;
  }
  return v7({ msecs: lastMs, seq: sequence, random });
};

/** The nil UUID, which sorts before every id. */
export const NIL_ID: string = NIL;

/** Returns the UUID that sorts directly before this one, which is not nil. */
export const idBefore = (id: string): string => {
  const hex = (BigInt(`0x${id.replaceAll("-", "")}`) - 1n).toString(16).padStart(32, "0");
  return hex.replace(/^(.{8})(.{4})(.{4})(.{4})/, "$1-$2-$3-$4-");
};

export const isId = (text: string): boolean => validate(text);

/** Returns the smallest UUIDv7 of a moment: bounds of time ranges over ids. */
export const idFloor = (ms: number): string => {
  const hex = Math.max(0, Math.floor(ms)).toString(16).padStart(12, "0");
  return `${hex.slice(0, 8)}-${hex.slice(8, 12)}-0000-0000-000000000000`;
};

/** Returns when a UUIDv7 was made, in Unix ms: its first 48 bits (RFC 9562, 5.7). */
export const timeOfId = (id: string): number => Number.parseInt(id.slice(0, 8) + id.slice(9, 13), 16);

/** Returns the age of a UUIDv7 in ms, by the clock that ids are stamped with. */
export const ageOfId = (id: string): number => Math.max(0, clockMs() - timeOfId(id));

/** Returns a UUIDv7 determined by name and moment, so that repeated creation is idempotent. */
export const idFor = (ms: number, name: string): string => {
  const time = idFloor(ms).slice(0, 13);
  const bits = hash("sha256", name, "hex");
  const variant = ((Number.parseInt(bits[3]!, 16) & 3) | 8).toString(16);
  return `${time}-7${bits.slice(0, 3)}-${variant}${bits.slice(4, 7)}-${bits.slice(7, 19)}`;
};

/**
 * Number of queue partitions; all events of one player fall into one of them, which preserves their order.
 */
export const PARTITIONS = 32;

/** 32-bit FNV-1a over UTF-16 code units (http://www.isthe.com/chongo/tech/comp/fnv/). */
export const fnv1a = (text: string): number => {
  let mixed = 0x811c9dc5;
  for (let i = 0; i < text.length; i++) mixed = Math.imul(mixed ^ text.charCodeAt(i), 0x01000193);
  return mixed >>> 0;
};

/**
 * Number of outbox partitions of lines; all lines of one player go through one. Fewer than for events: a
 * batch touches most of them, and each costs its relay a round trip.
 */
const LINE_PARTITIONS = 8;
/** Number of outbox partitions: of lines, and as many of changes of boards, behind which no line waits. */
export const OUTBOX_PARTITIONS = 2 * LINE_PARTITIONS;

/** Returns the outbox partition of a player's lines, or of a project's that are no player's. */
export const linesPart = (playerOrProjectId: string): number => fnv1a(playerOrProjectId) % LINE_PARTITIONS;

/** Returns the outbox partition of the changes of a project's boards. */
export const ranksPart = (projectId: string): number => LINE_PARTITIONS + linesPart(projectId);

/** Returns the partition of a player, by project and external id: known before the player row exists. */
export const partitionOf = (projectId: string, externalUserId: string): number =>
  fnv1a(`${projectId}\0${externalUserId}`) % PARTITIONS;
