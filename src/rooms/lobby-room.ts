import { type AuthContext, matchMaker } from "@colyseus/core";
import { StateView } from "@colyseus/schema";
import { z } from "zod";
import type { App } from "../app.ts";
import { Bulkhead } from "../domain/kernel/bulkhead.ts";
import { DomainError, forbidden, invalid, notFound } from "../domain/kernel/errors.ts";
import { type LobbyChange, type LobbyView, type Occurrence } from "../domain/kernel/events/social-views.ts";
import { type LobbyNotice, type LobbySignal, lobbyTopic, signalTopic } from "../domain/kernel/topics.ts";
import { refuseHostile } from "../domain/kernel/hostile-json.ts";
import { newId } from "../domain/kernel/ids.ts";
import {
  advanceLobby,
  checkPasscode,
  createLobby,
  type Door,
  joinLobby,
  LOBBY_COMMANDS,
  type LobbyCommand,
  type LobbyCommandName,
  type LobbyRef,
  NewLobby,
  Quickplay,
  quickplay,
  readDoor,
  readLobby,
} from "../domain/social/lobbies/commands.ts";
import { hashPasscode } from "../domain/social/lobbies/create.ts";
import {
  Data,
  LOBBY_SOCKETS_MAX,
  MEMBER_DATA_MAX_BYTES,
  PASSCODE_MAX,
  REQUESTS_WAITING_MAX,
  SIGNAL_MAX_BYTES,
  SIGNAL_TO_MAX,
  SIGNALS_PER_SECOND_MAX,
} from "../domain/social/lobbies/fields.ts";
import { authenticate, createPlayerCheck, type Principal, refusalOf } from "./authenticate.ts";
import { pinOptions, parse } from "./room-input.ts";
import type { LiveClient } from "./session.ts";
import {
  type Absence,
  type Change,
  LobbyMirror,
  LobbyPresence,
  LobbyState,
  openLobbiesOf,
  type OpenLobby,
  showLobby,
} from "./lobby-mirror.ts";
import { CLOSE, live } from "./messages.ts";
import { gameRoom, MirrorRoom, readIn, source, type Source, transactIn } from "./mirror-room.ts";
import { Rate, type Ticker } from "./pace.ts";
import { lobbyRoomId } from "./room-ids.ts";

/**
 * Validates a client's value as REST would: harmless JSON only; a missing value becomes an empty object.
 * @throws DomainError VALIDATION_ERROR
 */
const asJson = (raw: unknown): unknown => {
  refuseHostile("", raw);
  try {
    return JSON.parse(JSON.stringify(raw ?? {}));
  } catch {
    throw invalid("body", "must be JSON");
  }
};

/** Selects the lobby: exactly one of `lobbyId`, `code`, `create` and `quickplay`. */
const Entry = z
  .object({
    lobbyId: z.uuid().toLowerCase().optional(),
    code: z.string().min(1).max(16).optional(),
    passcode: z.string().max(PASSCODE_MAX).optional(),
    asSpectator: z.boolean().optional(),
    data: Data(MEMBER_DATA_MAX_BYTES).optional(),
    // As in the bodies of the API, an unknown name is refused: a misspelt passcode would open the lobby to all.
    create: NewLobby.strict().optional(),
    quickplay: Quickplay.strict().optional(),
  })
  .refine(
    ({ lobbyId, code, create, quickplay: wish }) =>
      [lobbyId, code, create, wish].filter((given) => given !== undefined).length === 1,
    { path: ["lobbyId"], error: "give one of lobbyId, code, create and quickplay" },
  );
type Entry = z.output<typeof Entry>;

type Entering = { app: App; projectId: string; playerId: string };

/** Reads the requested entry from a client's join options. @throws DomainError VALIDATION_ERROR */
const readEntry = (options: object): Entry => {
  refuseHostile("", options);
  return parse(Entry, options);
};

