import type { AuthContext } from "@colyseus/core";
import { schema, type SchemaType, t } from "@colyseus/schema";
import { z } from "zod";
import type { App } from "../app.ts";
import {
  readPlayersNow,
  readStreamHeads,
  type StreamHead,
  type StreamRef,
} from "../domain/delivery/outbox/stream.ts";
import { type PlayerGoals, readPlayersGoals } from "../domain/economy/adventures/change-adventures.ts";
import type { ProjectPlan } from "../domain/evaluation/project-plan.ts";
import { DomainError, forbidden, notFound, retryLater } from "../domain/kernel/errors.ts";
import { noticeTopic, type PlayerMessage, playerTopic } from "../domain/kernel/topics.ts";
import type { PlayerNotice } from "../domain/kernel/events/domain-events.ts";
import { type Grouped, grouped } from "../domain/kernel/flights.ts";
import type { PlayerStatus } from "../domain/players/player.ts";
import { projectPlans, readPlan } from "../domain/progression/plan.ts";
import type { ShownPlayer } from "../domain/progression/players/show.ts";
import { authenticate, refusalOf } from "./authenticate.ts";
import { pinOptions, parse } from "./room-input.ts";
import type { LiveClient } from "./session.ts";
import { CLOSE, HEARTBEAT_SECONDS, live, livePlayerMessage, SESSIONS_MAX, stateOf } from "./messages.ts";
import {
  gameRoom,
  MirrorRoom,
  openRoomsOf,
  readIn,
  REREAD_EVERY_MS,
  source,
  type Source,
  transactIn,
} from "./mirror-room.ts";
import { ResyncRate, type Ticker } from "./pace.ts";
import { submitQuestStep, SubmitRequest } from "./submit-step.ts";
import { playerRoomId } from "./room-ids.ts";
import { isBroken, OrderedStream, REPLAY_MAX, type StreamPage } from "./ordered-stream.ts";

/**
 * Minimum milliseconds between two notices about a board's standing; the last one is always delivered in the
 * end.
 */
const PLACE_EVERY_MS = 1_000;

type Parts = {
  later(delayMs: number, run: () => unknown): void;
  send(notice: PlayerNotice): void;
};

/** Forwards notices; of those in quick succession (standings on one board) only the last. */
class NoticeThrottle {
  readonly #parts: Parts;
  /** Boards with a recent notice, and the newest notice since. */
  readonly #held = new Map<string, PlayerNotice | undefined>();

  constructor(parts: Parts) {
    this.#parts = parts;
  }

  pass(notice: PlayerNotice): void {
    if (notice.name !== "leaderboard.me") return this.#parts.send(notice);
    const { leaderboardKey, board } = notice.data;
    const key = `${leaderboardKey}\0${board}`;
    if (this.#held.has(key)) {
      this.#held.set(key, notice);
      return;
    }
    this.#held.set(key, undefined);
    this.#parts.send(notice);
    this.#parts.later(PLACE_EVERY_MS, () => {
      const last = this.#held.get(key);
      this.#held.delete(key);
      if (last) this.pass(last);
    });
  }
}

/** Maximum number of players per read: each may have REPLAY_MAX lines to replay. */
const READ_MAX = 32;
/** How often definitions that have changed since they were read are read again. */
const PLAN_TRIES = 5;

/**
 * A player's current state, and the lines after the requested one. `goals`: quests and adventures, where the
 * lines do not suffice and the project has any.
 */
type PlayerPage = StreamPage<PlayerMessage> & {
  player: ShownPlayer;
  plan: ProjectPlan;
  goals?: PlayerGoals | undefined;
};

/** Returns what a client is shown of a page that does not continue what it knows. */
const snapshotOf = ({ seq, player, goals }: PlayerPage) => {
  const { quests = [], adventures = [], isTruncated = false } = goals ?? {};
  return { seq, player: { ...player, quests, adventures }, ...(isTruncated ? { truncated: true } : {}) };
};

