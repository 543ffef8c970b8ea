import { AsyncLocalStorage } from "node:async_hooks";
import { type IRoomCache, matchMaker } from "@colyseus/core";
import type { App } from "../app.ts";
import { Bulkhead } from "../domain/kernel/bulkhead.ts";
import { conflict, type DomainError, retryLater } from "../domain/kernel/errors.ts";
import { PLAYER_SOCKETS_MAX, PROJECT_ROOMS_MAX } from "../domain/kernel/limits.ts";
import { type Listing, openRooms } from "./listing.ts";

/** Maximum number of rooms in one process; further rooms are created by another process. */
export const PROCESS_ROOMS_MAX = 20_000;
const ownRoomsOf = (projectId: string): number =>
  openRooms().filter((room) => (room.metadata as { projectId?: string }).projectId === projectId).length;

/**
 * Decides whether one more room may be created in this process.
 * @throws DomainError SERVICE_UNAVAILABLE SERVER_FULL, CONFLICT TOO_MANY_ROOMS
 */
export const admitRoom = async (options: unknown): Promise<void> => {
  if (matchMaker.stats.local.roomCount >= PROCESS_ROOMS_MAX)
    throw retryLater("this process has reached its limit of rooms: try again", "SERVER_FULL");
  const { projectId } = options as { projectId?: string };
  if (projectId === undefined) return;
  const driver = matchMaker.driver as Listing;
  const count = driver.countOf ? await driver.countOf(projectId) : ownRoomsOf(projectId);
  if (count >= PROJECT_ROOMS_MAX)
    throw conflict("TOO_MANY_ROOMS", `a project has at most ${PROJECT_ROOMS_MAX} open rooms`);
};

/**
 * Crowd size from which each process that serves part of it gets a room, unless it has too many rooms
 * already.
 */
const CROWD_MIN = 25;
const CROWD_ROOMS_MAX = 16;
/** Milliseconds in which only the first of several simultaneous joins may create the room in this process. */
const SPREAD_EVERY_MS = 2_000;
/** Crowds that got a room here recently, with the time until which they get no other; oldest first. */
const spreading = new Map<string, number>();

/** The current join, and whether it is the one that creates its crowd's room here. */
const joins = new AsyncLocalStorage<{ isFirst: boolean }>();

/** Runs one join. Core looks for a room more than once per join and must get the same answer each time. */
export const asOneJoin = <T>(run: () => Promise<T>): Promise<T> => joins.run({ isFirst: false }, run);

/** Returns true to one join per SPREAD_EVERY_MS for each crowd, however often that join asks. */
const isFirst = ({ name, metadata }: IRoomCache): boolean => {
  const join = joins.getStore();
  if (join?.isFirst) return true;
  const [crowd, nowMs] = [JSON.stringify([name, metadata]), performance.now()];
  for (const [old, untilMs] of spreading) {
    if (untilMs > nowMs) break;
    spreading.delete(old);
  }
  if (spreading.has(crowd)) return false;
  spreading.set(crowd, nowMs + SPREAD_EVERY_MS);
  if (join) join.isFirst = true;
  return true;
};

/**
 * Decides whether a crowd whose rooms are all in other processes gets one here: a piped socket costs more
 * than twice as much as a direct one.
 * @param kinds all kinds of room, by name
 */
export const maySpread = async (
  kinds: Readonly<Record<string, { isCrowd: boolean }>>,
  listed: readonly IRoomCache[],
): Promise<boolean> => {
  const [first] = listed;
  if (!first || !kinds[first.name]?.isCrowd || listed.length >= CROWD_ROOMS_MAX) return false;
  const clients = listed.reduce((sum, room) => sum + room.clients, 0);
  if (clients < CROWD_MIN || !isFirst(first)) return false;
  try {
    await admitRoom(first.metadata);
    return true;
  } catch {
    // When no more rooms may be created, clients go on joining the rooms of other processes.
    return false;
  }
};

const own = new Map<string, number>();

/**
 * Counts a player's socket; the returned function decrements the count.
 * @throws DomainError CONFLICT TOO_MANY_SOCKETS
 */
export const admitSocket = async ({ peers, log }: App, player: string): Promise<() => void> => {
  const change = (by: number): Promise<number> | number => {
    const count = (own.get(player) ?? 0) + by;
    if (count > 0) own.set(player, count);
    else own.delete(player);
    return peers ? peers.countSockets(player, Math.max(0, count)) : count;
  };
  let isIn = true;
  const leave = (): void => {
    if (!isIn) return;
    isIn = false;
    Promise.resolve(change(-1)).catch((err: unknown) => log.warn({ err }, "a socket was not counted out"));
  };
  let total = 0;
  try {
    total = await change(1);
  } catch (err) {
    // Redis is unavailable: the socket is admitted, because each process then enforces limits by itself.
    log.warn({ err }, "a socket was not counted");
  }
  if (total <= PLAYER_SOCKETS_MAX) return leave;
  leave();
  throw tooManySockets();
};

const tooManySockets = (): DomainError =>
  conflict("TOO_MANY_SOCKETS", `a player has at most ${PLAYER_SOCKETS_MAX} sockets`);

type GateLimits = {
  /** Maximum number of concurrent tasks of a tenant and of all, each no longer than `workMaxMs`. */
  activeMax: { ofOwner: number; ofProcess: number };
  workMaxMs: number;
  /** Maximum number of waiting tasks of a tenant, each no longer than `waitMaxMs`. */
  waitingMax: number;
  waitMaxMs: number;
};

const tooMany = (): DomainError => retryLater("too many joins at once: try again", "SERVER_BUSY");
const tooLate = (): DomainError => retryLater("the room did not answer in time", "NOT_READY");
const stopping = (): DomainError => retryLater("the server is stopping", "NOT_READY");

/**
 * Limits concurrent joins, of each tenant to a part of them, so that a crowd of one tenant's players does not
 * keep others waiting. Further joins wait in a queue; those beyond the queue's limit are refused.
 */
export class Gate {
  readonly #slots: Bulkhead;
  readonly #workMaxMs: number;
  readonly #closed = new AbortController();

  constructor({ activeMax, workMaxMs, waitingMax, waitMaxMs }: GateLimits) {
    this.#slots = new Bulkhead({
      ofKey: { slots: activeMax.ofOwner, waiting: waitingMax },
      ofAll: { slots: activeMax.ofProcess },
      waitMaxMs,
      refusal: tooMany,
    });
    this.#workMaxMs = workMaxMs;
  }

  get waiting(): number {
    return this.#slots.waiting;
  }

  /**
   * Runs a task of a tenant when there is capacity. A task that exceeds its time is no longer awaited, but
   * continues.
   * @throws DomainError SERVICE_UNAVAILABLE SERVER_BUSY, NOT_READY
   */
  pass<T>(tenantId: string, run: () => Promise<T>): Promise<T> {
    return this.#slots.run(tenantId, () => this.#within(run), this.#closed);
  }

  /** Refuses all running and waiting tasks, and accepts no more. */
  close(): void {
    this.#closed.abort(stopping());
  }

  async #within<T>(run: () => Promise<T>): Promise<T> {
    const { signal } = this.#closed;
    signal.throwIfAborted();
    const { promise, resolve, reject } = Promise.withResolvers<T>();
    const timer = setTimeout(() => reject(tooLate()), this.#workMaxMs);
    const onClosed = (): void => reject(signal.reason);
    signal.addEventListener("abort", onClosed);
    run().then(resolve, reject);
    return promise.finally(() => {
      clearTimeout(timer);
      signal.removeEventListener("abort", onClosed);
    });
  }
}