/**
 * Executes a join's request unless that has been done: creates a lobby, finds one, or makes the player a
 * member.
 * @returns the lobby's id
 * @throws DomainError as the same operation of the API does; FORBIDDEN PLAYER_TOKEN_REQUIRED for a console
 * user who wants more than to watch
 */
const enterLobby = async (app: App, principal: Principal, entry: Entry): Promise<string> => {
  const { projectId, playerId } = principal;
  if (playerId === null) return (await find(app, principal, entry)).lobbyId;
  const entering = { app, projectId, playerId };
  if (entry.create) return create(entering, entry.create);
  if (!entry.quickplay) return joinOne(entering, principal, entry);
  const wish = entry.quickplay;
  const change = await transactIn(app, projectId)((work) => quickplay(work, projectId, playerId, wish));
  return shown(entering, change);
};

/** Returns the room of this process that shows a lobby: what joins need not read. */
const roomHere = (projectId: string, lobbyId: string): LobbyRoom | undefined =>
  matchMaker.getLocalRoomById(lobbyRoomId(projectId, lobbyId)) as LobbyRoom | undefined;

const shown = ({ projectId }: Entering, change: LobbyChange): string => {
  const { id: lobbyId } = change.lobby;
  roomHere(projectId, lobbyId)?.apply(change);
  return lobbyId;
};

const create = async ({ app, projectId, playerId }: Entering, body: NewLobby): Promise<string> => {
  const input = await hashPasscode(app.passwords, body);
  const creation = { hostPlayerId: playerId, via: "PLAYER" } as const;
  const { lobby } = await transactIn(app, projectId)((work) => createLobby(work, projectId, input, creation));
  return lobby.id;
};

/** Makes the player a member; for a player who is one already, the join only adds a socket. */
const joinOne = async (entering: Entering, principal: Principal, entry: Entry): Promise<string> => {
  const { app, projectId, playerId } = entering;
  const named = entry.lobbyId?.toLowerCase();
  // The domain has the last word when the socket opens.
  if (named !== undefined && roomHere(projectId, named)?.hasMember(playerId)) return named;
  const { lobbyId, isMember, hasPasscode } = await find(app, principal, entry);
  if (isMember) return lobbyId;
  const { passcode, asSpectator, data } = entry;
  const ref = { projectId, lobbyId };
  const transact = transactIn(app, projectId);
  const { passwords, limiter, clock } = app;
  // Outside the joining transaction, because hashing is slow.
  const verifiedHash = hasPasscode
    ? await checkPasscode({ transact, passwords, limiter, clock }, ref, { playerId, passcode })
    : null;
  const joining = { playerId, asSpectator, data, verifiedHash };
  return shown(entering, await transact((work) => joinLobby(work, ref, joining)));
};

/** Finds the lobby, and who the player is to it, by one statement. */
const find = async (
  app: App,
  { projectId, playerId }: Principal,
  { lobbyId, code }: Entry,
): Promise<Door & { lobbyId: string }> => {
  if (lobbyId === undefined && code === undefined)
    throw forbidden(
      "PLAYER_TOKEN_REQUIRED",
      "only players can create or search lobbies: use a player's token",
    );
  const door = await readDoor(readIn(app, projectId), { projectId, playerId, lobbyId, code });
  const refused = playerId === null ? undefined : refusalOf(door.playerStatus ?? undefined);
  if (refused) throw refused;
  if (door.lobbyId === null) throw notFound("lobby");
  return { ...door, lobbyId: door.lobbyId };
};

const SignalBody = z.object({
  to: z
    .union([z.uuid().toLowerCase(), z.array(z.uuid().toLowerCase()).min(1).max(SIGNAL_TO_MAX)])
    .transform((to) => (typeof to === "string" ? [to] : to))
    .nullish(),
  payload: z.json().refine((payload) => Buffer.byteLength(JSON.stringify(payload)) <= SIGNAL_MAX_BYTES, {
    error: `must be at most ${SIGNAL_MAX_BYTES} bytes of JSON`,
  }),
});