/** `afterSeq`: the newest known line; absent: no lines are wanted. */
type PageRequest = { ref: StreamRef; afterSeq?: number | undefined };

/**
 * Reads players for their rooms; simultaneous requests of one project share a read.
 * @throws DomainError NOT_FOUND
 */
const createPageReader = (app: App): Grouped<PageRequest, PlayerPage> => {
  const read = grouped<PageRequest, PlayerPage | DomainError>({
    keyOf: ({ ref }) => ref.projectId,
    run: (asked) => readPages(app, asked),
    runMax: READ_MAX,
  });
  return async (ask) => {
    const page = await read(ask);
    if (page instanceof DomainError) throw page;
    return page;
  };
};

/** Reads pages of players of one project: with one statement, if the definitions are in memory. */
const readPages = async (app: App, asked: readonly PageRequest[]): Promise<(PlayerPage | DomainError)[]> => {
  const { projectId } = asked[0]!.ref;
  const query = {
    projectId,
    asked: asked.map(({ ref, afterSeq }) => ({ playerId: ref.playerId, afterSeq })),
    now: app.clock(),
    limit: REPLAY_MAX,
  };
  const read = readIn(app, projectId);
  let players = await readPlayersNow(read, query);
  for (let tried = 0; players === undefined && tried < PLAN_TRIES; tried++) {
    // The definitions are new to this process, or have changed since.
    await transactIn(app, projectId)((work) => readPlan(work, projectId, projectPlans));
    players = await readPlayersNow(read, query);
  }
  if (!players) throw retryLater("the definitions change too often to be shown", "BUSY");
  const pages = players.map((one) => one && { seq: one.player.seq, ...one });
  const goals = await readGoals(app, projectId, { pages, asked });
  return pages.map((page) => (page ? { ...page, goals: goals.get(page.player.id) } : notFound("player")));
};

type Pages = { pages: readonly (PlayerPage | undefined)[]; asked: readonly PageRequest[] };

/** Reads quests and adventures of those who are shown their whole state. They may be newer than the page. */
const readGoals = async (
  app: App,
  projectId: string,
  { pages, asked }: Pages,
): Promise<Map<string, PlayerGoals>> => {
  const whole = pages.flatMap((page, i) => {
    if (!page || page.plan.quests.byKey.size + page.plan.adventures.byKey.size === 0) return [];
    const { afterSeq } = asked[i]!;
    return afterSeq === undefined || isBroken(page, afterSeq) ? [page.player.id] : [];
  });
  if (whole.length === 0) return new Map();
  return transactIn(app, projectId)((work) => readPlayersGoals(work, projectId, whole));
};

/** A player's room that is periodically compared with the database. */
type OpenRoom = { ref: StreamRef; look(head: StreamHead | undefined): void };

const keyOf = ({ projectId, playerId }: StreamRef): string => `${projectId}:${playerId}`;

/** Takes one query for all open rooms of this process. */
const rereadRooms = async (app: App, rooms: readonly OpenRoom[]): Promise<void> => {
  const heads = await app.transact((work) =>
    readStreamHeads(
      work,
      rooms.map(({ ref }) => ref),
    ),
  );
  const byKey = new Map(heads.map((head) => [keyOf(head), head]));
  for (const room of rooms) room.look(byKey.get(keyOf(room.ref)));
};

/** State that every client sees without a request; `displayName` is empty when the player has none. */
const PlayerState = schema(
  {
    playerId: t.string(),
    externalUserId: t.string(),
    displayName: t.string().default(""),
    xp: t.number().default(0),
    level: t.uint32().default(1),
    seq: t.number().default(0),
  },
  "PlayerState",
);
type PlayerState = SchemaType<typeof PlayerState>;

/** The fields that the stream of a player sets. */
type Fields = Pick<PlayerState, "playerId" | "externalUserId" | "displayName" | "xp" | "level" | "seq">;

