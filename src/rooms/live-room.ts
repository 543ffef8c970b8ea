import { AsyncResource } from "node:async_hooks";
import {
  type Client,
  ClientState,
  type MessageContext,
  Room,
  type RoomException,
  type RoomMethodName,
  SchemaSerializer,
  type Serializer,
  ServerError,
} from "@colyseus/core";
import type { StateView } from "@colyseus/schema";
import type { WebSocket } from "ws";
import { z } from "zod";
import type { App } from "../app.ts";
import { DomainError, forbidden, unauthorized } from "../domain/kernel/errors.ts";
import { outageOf } from "../domain/kernel/outages.ts";
import { admitSocket } from "./admission.ts";
import { type Principal, verifyToken } from "./authenticate.ts";
import { isUnacknowledged, type LiveClient, newSession, noteJoinSent } from "./session.ts";
import { errorObject, INTERNAL_ERROR, refuseCreation, socketError } from "./room-errors.ts";
import { parse } from "./room-input.ts";
import { trackRoom } from "./listing.ts";
import * as limits from "./messages.ts";
import { CLOSE, type ClosedReason, live } from "./messages.ts";
import { SafeSerializer } from "./safe-serializer.ts";

/**
 * Logs what a room has thrown: a bug as an error with the fields `of` the room, an outage as one rate-limited
 * warning, and a refusal, which the client receives, not at all.
 */
export const logFailure = (
  { log, warnOfOutage }: Pick<App, "log" | "warnOfOutage">,
  error: unknown,
  of: Record<string, string>,
): void => {
  if (error instanceof DomainError || error instanceof ServerError) return;
  if (outageOf(error) !== undefined)
    warnOfOutage(error, "rooms cannot do all that they are asked: what they need does not answer");
  else if (!errorObject(error)) log.error({ err: error, ...of }, "room failed");
};

/**
 * Ends the session of a client that sent a message the room does not accept. Core itself would put the
 * message's name into the close reason.
 */
const refuseMessage = (client: LiveClient): void => client.leave(CLOSE.ERROR, "invalid message");

/** The owner of a seat, as far as it crosses processes. */
export type SeatHolder = Pick<Principal, "projectId" | "subject">;

type Dropped = Record<string, [sessionId: string, ...unknown[]]>;
type Reserved = Record<string, [options: unknown, auth: Principal | undefined, ...unknown[]]>;

/**
 * Returns the owner of the seat for a reconnection token: of a dropped client, or of one that still seems
 * connected.
 */
const holderOf = (room: Room, token: string): Principal | undefined => {
  const here = room.clients.find(({ reconnectionToken }) => reconnectionToken === token);
  if (here) return here.auth as Principal | undefined;
  const { _reconnections: dropped, _reservedSeats: reserved } = room as unknown as {
    _reconnections: Dropped;
    _reservedSeats: Reserved;
  };
  return Object.hasOwn(dropped, token) ? reserved[dropped[token]![0]]?.[1] : undefined;
};

/** Core's record of a seat: the options and the token of its join, and whether its client has arrived. */
type Seat = [options: unknown, auth: unknown, isTaken: boolean, isOfDropped: boolean];

/**
 * Withdraws the seats of a closing room whose clients have not arrived yet. Core would keep the room, and
 * with it the process, until they expire. A client that arrives for one is refused, and joins again.
 */
const withdrawSeats = (room: Room): void => {
  const seats = room["_reservedSeats"] as Record<string, Seat>;
  for (const [sessionId, [, , isTaken, isOfDropped]] of Object.entries(seats)) {
    // Seats of dropped clients end with their reconnections.
    if (isTaken || isOfDropped) continue;
    clearTimeout(room["_reservedSeatTimeouts"][sessionId]);
    delete room["_reservedSeatTimeouts"][sessionId];
    delete seats[sessionId];
  }
  // A room with a reserved seat waits until that expires; from now on only for leaving clients.
  room["resetAutoDisposeTimeout"](0);
};

/** Owner of a room; part of its listing, so that rooms can be found by it. */
export type RoomMetadata = { projectId: string } & Record<string, unknown>;

