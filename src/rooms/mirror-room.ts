import { defineRoom, type RegisteredHandler } from "@colyseus/core";
import type { MapSchema } from "@colyseus/schema";
import type { App } from "../app.ts";
import { type Read, readBy } from "../domain/kernel/read.ts";
import type { RowScope, Transact } from "../domain/kernel/work.ts";
import { LiveRoom, logFailure } from "./live-room.ts";
import { createTicker, type Ticker } from "./pace.ts";

/** A kind of room, as core and the admission of joins know it. */
export type GameRoom = {
  handler: RegisteredHandler;
  /** Whether many clients watch one thing, which may then have several rooms, also in several processes. */
  isCrowd: boolean;
};

type GameRoomParts = {
  room: Parameters<typeof defineRoom>[0];
  /** The pinned options that select a room of this kind. */
  selectedBy: string[];
  isCrowd: boolean;
};

export const gameRoom = ({ room, selectedBy, isCrowd }: GameRoomParts): GameRoom => ({
  handler: defineRoom(room).filterBy(selectedBy),
  isCrowd,
});

const scopeOf = (projectId: string): RowScope => ({ role: "web", tenantId: "", projectIds: [projectId] });

/** Transactions that see one project and nothing of its tenant: the scope of everything that rooms show. */
export const transactIn = ({ transactAs }: App, projectId: string): Transact =>
  transactAs(scopeOf(projectId));

/** Single statements that see as much. */
export const readIn = (app: App, projectId: string): Read =>
  app.readAs?.(scopeOf(projectId)) ?? readBy(transactIn(app, projectId));

/** How often open rooms are compared with the database, in case a message was lost, in ms. */
export const REREAD_EVERY_MS = 5_000;

/** A topic that announces changes of what a room shows. */
export type Source = { topic: string; receive(message: unknown): void };

/** Describes a topic whose messages are `M`. */
export const source = <M>(topic: string, receive: (message: M) => void): Source => ({
  topic,
  receive: (message) => receive(message as M),
});

/**
 * Creates the list of the open rooms of one kind in a process, for `MirrorRoom.open`. `reread` compares them
 * with the database, together, so that its cost hardly depends on their number.
 * @param what the rooms, for the log: "player rooms"
 */
export const openRoomsOf = <R>(
  app: Pick<App, "log" | "warnOfOutage">,
  what: string,
  reread: (rooms: readonly R[]) => Promise<void>,
): Ticker<R> =>
  createTicker({
    everyMs: REREAD_EVERY_MS,
    run: reread,
    onError: (error) => logFailure(app, error, { reread: what }),
  });

/**
 * Base class of rooms that show committed data and own nothing. It keeps the order in which no change is
 * missed: topics first, then the first read, then comparisons with the database for as long as the room is
 * open, since topics may lose messages.
 */
export abstract class MirrorRoom<S extends object> extends LiveRoom<S> {
  /** The open rooms of this kind in the process; see `openRoomsOf`. */
  protected abstract readonly open: Ticker<this>;

  /** Reads from the room's options what it shows. @returns the topics that announce changes of that */
  protected abstract follow(options: object): readonly Source[];

  /**
   * Reads what the room shows for the first time; messages that arrive meanwhile must be kept or lead to
   * another read. @throws as `begin`
   */
  protected abstract load(): Promise<void>;

  protected override async begin(options: object): Promise<void> {
    for (const { topic, receive } of this.follow(options)) await this.listen(topic, receive);
    await this.load();
    this.open.add(this);
    this.onceDisposed(() => this.open.remove(this));
  }
}

/** Sets only the fields that differ, so that nothing else is transmitted. @returns whether there were any */
export const assignChanged = <T extends object>(target: T, values: Partial<T>): boolean => {
  let isChanged = false;
  for (const name of Object.keys(values) as (keyof T)[]) {
    const value = values[name];
    if (target[name] === value) continue;
    target[name] = value as T[keyof T];
    isChanged = true;
  }
  return isChanged;
};

/** Makes `map` hold exactly `rows`: existing entries are changed in place. */
export const syncMap = <V extends object>(
  map: MapSchema<V>,
  rows: ReadonlyMap<string, Partial<V>>,
  make: () => V,
): void => {
  for (const key of Array.from(map.keys())) if (!rows.has(key)) map.delete(key);
  for (const [key, row] of rows) {
    const held = map.get(key);
    if (held) assignChanged(held, row);
    else map.set(key, Object.assign(make(), row));
  }
};