/** Maximum age, in ms, at which the page that a room was created from counts as current. */
const FIRST_PAGE_MAX_MS = 1_000;

const JoinOptions = z.object({ lastSeq: z.int().min(0).optional() });
const RoomOptions = z.object({ projectId: z.uuid(), playerId: z.uuid() });
const ResyncBody = z.object({ lastSeq: z.int().min(0) });

/**
 * The position of one client in the stream. A live client gets every further line; the others are catching
 * up.
 */
type Cursor = { seq: number; isLive: boolean };
type Resume = { lastSeq: number | undefined; isJoin: boolean };
/**
 * Room `player`: one player's state and the resumable player stream. A mirror: what it shows is committed,
 * and a second room for the same player would show the same.
 */
export abstract class PlayerRoom extends MirrorRoom<PlayerState> implements OpenRoom {
  protected abstract override readonly open: Ticker<OpenRoom>;
  protected abstract readonly pages: ReturnType<typeof createPageReader>;
  override state = new PlayerState();
  /** Includes seats that are reserved but not taken; sessions beyond SESSIONS_MAX replace the oldest. */
  override maxClients = SESSIONS_MAX * 6;
  ref: StreamRef = { projectId: "", playerId: "" };
  #plan!: ProjectPlan;
  #configVersion: number | undefined;
  #isPatchDue = false;
  #first: { page: PlayerPage; readAtMs: number } | undefined;
  /** The player's status when it was last read, and when that was. */
  #seen: { status: PlayerStatus; atMs: number } | undefined;
  readonly #cursors = new Map<string, Cursor>();
  readonly #resyncs = new ResyncRate("session.resync");
  readonly #stream = new OrderedStream<PlayerMessage, PlayerPage>({
    read: (afterSeq) => this.#read(afterSeq),
    deliver: (message) => this.#deliver(message),
    jump: (page) => this.#jump(page),
    later: (delayMs, run) => this.later(delayMs, run),
    onError: (error) => this.report(error, "stream"),
  });

  readonly #notices = new NoticeThrottle({
    send: (notice) => this.#notify(notice),
    later: (delayMs, run) => this.later(delayMs, run),
  });

  protected override follow(options: object): Source[] {
    const { projectId, playerId } = parse(RoomOptions, options);
    this.ref = { projectId, playerId };
    this.roomId = playerRoomId(projectId, playerId);
    this.onMessage(
      "session.resync",
      this.handle(ResyncBody, (client, body) => this.#resync(client, body.lastSeq)),
    );
    this.onMessage(
      "quest.submit",
      this.handle(SubmitRequest, (_client, body) => submitQuestStep(this.app, this.ref, body)),
    );
    return [
      // Lines published before start() are kept until then.
      source<PlayerMessage[]>(playerTopic(projectId, playerId), (lines) => this.#stream.receive(lines)),
      source<PlayerNotice>(noticeTopic(projectId, playerId), (notice) => this.#notices.pass(notice)),
    ];
  }

  protected override async load(): Promise<void> {
    const page = await this.#read();
    const refused = refusalOf(page.player.status);
    if (refused) throw refused;
    this.#mirror(page);
    this.#first = { page, readAtMs: performance.now() };
    this.#seen = { status: page.player.status, atMs: performance.now() };
    this.#stream.start(page.seq);
  }

  /** Applies a re-read: the player is gone, there is a newer seq, or a change without a line. */
  look(head: StreamHead | undefined): void {
    if (!head || head.status === "ERASED" || head.status === "MERGED") return this.#endAll("ERASED");
    this.#seen = { status: head.status, atMs: performance.now() };
    if (head.status === "BANNED") return this.#endAll("BANNED");
    this.#stream.expect(head.seq);
    if (this.#configVersion !== head.configVersion) {
      this.#configVersion = head.configVersion;
      this.later(0, async () => {
        const { projectId } = head;
        this.#plan = await transactIn(this.app, projectId)((work) => readPlan(work, projectId, projectPlans));
      });
    }
    if (head.seq === this.#stream.head) this.#set({ xp: head.xp, level: head.level });
  }

  protected override async welcome(client: LiveClient, options: object, isBack: boolean): Promise<void> {
    if (client.auth!.playerId !== this.ref.playerId)
      throw forbidden("OTHER_PLAYER", "the room belongs to another player");
    const lastSeq = isBack ? this.#cursors.get(client.sessionId)?.seq : parse(JoinOptions, options).lastSeq;
    await this.#resume(client, { lastSeq, isJoin: true });
  }

  protected override farewell(client: LiveClient): void {
    this.#cursors.delete(client.sessionId);
  }

  async #resync(client: LiveClient, lastSeq: number): Promise<{ seq: number; resumed: boolean }> {
    this.#resyncs.take(client, this.app.clock());
    return this.#resume(client, { lastSeq, isJoin: false });
  }

  /** Brings a client from `lastSeq`, or from nothing, up to the room's head; from then on it is live. */
  async #resume(client: LiveClient, { lastSeq, isJoin }: Resume): Promise<{ seq: number; resumed: boolean }> {
    const cursor: Cursor = { seq: lastSeq ?? 0, isLive: false };
    this.#cursors.set(client.sessionId, cursor);
    if (this.#hasMissedNothing(lastSeq)) {
      if (isJoin) this.#ready(client, { seq: cursor.seq }, true);
      cursor.isLive = true;
      return { seq: cursor.seq, resumed: true };
    }
    const resumed = await this.#showFirst(client, cursor, { lastSeq, isJoin });
    // The room has sent more to the others while this client's state was read.
    while (cursor.seq < this.#stream.head && this.#cursors.get(client.sessionId) === cursor) {
      const page = await this.#read(cursor.seq);
      if (isBroken(page, cursor.seq)) this.#snapshot(client, cursor, page, "GAP");
      else this.#replay(client, cursor, page);
    }
    cursor.isLive = true;
    this.#stream.expect(cursor.seq);
    return { seq: cursor.seq, resumed };
  }

  /** Shows a client what was read for it. @returns whether it was sent the missed lines alone */
  async #showFirst(client: LiveClient, cursor: Cursor, { lastSeq, isJoin }: Resume): Promise<boolean> {
    const page = await this.#readFor(lastSeq);
    const refused = refusalOf(page.player.status);
    if (refused) throw refused;
    const resumed = lastSeq !== undefined && !isBroken(page, lastSeq);
    if (isJoin) this.#ready(client, page, resumed);
    if (resumed) this.#replay(client, cursor, page);
    else this.#snapshot(client, cursor, page, lastSeq === undefined ? "CONNECT" : "GAP");
    return resumed;
  }

  /**
   * Whether a client knows all that the room has sent, to a player who was there at the last re-read: then
   * nothing is read, and later lines follow as they do for the others.
   */
  #hasMissedNothing(lastSeq: number | undefined): boolean {
    const isSeen = this.#seen && performance.now() - this.#seen.atMs <= REREAD_EVERY_MS;
    return isSeen === true && !refusalOf(this.#seen!.status) && lastSeq === this.#stream.head;
  }

  #read(afterSeq?: number): Promise<PlayerPage> {
    return this.pages({ ref: this.ref, afterSeq });
  }

  /**
   * Returns the page for a joining client. The page that the room was created from is reused for its creator,
   * who joins at once, if nothing was sent since and the client has missed nothing.
   */
  async #readFor(lastSeq: number | undefined): Promise<PlayerPage> {
    const first = this.#first;
    this.#first = undefined;
    const isFresh = first && performance.now() - first.readAtMs <= FIRST_PAGE_MAX_MS;
    if (!isFresh) return this.#read(lastSeq);
    const { seq } = first.page;
    return seq === this.#stream.head && (lastSeq ?? seq) === seq ? first.page : this.#read(lastSeq);
  }

  #ready(client: LiveClient, { seq }: Pick<PlayerPage, "seq">, resumed: boolean): void {
    const expiresAt = new Date(client.auth!.expiresAtMs).toISOString();
    const { sessionId } = client;
    const data = { ...this.ref, sessionId, seq, resumed, expiresAt, heartbeatSeconds: HEARTBEAT_SECONDS };
    this.sendTo(client, "session.ready", data);
  }

  #snapshot(client: LiveClient, cursor: Cursor, page: PlayerPage, reason: "CONNECT" | "GAP"): void {
    this.sendTo(client, "state.snapshot", { ...snapshotOf(page), reason });
    cursor.seq = page.seq;
  }

  #replay(client: LiveClient, cursor: Cursor, { messages, plan }: PlayerPage): void {
    for (const line of messages) {
      if (line.seq !== cursor.seq + 1) continue;
      const { name, message } = livePlayerMessage(line, plan);
      this.push(client, name, message);
      cursor.seq = line.seq;
    }
  }

  #deliver(line: PlayerMessage): void {
    const { name, message } = livePlayerMessage(line, this.#plan);
    for (const client of this.clients) {
      const cursor = this.#cursors.get(client.sessionId);
      if (!cursor?.isLive || cursor.seq >= line.seq) continue;
      this.push(client, name, message);
      cursor.seq = line.seq;
    }
    this.#set({ ...stateOf(line), seq: line.seq });
  }

  /** Notices are not ordered by the stream, so they go to every joined client. */
  #notify({ name, data }: PlayerNotice): void {
    const message = live(this.app.clock(), data);
    for (const client of this.clients)
      if (this.#cursors.has(client.sessionId)) this.push(client, name, message);
  }

  #jump(page: PlayerPage): void {
    for (const client of this.clients) {
      const cursor = this.#cursors.get(client.sessionId);
      if (cursor?.isLive && cursor.seq < page.seq) this.#snapshot(client, cursor, page, "GAP");
    }
    this.#mirror(page);
  }

  #mirror({ seq, player, plan }: PlayerPage): void {
    this.#plan = plan;
    const { id: playerId, externalUserId, displayName, xp, level } = player;
    this.#set({ playerId, externalUserId, displayName: displayName ?? "", xp, level, seq });
  }

  /** Changes the schema state and sends one patch for all lines of the current event-loop task. */
  #set(fields: Partial<Fields>): void {
    for (const [name, value] of Object.entries(fields)) {
      if (this.state[name as keyof Fields] !== value) Object.assign(this.state, { [name]: value });
    }
    if (this.#isPatchDue || this.clients.length === 0) return;
    this.#isPatchDue = true;
    this.later(0, () => {
      this.#isPatchDue = false;
      this.broadcastPatch();
    });
  }

  #endAll(reason: "BANNED" | "ERASED"): void {
    for (const client of this.clients) this.end(client, CLOSE.FORBIDDEN, reason);
  }
}

/** Creates the room `player` of an application. */
export const playerRoom = (app: App) => {
  const open = openRoomsOf<OpenRoom>(app, "player rooms", (rooms) => rereadRooms(app, rooms));
  const pages = createPageReader(app);
  const room = class extends PlayerRoom {
    protected readonly app = app;
    protected readonly open = open;
    protected readonly pages = pages;

    static override async onAuth(token: string, options: object, context: AuthContext): Promise<unknown> {
      const principal = await authenticate(app, token, context);
      const { projectId, playerId } = principal;
      if (playerId === null) throw forbidden("PLAYER_TOKEN_REQUIRED", "this room requires a player's token");
      pinOptions(options, JoinOptions, { projectId, playerId });
      return principal;
    }
  };
  return gameRoom({ room, selectedBy: ["projectId", "playerId"], isCrowd: false });
};