const TEND_EVERY_MS = 1_000;
/** Milliseconds after which a client that was asked to close is terminated. */
const CLOSE_GRACE_MS = 2_000;

const RenewBody = z.object({ token: z.string().max(4_096) });

/**
 * Base class of all rooms: ends sessions when their token expires, limits a client's messages and its send
 * buffer, and keeps exceptions from ending the process. Subclasses define what a join shows.
 */
export abstract class LiveRoom<S extends object> extends Room<{
  state: S;
  metadata: RoomMetadata;
  client: LiveClient;
}> {
  protected abstract readonly app: App;
  /** Initial size of the encode buffers, in bytes. */
  protected readonly stateBytes: number = 2_048;
  override maxMessagesPerSecond = limits.MESSAGES_PER_SECOND_MAX;
  override seatReservationTimeout = 10;
  /** Changes are sent at once by broadcastPatch(); this rate is only the cost of an idle room. */
  override patchRate: number | null = 1_000;

  #serializer: SafeSerializer | undefined;
  readonly #timers = new Set<NodeJS.Timeout>();
  readonly #cleanups: (() => void)[] = [];

  /**
   * Loads the room's subject. @throws DomainError that the joining client receives, and that is not logged
   */
  protected abstract begin(options: object): Promise<void>;
  /** Shows the room to an admitted client. Runs again for a client that reconnected. */
  protected abstract welcome(client: LiveClient, options: object, isBack: boolean): void | Promise<void>;
  /** Called when a client enters the room, before it is welcomed; it need not receive updates in between. */
  protected hold(_client: LiveClient): void {}
  /** Removes a client's data; may be called for a client that was never welcomed. */
  protected abstract farewell(client: LiveClient): void;

  override setSerializer(serializer: Serializer<S>): void {
    if (serializer instanceof SchemaSerializer) {
      this.#serializer = new SafeSerializer(this.stateBytes, (but) => this.#patch(but));
      super.setSerializer(this.#serializer);
    } else super.setSerializer(serializer);
  }

  override async onCreate(options: object): Promise<void> {
    this.onceDisposed(trackRoom(this));
    const renew = this.handle(RenewBody, (client, body) => this.#renew(client, body));
    this.onMessage("session.renew", renew);
    this.onMessage("*", refuseMessage);
    this.clock.setInterval(() => this.#tend(), TEND_EVERY_MS);
    const report = (outage: unknown): void => this.report(outage, "onCreate");
    await this.begin(options).catch((error: unknown) => refuseCreation(error, report));
  }

  override async onJoin(client: LiveClient, options: object): Promise<void> {
    this.hold(client);
    try {
      const { auth } = client;
      if (!auth || auth.projectId !== this.metadata.projectId)
        throw forbidden("OTHER_PROJECT", "the room belongs to another project");
      await this.#count(client);
      client.userData = newSession(this.#nowMs());
      this.#replaceOldest(auth.subject);
      await this.welcome(client, options, false);
      noteJoinSent(client, this.#nowMs());
    } catch (error) {
      this.report(error, "onJoin");
      throw socketError(error);
    }
  }

  override async onReconnect(client: LiveClient): Promise<void> {
    try {
      // An automatic reconnection carries no token: the permissions of the old one are checked again.
      if (client.auth!.expiresAtMs <= this.#nowMs())
        throw unauthorized("TOKEN_EXPIRED", "the token has ended");
      await this.#count(client);
      client.userData!.isJoinSent = false;
      this.#replaceOldest(client.auth!.subject);
      await this.welcome(client, {}, true);
      noteJoinSent(client, this.#nowMs());
    } catch (error) {
      this.report(error, "onReconnect");
      throw socketError(error);
    }
  }

  override onDrop(client: LiveClient, code?: number): void | Promise<void> {
    this.hold(client);
    // Core also calls this for a client whose onJoin threw; such a seat cannot be kept.
    if (!client.userData || client.userData.isClosing || !limits.DROPPED.has(code ?? 0)) return;
    this.allowReconnection(client, limits.RECONNECT_SECONDS).catch(() => {});
  }

  override onLeave(client: LiveClient, _code?: number): void | Promise<void> {
    this.farewell(client);
  }

  override onDispose(): void {
    for (const timer of this.#timers) clearTimeout(timer);
    for (const cleanup of this.#cleanups.splice(0)) cleanup();
  }

  override onBeforeShutdown(): void {
    const sockets = this.clients.map(({ ref }) => ref as WebSocket);
    for (const client of this.clients) this.sendTo(client, "session.closed", { reason: "SHUTDOWN" });
    // Terminates sockets that ignore the close frame, so that they do not keep the process alive.
    this.later(CLOSE_GRACE_MS, () => sockets.map((socket) => socket.terminate()));
    this.disconnect(CLOSE.SHUTDOWN).catch((error: unknown) => this.report(error, "onBeforeShutdown"));
    withdrawSeats(this);
  }

  // Deliberately a prototype method: core looks it up before fields are set, and without it any exception in
  // a handler, hook or timer ends the process.
  override onUncaughtException(error: RoomException, method: RoomMethodName): void {
    this.report(error.cause ?? error, method);
  }

  /** A client who is not JOINED gets no patch. */
  #patch(but: Client | undefined): void {
    if (but) but.state = ClientState.JOINING;
    try {
      this.broadcastPatch();
    } finally {
      if (but) but.state = ClientState.JOINED;
    }
  }

  /** Makes changes that only clients see who have not got the state yet, or nobody any more. */
  protected unsent(change: () => void): void {
    if (this.#serializer) this.#serializer.unsent(change);
    else change();
  }

  /**
   * Marks a change that only this view sees. A room that calls this must do so for every such change: other
   * views are then sent the shared patch.
   */
  protected touchView(view: StateView): void {
    this.#serializer?.touch(view);
  }

  /** Logs errors that are not an answer to the client. */
  protected report(error: unknown, method: string): void {
    logFailure(this.app, error, { room: this.roomName, roomId: this.roomId, method });
  }

  /** Runs a callback when the room is disposed, or at once when it is being disposed. */
  protected onceDisposed(cleanup: () => void): void {
    this.#cleanups.push(cleanup);
  }

  /**
   * Timer owned by the room: core's clock has the resolution of `patchRate`, and a bare setTimeout may throw.
   */
  protected later(delayMs: number, run: () => unknown): void {
    const timer = setTimeout(() => {
      this.#timers.delete(timer);
      void this.#run(run);
    }, delayMs);
    this.#timers.add(timer);
  }

  async #run(run: () => unknown): Promise<void> {
    try {
      await run();
    } catch (error) {
      this.report(error, "timer");
    }
  }

  /** Subscribes to a topic for the lifetime of the room. */
  protected async listen<M>(topic: string, listener: (message: M) => void): Promise<() => void> {
    // Bound to the room's own async context: a publisher in this process may be inside a transaction.
    const receive = AsyncResource.bind((message: M) => {
      try {
        listener(message);
      } catch (error) {
        this.report(error, "topic");
      }
    });
    const unsubscribe = await this.app.topics.subscribe(topic, receive);
    this.onceDisposed(unsubscribe);
    return unsubscribe;
  }

  /** Sends one enveloped message, or ends the session of a client that does not read. */
  protected sendTo(client: LiveClient, name: string, data: unknown): void {
    this.push(client, name, live(this.app.clock(), data));
  }

  /** Sends one enveloped message, encoded once, to all but `except`; slow readers are detected within 1 s. */
  protected sendToAll(name: string, data: unknown, except: readonly LiveClient[] = []): void {
    const message = live(this.app.clock(), data);
    this.broadcast(name, message, except.length > 0 ? { except: [...except] } : {});
  }

  protected push(client: LiveClient, name: string, message: unknown): void {
    if (client.userData?.isClosing) return;
    client.send(name, message);
    this.#dropSlow(client);
  }

  /** Ends a session from the server's side. */
  end(client: LiveClient, code: number, reason: ClosedReason | "SLOW" | typeof limits.NOT_JOINED): void {
    const session = client.userData;
    if (!session || session.isClosing) return;
    if (code !== CLOSE.SLOW && code !== CLOSE.ERROR) this.sendTo(client, "session.closed", { reason });
    session.isClosing = true;
    // From here on core neither sends to the client nor receives from it.
    client.state = ClientState.LEAVING;
    client.leave(code, reason);
    const socket = client.ref as WebSocket;
    this.later(CLOSE_GRACE_MS, () => socket.terminate());
  }

  /**
   * Registers a request of the room's contract. What `run` returns is the answer; what it throws is the
   * rejection, as the error object. An invalid message that expects no answer ends the session.
   */
  protected handle<B extends z.ZodType>(
    schema: B,
    run: (client: LiveClient, body: z.output<B>) => unknown,
  ): (client: LiveClient, raw: unknown, context: MessageContext) => unknown {
    return async (client, raw, context) => {
      try {
        return await run(client, parse(schema, raw));
      } catch (error) {
        this.report(error, "request");
        if (context.id === undefined) refuseMessage(client);
        return context.reject(errorObject(error) ?? INTERNAL_ERROR);
      }
    };
  }

  /**
   * Returns the session that this token and holder may take over; undefined for anybody else. Other processes
   * call it by name.
   */
  claimSeat(reconnectionToken: string, { projectId, subject }: SeatHolder): string | undefined {
    const holder = holderOf(this, reconnectionToken);
    if (!holder || holder.projectId !== projectId || holder.subject !== subject) return undefined;
    return this.checkReconnectionToken(reconnectionToken);
  }

  /** Counts the player's socket for as long as it is open. */
  async #count(client: LiveClient): Promise<void> {
    // Core counts messages per second by the room's clock, which otherwise only advances with each patch.
    (client.ref as WebSocket).prependListener("message", () => this.clock.tick());
    const { projectId, subject } = client.auth!;
    const forget = await admitSocket(this.app, `${projectId}:${subject}`);
    const socket = client.ref as WebSocket;
    if (socket.readyState === socket.CLOSED) forget();
    else socket.once("close", forget);
  }

  #nowMs(): number {
    return this.app.clock().getTime();
  }

  async #renew(client: LiveClient, { token }: z.output<typeof RenewBody>): Promise<{ expiresAt: string }> {
    const renewed = await verifyToken(this.app, token);
    const held = client.auth!;
    if (renewed.subject !== held.subject || renewed.projectId !== held.projectId) {
      throw forbidden("OTHER_PLAYER", "the token belongs to another player: use one of the same player");
    }
    held.expiresAtMs = Math.max(held.expiresAtMs, renewed.expiresAtMs);
    client.userData!.isWarned = false;
    return { expiresAt: new Date(held.expiresAtMs).toISOString() };
  }

  #replaceOldest(subject: string): void {
    const own = this.clients.filter(
      (one) => one.auth?.subject === subject && one.userData?.isClosing === false,
    );
    for (const client of own.slice(0, -limits.SESSIONS_MAX)) this.end(client, CLOSE.CONSENTED, "REPLACED");
  }

  #tend(): void {
    const nowMs = this.#nowMs();
    for (const client of this.clients) {
      const { auth, userData: session } = client;
      if (!auth || !session || session.isClosing) continue;
      const leftMs = auth.expiresAtMs - nowMs;
      if (leftMs <= 0) this.end(client, CLOSE.EXPIRED, "EXPIRED");
      else if (leftMs <= limits.EXPIRY_NOTICE_SECONDS * 1_000 && !session.isWarned) {
        session.isWarned = true;
        this.sendTo(client, "session.expiring", { expiresAt: new Date(auth.expiresAtMs).toISOString() });
      }
      if (isUnacknowledged(client, nowMs, this.seatReservationTimeout * 1_000))
        this.end(client, CLOSE.ERROR, limits.NOT_JOINED);
      this.#dropSlow(client);
    }
  }

  #dropSlow(client: LiveClient): void {
    if ((client.ref as WebSocket).bufferedAmount > limits.SEND_BUFFER_MAX_BYTES)
      this.end(client, CLOSE.SLOW, "SLOW");
  }
}