const tooManySignals = (): DomainError =>
  new DomainError(
    "RATE_LIMITED",
    `more than ${SIGNALS_PER_SECOND_MAX} signals in a second; try again in 1 second`,
    { reason: "SIGNALS_PER_SECOND", retryAfterSeconds: 1 },
  );

const tooManyRequests = (): DomainError => {
  const retry = { retryAfterSeconds: 1 };
  return new DomainError("SERVICE_UNAVAILABLE", "too many requests in this lobby: try again", retry);
};

/** How long a room stays open after its lobby has ended. */
const CLOSED_KEPT_MS = 10 * 60_000;
/** Time for members who were connected when the last room ended to return to a new one. */
const ABSENT_AFTER_MS = 5_000;
/** Clocks of timers and dates differ slightly: an early start would find nothing due. */
const START_MARGIN_MS = 10;

const RoomOptions = z.object({ projectId: z.uuid(), lobbyId: z.uuid() });

/**
 * Room `lobby`: one lobby, for its members and for watching console users. A mirror: every change is
 * committed by the domain before it is shown, by this room or by any other writer.
 */
abstract class LobbyRoom extends MirrorRoom<LobbyState> implements OpenLobby {
  protected abstract override readonly open: Ticker<OpenLobby>;
  protected override readonly stateBytes = 8_192;
  override state = new LobbyState();
  override maxClients = LOBBY_SOCKETS_MAX;
  ref: LobbyRef = { projectId: "", lobbyId: "" };
  #isDisposed = false;
  #countdown = "";
  readonly #kicked = new Set<string>();
  /** Changes are committed one after another. */
  readonly #queue = new Bulkhead({ ofAll: { slots: 1 }, refusal: tooManyRequests });
  readonly #signals = new Rate(SIGNALS_PER_SECOND_MAX, 1_000);
  readonly #presence = new LobbyPresence({
    ref: () => this.ref,
    commit: (run) => this.#change(run),
    refresh: () => this.#mirror.refresh(),
    onError: (error) => this.report(error, "presence"),
  });
  readonly #mirror = new LobbyMirror({
    read: () => this.#read(),
    show: (lobby) => this.#show(lobby),
    onOccurrence: (occurrence) => this.#sendOccurrence(occurrence),
    later: (delayMs, run) => this.later(delayMs, run),
    onError: (error) => this.report(error, "mirror"),
  });

  protected override follow(options: object): Source[] {
    const { projectId, lobbyId } = parse(RoomOptions, options);
    this.ref = { projectId, lobbyId };
    this.roomId = lobbyRoomId(projectId, lobbyId);
    const take = (name: string, run: (client: LiveClient, raw: unknown) => unknown): void =>
      void this.onMessage(name, this.handle(z.unknown(), run));
    for (const name of Object.keys(LOBBY_COMMANDS) as LobbyCommandName[])
      take(name, (client, raw) => this.#obey(client, name, raw));
    take("lobby.signal", (client, raw) => this.#signal(client, raw));
    this.onceDisposed(() => (this.#isDisposed = true));
    return [
      source<LobbyNotice>(lobbyTopic(projectId, lobbyId), (notice) => this.#mirror.receive(notice)),
      source<LobbySignal>(signalTopic(projectId, lobbyId), (signal) => this.#pass(signal)),
    ];
  }

  protected override async load(): Promise<void> {
    this.#mirror.start(await this.#read());
    this.later(ABSENT_AFTER_MS, () => this.#reportAbsent());
  }

  look(version: number | undefined): void {
    if (version === undefined) return this.#endAll();
    this.#mirror.expect(version);
    this.later(0, () => this.#presence.retry());
    this.#reportPresent();
  }

  /** Whether the lobby is open and shows the player in it. */
  hasMember(playerId: string): boolean {
    return this.state.status !== "CLOSED" && this.#isMember(playerId);
  }

  /** Shows a change that a join of this process has committed. */
  apply(change: LobbyChange): void {
    if (!this.#isDisposed) this.#mirror.apply(change);
  }

  protected override async welcome(client: LiveClient): Promise<void> {
    const { playerId } = client.auth!;
    if (playerId === null) return;
    // Another process may have committed the join.
    if (!this.#isMember(playerId)) await this.#mirror.refresh();
    if (this.state.status === "CLOSED") return;
    if (!this.#isMember(playerId)) throw forbidden("NOT_A_MEMBER", "the player is not in the lobby");
    if (!client.view) {
      client.view = new StateView();
      client.view.add(this.state);
    }
    await this.#presence.arrive(client.sessionId, playerId);
  }

  protected override farewell(): void {}

  override async onDrop(client: LiveClient, code?: number): Promise<void> {
    await super.onDrop(client, code);
    await this.#forget(client, "DISCONNECT");
  }

  override async onLeave(client: LiveClient, code?: number): Promise<void> {
    const isConsented = code === CLOSE.CONSENTED && client.userData?.isClosing === false;
    await this.#forget(client, isConsented ? "LEAVE" : "DISCONNECT");
  }

  async #obey(client: LiveClient, name: LobbyCommandName, raw: unknown): Promise<{ version: number }> {
    const playerId = this.#playerOf(client);
    const command: LobbyCommand = LOBBY_COMMANDS[name];
    const given = parse(command.body, asJson(raw));
    const body = command.prepare ? await command.prepare(this.app.passwords, given) : given;
    // One more is under way.
    if (this.#queue.waiting + 1 >= REQUESTS_WAITING_MAX) throw tooManyRequests();
    const run = () => this.#change((work) => command.run(work, this.ref, { kind: "PLAYER", playerId }, body));
    await (name === "lobby.leave" ? this.#presence.leave(playerId, run) : run());
    // Deferred: the request that caused it is answered first.
    this.later(0, () => this.#endStrangers());
    return { version: this.#mirror.version };
  }

  #signal(client: LiveClient, raw: unknown): { id: string } {
    const from = this.#playerOf(client);
    const { to, payload } = parse(SignalBody, asJson(raw));
    // Members keep their entry, whatever their sockets.
    const sender = this.state.members.get(from) ?? client;
    if (!this.#signals.take(sender, this.app.clock().getTime())) throw tooManySignals();
    const id = newId();
    const signal: LobbySignal = { id, from, to: to ?? null, payload: payload as LobbySignal["payload"] };
    this.app.topics.publish(signalTopic(this.ref.projectId, this.ref.lobbyId), signal);
    return { id };
  }

  /** Delivers a signal to the sockets of this room that it addresses. */
  #pass({ id, from, to, payload }: LobbySignal): void {
    const data = { lobbyId: this.ref.lobbyId, from, payload };
    const message = { ...live(this.app.clock(), data), id };
    for (const client of this.clients) {
      const playerId = this.#presence.playerOf(client.sessionId);
      if (playerId === undefined || !this.#isMember(playerId)) continue;
      if (to ? to.includes(playerId) : playerId !== from) this.push(client, "lobby.signal", message);
    }
  }

  /** @throws DomainError FORBIDDEN for watchers */
  #playerOf(client: LiveClient): string {
    const playerId = this.#presence.playerOf(client.sessionId);
    if (playerId === undefined)
      throw forbidden("PLAYER_TOKEN_REQUIRED", "only members of the lobby can do this: join it first");
    return playerId;
  }

  #isMember(playerId: string): boolean {
    return this.state.members.has(playerId);
  }

  #read(): Promise<LobbyView> {
    return transactIn(this.app, this.ref.projectId)((work) => readLobby(work, this.ref, { kind: "SERVER" }));
  }

  /** Commits a change after all earlier ones, and shows it. */
  #change(run: Change): Promise<void> {
    return this.#queue.run("", async () => {
      const change = await transactIn(this.app, this.ref.projectId)(run);
      if (change && !this.#isDisposed) this.#mirror.apply(change);
    });
  }

  async #forget(client: LiveClient, absence: Absence): Promise<void> {
    const playerId = this.#presence.depart(client.sessionId);
    if (playerId === undefined) return;
    // Clients of a stopping process return through another one; settleOrphans() handles those who do not.
    if (matchMaker.state === matchMaker.MatchMakerState.SHUTTING_DOWN) return;
    if (this.state.status === "CLOSED") return;
    if (absence === "LEAVE" || this.#isMember(playerId))
      await this.#presence.reportAbsence(playerId, absence);
  }

  /** Reports members who were connected before this room existed and have not returned to it. */
  async #reportAbsent(): Promise<void> {
    const absent = [...this.state.members.values()].filter(
      ({ playerId, status }) => status !== "DISCONNECTED" && !this.#presence.isHere(playerId),
    );
    for (const { playerId } of absent) await this.#presence.reportAbsence(playerId, "DISCONNECT");
  }

  #show(lobby: LobbyView): void {
    showLobby(this.state, lobby);
    if (this.clients.length > 0) this.broadcastPatch();
    this.#countDown(lobby);
    for (const { playerId } of lobby.members) this.#kicked.delete(playerId);
    this.#reportPresent();
    this.later(0, () => this.#endStrangers());
    if (lobby.status === "CLOSED") this.later(CLOSED_KEPT_MS, () => this.#endAll());
  }

  /** Reports present players again whom another room of the lobby or another process saw leave. */
  #reportPresent(): void {
    for (const { playerId, status } of this.state.members.values())
      if (status === "DISCONNECTED" && this.#presence.isHere(playerId))
        this.later(0, () => this.#presence.reportPresence(playerId));
  }

  #sendOccurrence({ name, data }: Occurrence): void {
    if (name === "lobby.member_left" && data["reason"] === "KICKED")
      this.#kicked.add(String(data["playerId"]));
    this.sendToAll(name, data);
  }

  #countDown({ status, startsAt }: LobbyView): void {
    if (status !== "STARTING" || startsAt === null || startsAt === this.#countdown) return;
    this.#countdown = startsAt;
    const leftMs = Date.parse(startsAt) - this.app.clock().getTime();
    this.later(Math.max(0, leftMs) + START_MARGIN_MS, async () => {
      if (this.state.status !== "STARTING" || this.state.startsAt !== startsAt) return;
      await this.#change((work) => advanceLobby(work, this.ref));
    });
  }

  /**
   * Ends the sessions of players who are no longer in the lobby. Members at its end may stay; a lobby that
   * ended because it was empty has none.
   */
  #endStrangers(): void {
    if (this.state.status === "CLOSED" && this.state.closeReason !== "EMPTY") return;
    for (const client of this.clients) {
      const playerId = this.#presence.playerOf(client.sessionId);
      if (playerId === undefined) continue;
      if (this.#isMember(playerId) && !this.#presence.isLeaving(playerId)) continue;
      if (this.#kicked.has(playerId)) this.end(client, CLOSE.FORBIDDEN, "KICKED");
      else this.end(client, CLOSE.CONSENTED, "LEFT");
    }
  }

  #endAll(): void {
    for (const client of this.clients) this.end(client, CLOSE.CONSENTED, "CLOSED");
  }
}

/** Creates the room `lobby` of an application. A client's request is executed before a room is searched. */
export const lobbyRoom = (app: App) => {
  const requirePlayer = createPlayerCheck(app);
  const open = openLobbiesOf(app);
  const room = class extends LobbyRoom {
    protected readonly app = app;
    protected readonly open = open;

    static override async onAuth(token: string, options: object, context: AuthContext): Promise<unknown> {
      const principal = await authenticate(app, token, context);
      const entry = readEntry(options);
      // The others look at the player with the lobby.
      if (entry.create ?? entry.quickplay) await requirePlayer(principal);
      const lobbyId = await enterLobby(app, principal, entry);
      pinOptions(options, z.object({}), { projectId: principal.projectId, lobbyId });
      return principal;
    }
  };
  return gameRoom({ room, selectedBy: ["projectId", "lobbyId"], isCrowd: false });
};
