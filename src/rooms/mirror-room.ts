import { createHash } from "node:crypto";
import { defineRoom, type RegisteredHandler } from "@colyseus/core";
import { z } from "zod";
import type { App } from "../app.ts";
import {
  admitAttempt,
  isOneThing,
  type SubmitAnswer,
  submitPlayerStep,
  submitShape,
} from "../domain/economy/quests/submissions.ts";
import {
  claimKey,
  findResponse,
  IDEMPOTENCY_KEY_MAX,
  type KeyedRequest,
  storeResponse,
} from "../domain/kernel/idempotency.ts";
import { type Read, readBy } from "../domain/kernel/read.ts";
import type { RowScope, Transact, Work } from "../domain/kernel/work.ts";
import { projectPlans, readPlan } from "../domain/progression/plan.ts";
import { LiveRoom, logFailure } from "./live-room.ts";

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

const Name = z.string().min(1).max(64);
const IdempotencyKey = z
  .string()
  .max(IDEMPOTENCY_KEY_MAX)
  .regex(/^[\x21-\x7e]+$/, "must be visible ASCII characters");

/** A step of one of the player's own quests, and what is submitted for it. */
export const SubmitRequest = submitShape
  .extend({ quest: Name, step: Name, idempotencyKey: IdempotencyKey.optional() })
  .refine(...isOneThing);

type Submitting = Omit<z.output<typeof SubmitRequest>, "idempotencyKey">;
type PlayerRef = { projectId: string; playerId: string };

/**
 * Submits a step of the quest of the player to whom the room belongs, as the operation of REST does. What was
 * submitted with an `idempotencyKey` has the same answer when it comes again; a refusal is tried anew.
 * @throws DomainError as `submitPlayerStep`; CONFLICT IDEMPOTENCY_IN_PROGRESS,
 * UNPROCESSABLE_ENTITY IDEMPOTENCY_KEY_REUSED
 */
export const submitQuestStep = async (
  app: App,
  player: PlayerRef,
  { idempotencyKey: key, ...submitting }: z.output<typeof SubmitRequest>,
): Promise<SubmitAnswer> => {
  const { given, admit } = attempt(app, player, submitting);
  const ref = { projectId: player.projectId, id: player.playerId };
  const run = (work: Work): Promise<SubmitAnswer> => submitPlayerStep(work, ref, given);
  if (key !== undefined) return runOnce(app, player, { key, submitting, admit, run });
  await admit();
  return transactIn(app, player.projectId)(run);
};

const attempt = (
  app: App,
  { projectId, playerId }: PlayerRef,
  { quest: questRef, step: stepKey, ...body }: Submitting,
) => {
  const given = { questRef, stepKey, body };
  const { limiter, clock } = app;
  const parts = { transact: transactIn(app, projectId), limiter, clock };
  return { given, admit: () => admitAttempt(parts, { projectId, id: playerId }, given) };
};

type Once = {
  key: string;
  submitting: Submitting;
  admit: () => Promise<void>;
  run: (work: Work) => Promise<SubmitAnswer>;
};

/** Keys of a player are no other's; they are kept with those of the tenant. */
const keyedRequest = (
  { projectId, playerId }: PlayerRef,
  tenantId: string,
  { key, submitting }: Once,
): KeyedRequest => {
  const fingerprint = createHash("sha256").update(JSON.stringify(submitting)).digest("hex");
  return { scope: `player:${projectId}:${playerId}`, key, tenantId, fingerprint };
};

/** Runs a submission once for its key: the answer is stored in the transaction of the work. */
const runOnce = async (app: App, player: PlayerRef, once: Once): Promise<SubmitAnswer> => {
  const { secretBox } = app;
  const { projectId } = player;
  const { tenantId } = await transactIn(app, projectId)((work) => readPlan(work, projectId, projectPlans));
  const transact = app.transactAs({ role: "web", tenantId, projectIds: [projectId] });
  const request = keyedRequest(player, tenantId, once);
  const known = await transact((work) => findResponse(work, { secretBox, request }));
  if (known) return known.body as SubmitAnswer;
  await once.admit();
  return transact(async (work) => {
    const rival = await claimKey(work, { secretBox, request });
    if (rival) return rival.body as SubmitAnswer;
    const body = await once.run(work);
    await storeResponse(work, { secretBox, request, response: { status: 200, body } });
    return body;
  });
};

/** Maximum number of rooms per board, opened one after another as they fill up. */
export const BOARD_SHARDS = 32;

/** Derives a room id from the room's subject: the socket path only allows letters, digits, `_` and `-`. */
const roomId = (...parts: readonly (string | number)[]): string =>
  createHash("sha256").update(parts.join("\0")).digest("base64url").slice(0, 22);

export const playerRoomId = (projectId: string, playerId: string): string =>
  roomId("player", projectId, playerId);

/** `board`: the value of a breakdown, "" without one. */
type BoardRoomKey = { projectId: string; leaderboardKey: string; board: string; top: number };

export const leaderboardRoomId = (
  { projectId, leaderboardKey, board, top }: BoardRoomKey,
  shard: number,
): string => roomId("leaderboard", projectId, leaderboardKey, board, top, shard);

/** Maximum number of rooms per channel, opened one after another as they fill up. */
export const CHAT_SHARDS = 64;

export const chatRoomId = (projectId: string, channelId: string, shard: number): string =>
  roomId("chat", projectId, channelId, shard);

export const lobbyRoomId = (projectId: string, lobbyId: string): string =>
  roomId("lobby", projectId, lobbyId);

/** Maximum number of rooms per list of lobbies, opened one after another as they fill up. */
export const LOBBIES_SHARDS = 32;

/** `mode` is "" for all modes; `filter` identifies the required metadata, "" for none. */
type LobbiesRoomKey = { projectId: string; mode: string; filter: string };

export const lobbiesRoomId = ({ projectId, mode, filter }: LobbiesRoomKey, shard: number): string =>
  roomId("lobbies", projectId, mode, filter, shard);

/** What a room of events shows; "" for all. */
type EventsRoomKey = { projectId: string; eventTypes: string; playerId: string; status: string };

export const eventsRoomId = (
  { projectId, eventTypes, playerId, status }: EventsRoomKey,
  shard: number,
): string => roomId("events", projectId, eventTypes, playerId, status, shard);

/** Items of this process that are checked together, at an interval, while there are any. */
export type Ticker<T> = { add(item: T): void; remove(item: T): void; count(): number };

type TickerParts<T> = {
  everyMs: number;
  run(items: readonly T[]): Promise<void>;
  onError: (error: unknown) => void;
};

const all = new Set<() => void>();

/** Runs all tickers now, after a time in which messages may have been lost. */
export const tickAll = (): void => {
  for (const tick of all) tick();
};

/** Runs never overlap: a slow one skips the ticks it misses. */
const createTicker = <T>({ everyMs, run, onError }: TickerParts<T>): Ticker<T> => {
  const items = new Set<T>();
  let timer: NodeJS.Timeout | undefined;
  let isRunning = false;
  const tick = async (): Promise<void> => {
    if (isRunning) return;
    isRunning = true;
    try {
      await run([...items]);
    } catch (error) {
      onError(error);
    } finally {
      isRunning = false;
    }
  };
  const tickNow = () => void tick();
  return {
    add: (item) => {
      items.add(item);
      all.add(tickNow);
      timer ??= setInterval(() => void tick(), everyMs).unref();
    },
    remove: (item) => {
      items.delete(item);
      if (items.size > 0) return;
      clearInterval(timer);
      timer = undefined;
      all.delete(tickNow);
    },
    count: () => items.size,
  };
};

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
