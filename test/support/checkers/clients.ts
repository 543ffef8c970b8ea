import { setTimeout as delay } from "node:timers/promises";
import { randomUUID } from "node:crypto";
import { type RawBuilder, sql } from "kysely";
import type { Player } from "../rooms/sdk.ts";
import type {
  BoardHistory,
  Delivery,
  History,
  LobbyHistory,
  LobbySeen,
  Message,
  Place,
  Reader,
  Seat,
  Sight,
} from "./checkers.ts";
import { answered, replied } from "../http/tiny-http.ts";
import type { Client } from "../http/client.ts";
import type { Random } from "../seed.ts";
import { type AnyRoom, drop, joinOnce, stateCame, Staying } from "../rooms/staying.ts";
import type { Database } from "../../../src/platform/database.ts";

const EVERY_MS = [60, 180] as const;
/** How often a message whose end is not known is sent again. */
const TRIES_MAX = 12;
/** Of messages, how many are sent by the API. */
const API_SHARE = 0.3;
const REJOIN_SHARE = 0.04;

type RawMessage = { seq: number; id: string; content: string; sender: { playerId: string } | null };
const messageOf = ({ seq, id, content, sender }: RawMessage): Message => ({
  seq,
  id,
  content,
  senderId: sender?.playerId ?? "",
});

export type Talk = { api: Client; key: string; channelId: string; history: History; isOver: boolean };

/** A player in a channel who reads as the guide has it, and talks until the load is over. */
export class ChatClient implements Reader {
  readonly sessions: Delivery[][] = [];
  readonly name: string;
  readonly place: Staying;
  readonly #talk: Talk;
  readonly #player: Player;
  readonly #random: Random;

  constructor(talk: Talk, player: Player, { name, random }: { name: string; random: Random }) {
    this.name = name;
    this.#talk = talk;
    this.#player = player;
    this.#random = random;
    const { api, channelId } = talk;
    this.place = new Staying({
      join: () => joinOnce(api, player.token, "chat", { channelId, lastSeq: this.lastSeq }),
      listen: (room) => this.#listen(room),
    });
  }

  /** Up to where nothing is missing. */
  get lastSeq(): number {
    const seen = new Set(this.sessions.flat().flatMap(({ messages }) => messages.map(({ seq }) => seq)));
    let last = 0;
    while (seen.has(last + 1)) last++;
    return last;
  }

  #listen(room: AnyRoom): void {
    const session: Delivery[] = [];
    this.sessions.push(session);
    room.onMessage("chat.history", ({ data }: { data: { messages: RawMessage[]; lastSeq: number } }) => {
      session.push({ isHistory: true, messages: data.messages.map(messageOf) });
      if (this.lastSeq < data.lastSeq) void this.#resync(room);
    });
    room.onMessage("chat.message", ({ data }: { data: RawMessage }) => {
      session.push({ isHistory: false, messages: [messageOf(data)] });
    });
  }

  /** Asks for what the newest messages left out. */
  async #resync(room: AnyRoom): Promise<void> {
    const isDone = (): boolean => this.place.room !== room || !room.connection.isOpen;
    for (let target = Infinity; this.lastSeq < target && !isDone();) {
      const asked = room.request("chat.resync", { lastSeq: this.lastSeq });
      target = await asked.then(({ seq }: { seq: number }) => seq).catch(() => target);
      await delay(1_000);
    }
  }

  /** Says one thing after another; what is not answered is sent again. */
  async speak(): Promise<void> {
    for (let i = 1; !this.#talk.isOver; i++) {
      await this.#say(`word ${i} of ${this.name}`);
      if (this.#random.chance(REJOIN_SHARE)) this.place.cut();
      await delay(this.#random.between(...EVERY_MS));
    }
  }

  async #say(content: string): Promise<void> {
    const { history } = this.#talk;
    const value = { content, senderId: this.#player.playerId };
    for (let tries = 0; tries < TRIES_MAX; tries++) {
      const byApi = this.#random.chance(API_SHARE);
      const send = () => (byApi ? this.#post(content) : this.#request(content));
      const { outcome } = await history.run([this.name, "send"], value, send);
      if (outcome !== "info") return;
      await delay(this.#random.between(...EVERY_MS));
    }
  }

  async #post(content: string): Promise<{ seq: number; id: string }> {
    const { api, key, channelId } = this.#talk;
    const body = { content, clientMsgId: content, playerId: this.#player.playerId };
    const { seq, id } = answered(
      await api.post(`/api/v1/chat/channels/${channelId}/messages`, body, { key }),
    );
    return { seq, id };
  }

  async #request(content: string): Promise<{ seq: number; id: string }> {
    const { room } = this.place;
    if (!room) throw new Error("not there");
    return replied(room.request("chat.send", { content, clientMsgId: content }));
  }
}

/** All messages of a channel, by the API, oldest first. */
export const readChannel = async ({ api, key, channelId }: Talk): Promise<Message[]> => {
  const messages: Message[] = [];
  for (let isMore = true; isMore;) {
    const after = messages.at(-1)?.seq ?? 0;
    const path = `/api/v1/chat/channels/${channelId}/messages?after=${after}&limit=100`;
    const { data, pagination } = answered(await api.get(path, { key }));
    messages.push(...(data as RawMessage[]).map(messageOf));
    isMore = pagination.hasMore;
  }
  return messages;
};

const SCORE_EVERY_MS = [40, 160] as const;
/** Few different ones, so that many are equal. */
const SCORES = [0, 6] as const;
/** Of scores that were not answered, how many are given up. */
const GIVE_UP_SHARE = 0.2;
const PAGE = 5;

export const BOARDS = {
  best: { operator: "BEST", ties: "EARLIEST" },
  sum: { operator: "SUM", ties: "SHARED" },
} as const satisfies Record<string, Pick<BoardHistory, "operator" | "ties">>;
export type BoardKey = keyof typeof BOARDS;
export const BOARD_KEYS = Object.keys(BOARDS) as BoardKey[];

export type Contest = { api: Client; key: string; projectId: string; history: History; isOver: boolean };

/** Makes the boards. */
export const makeBoards = async ({ api, key }: Contest): Promise<void> => {
  for (const board of BOARD_KEYS) {
    const body = { key: board, name: board, metric: { source: "CUSTOM" }, ...BOARDS[board] };
    answered(await api.post("/api/v1/leaderboards", body, { key }));
  }
};

/** Submits one score after another for a player; one that is not answered is sent again under its key. */
export const compete = async (contest: Contest, { playerId }: Player, random: Random): Promise<void> => {
  const { api, key, history } = contest;
  while (!contest.isOver) {
    const board = random.pick(BOARD_KEYS);
    const body = { playerId, score: random.between(...SCORES) };
    const value = { ...body, key: randomUUID() };
    const headers = { "X-Idempotency-Key": value.key };
    const submit = async () =>
      answered(await api.post(`/api/v1/leaderboards/${board}/scores`, body, { key, headers }));
    for (let tries = 0; tries < TRIES_MAX; tries++) {
      const { outcome } = await history.run([playerId, `submit ${board}`], value, submit);
      if (outcome !== "info" || random.chance(GIVE_UP_SHARE)) break;
      await delay(random.between(...SCORE_EVERY_MS));
    }
    await delay(random.between(...SCORE_EVERY_MS));
  }
};

/** Somebody who watches a board. */
export const watchBoard = (api: Client, { token }: Player, leaderboardKey: BoardKey): Staying =>
  new Staying({
    join: () => joinOnce(api, token, "leaderboard", { leaderboardKey, top: 100 }),
    listen: () => undefined,
  });

const placeOf = ({ rank, playerId, score }: Place): Place => ({ rank, playerId, score });

/** The places as a room shows them. */
export const placesShown = ({ room }: Staying): Place[] =>
  [...((room?.state.top ?? []) as Place[])].map(placeOf);

/** All places, page by page. */
export const readPages = async ({ api, key }: Contest, board: BoardKey): Promise<Place[]> => {
  const places: Place[] = [];
  for (let page = 1; ; page++) {
    const path = `/api/v1/leaderboards/${board}/entries?limit=${PAGE}&page=${page}`;
    const { data, pagination } = answered(await api.get(path, { key }));
    places.push(...(data as Place[]).map(placeOf));
    if (page >= pagination.totalPages) return places;
  }
};

/** The place of each player by itself, in the order of `players`. */
export const readLines = async (
  { api, key }: Contest,
  board: BoardKey,
  players: readonly string[],
): Promise<Place[]> => {
  const read = async (playerId: string): Promise<Place> =>
    placeOf(answered(await api.get(`/api/v1/leaderboards/${board}/players/${playerId}`, { key })));
  return Promise.all(players.map(read));
};

const ORDER: Record<BoardHistory["ties"], RawBuilder<unknown>> = {
  EARLIEST: sql`e.rank_score, e.rank_tie, e.player_id`,
  SHARED: sql`e.rank_score`,
};

/** What the database itself ranks. */
export const rankBySql = async (
  { em }: Database,
  { projectId }: Contest,
  board: BoardKey,
): Promise<Place[]> => {
  const { rows } = await sql<{ rank: number; player_id: string; rank_score: number }>`
    select rank() over (order by ${ORDER[BOARDS[board].ties]}) as rank, e.player_id, e.rank_score
    from leaderboard_entries e
    join leaderboards l on l.project_id = e.project_id and l.period_id = e.period_id
    where e.project_id = ${projectId} and l.key = ${board}
    order by e.rank_score, e.rank_tie, e.player_id`.execute(em.fork().getKysely());
  return rows.map((row) => ({
    rank: row.rank,
    playerId: row.player_id,
    score: 0 - row.rank_score,
  }));
};

const ACT_EVERY_MS = [10, 90] as const;
const ROOM_SHARE = 0.3;
const JOIN_TIMEOUT_MS = 12_000;
/** Lobbies that players look for; the oldest are forgotten. */
const KNOWN_MAX = 3;

const SETTINGS = { graceSeconds: 300, inGameGraceSeconds: 300 };
/** Games that begin at once and end their lobby, and games of lobbies that count down and open again. */
const MODES = {
  duel: {
    minPlayers: 1,
    maxPlayers: 2,
    settings: { ...SETTINGS, readyPolicy: "HOST", countdownSeconds: 0 },
  },
  squad: {
    minPlayers: 2,
    maxPlayers: 3,
    settings: { ...SETTINGS, readyPolicy: "MAJORITY", countdownSeconds: 1, allowRematch: true },
  },
} as const;
type Mode = keyof typeof MODES;

const WAYS = ["join", "join", "join", "join", "quickplay", "create"] as const;
type Act = "ready" | "start" | "serverStart" | "end" | "leave" | "watch" | "read" | "cut";
const OFTEN: Record<Act, number> = {
  ready: 6,
  start: 2,
  serverStart: 2,
  end: 4,
  leave: 2,
  watch: 4,
  read: 2,
  cut: 2,
};
const ACTS = (Object.keys(OFTEN) as Act[]).flatMap((act) => Array.from({ length: OFTEN[act] }, () => act));

type Member = { playerId: string; role: string; status: string; slot: number | null; isHost: boolean };
type View = Omit<LobbySeen, "lobbyId" | "players" | "content"> & { id: string; members: Member[] };
type Started = { lobbyId: string; matchId: string; players: { playerId: string }[] };

/** What clients share: what they know of lobbies, and what they saw. */
export type Hall = {
  api: Client;
  key: string;
  history: History;
  known: Map<Mode, string[]>;
  games: Map<string, Started>;
  sights: Sight[];
  told: LobbyHistory["told"][number][];
  isOver: boolean;
};

export const openHall = (api: Client, key: string, history: History): Hall => ({
  api,
  key,
  history,
  known: new Map([
    ["duel", []],
    ["squad", []],
  ]),
  games: new Map(),
  sights: [],
  told: [],
  isOver: false,
});

/** A lobby of the API or of a room's state as the checker takes it. */
export const seenOf = (view: View): LobbySeen => {
  const { id: lobbyId, version, status, maxPlayers } = view;
  const matchId = view.matchId || null;
  const members = view.members
    .map(({ playerId, role, status: own, slot, isHost }) => ({ playerId, role, own, slot, isHost }))
    .toSorted((a, b) => (a.playerId < b.playerId ? -1 : 1));
  const players = members.filter(({ role }) => role === "PLAYER").map(({ playerId }) => playerId);
  const content = JSON.stringify({ status, maxPlayers, matchId, members });
  return { lobbyId, version, status, maxPlayers, matchId, players, content };
};

/** The lobby that a room shows now. */
export const shownBy = (room: AnyRoom): LobbySeen => {
  const state = room.state.toJSON();
  return seenOf({ ...state, members: Object.values(state.members) });
};

/** A player who goes in and out of lobbies by rooms and by the API, until the load is over. */
export class LobbyClient {
  /** Rooms by lobby. */
  readonly places = new Map<string, Staying>();
  readonly #seats = new Map<Mode, string>();
  readonly #hall: Hall;
  readonly #player: Player;
  readonly #random: Random;
  #sessions = 0;

  constructor(hall: Hall, player: Player, random: Random) {
    this.#hall = hall;
    this.#player = player;
    this.#random = random;
  }

  async play(): Promise<void> {
    while (!this.#hall.isOver) {
      const mode = this.#random.pick(["duel", "squad"] as const);
      const lobbyId = this.#seats.get(mode);
      // Who has a seat tries now and then to get a second one.
      if (lobbyId === undefined || this.#random.chance(0.15)) await this.#enter(mode);
      else await this.#act(mode, lobbyId);
      await delay(this.#random.between(...ACT_EVERY_MS));
    }
  }

  stop(): void {
    for (const place of this.places.values()) place.stop();
  }

  async #enter(mode: Mode): Promise<void> {
    const { playerId } = this.#player;
    const known = this.#hall.known.get(mode)!;
    const way = this.#random.pick(known.length < 2 ? (["create", "quickplay"] as const) : WAYS);
    const wish = { mode, ...MODES[mode] };
    const lobbyId = way === "join" ? this.#random.pick(known) : undefined;
    if (this.#random.chance(ROOM_SHARE)) {
      const entry = lobbyId ? { lobbyId } : { [way]: wish };
      await this.#join(mode, entry).catch(() => undefined);
      return;
    }
    const [path, body] = lobbyId
      ? [`/${lobbyId}/join`, { playerId }]
      : [way === "create" ? "" : "/quickplay", { ...wish, playerId }];
    await this.#record("join", { mode, lobbyId }, async () => {
      const answer = await this.#ask(path, body);
      return { lobbyId: answer.lobbyId, maxPlayers: answer.maxPlayers };
    });
  }

  /** Joins by a room and stays in it. @throws Refused, or another error when nobody knows */
  async #join(mode: Mode, entry: object): Promise<void> {
    const room = await this.#joinRoom(mode, entry);
    const { id } = room.state;
    if (this.places.get(id)?.isOver === false) return drop(room);
    const place = new Staying({
      join: () => this.#joinRoom(mode, { lobbyId: id }),
      listen: () => undefined,
    });
    this.places.set(id, place.adopt(room));
  }

  async #joinRoom(mode: Mode, entry: { lobbyId?: string }): Promise<AnyRoom> {
    let room: AnyRoom | undefined;
    const operation = await this.#record("join", { mode, lobbyId: entry.lobbyId }, async () => {
      room = await replied(joinOnce(this.#hall.api, this.#player.token, "lobby", entry));
      this.#listen(room);
      await stateCame(room);
      return { lobbyId: room.state.id as string, maxPlayers: room.state.maxPlayers as number };
    });
    if (operation.outcome === "ok") return room!;
    if (room) drop(room);
    throw operation.error!;
  }

  #listen(room: AnyRoom): void {
    const { sights, told } = this.#hall;
    const session = `${this.#player.playerId} in session ${++this.#sessions}`;
    const look = (): void => {
      // A second socket of the same lobby, which is about to be dropped, may be behind the first.
      const own = this.places.get(room.state.id)?.room;
      if (own && own !== room) return;
      const atMs = performance.now();
      sights.push({ process: this.#player.playerId, via: "room", sinceMs: atMs, atMs, lobby: shownBy(room) });
    };
    room.onStateChange(look);
    room.onMessage("*", () => undefined);
    room.onMessage("lobby.started", ({ data }: { data: Started }) => {
      told.push({ session, lobbyId: data.lobbyId, matchId: data.matchId });
      this.#hall.games.set(data.matchId, data);
    });
  }

  async #act(mode: Mode, lobbyId: string): Promise<void> {
    const seat = { mode, lobbyId, isImmediate: mode === "duel" };
    const place = this.places.get(lobbyId);
    const record = (op: string, attempt: () => Promise<unknown>) => this.#record(op, seat, attempt);
    const acts: Record<Act, () => Promise<unknown>> = {
      watch: async () => place?.isOver === false || this.#join(mode, { lobbyId }).catch(() => undefined),
      cut: async () => place?.cut(),
      read: () => record("read", () => this.#ask(`/${lobbyId}`)),
      ready: () => record("ready", () => this.#send(lobbyId, "ready", { ready: this.#random.chance(0.8) })),
      start: () => record("start", () => this.#send(lobbyId, "start", {})),
      serverStart: () => record("start", () => this.#ask(`/${lobbyId}/start`, {})),
      end: () => this.#end(seat),
      leave: async () => {
        const { outcome } = await record("leave", () => this.#send(lobbyId, "leave", { final: true }));
        if (outcome !== "info") this.#rise(seat);
      },
    };
    await acts[this.#random.pick(ACTS)]();
  }

  /** By the player's room, where there is one and chance has it so, or by the API. */
  async #send(lobbyId: string, name: string, body: object): Promise<unknown> {
    const room = this.places.get(lobbyId)?.room;
    if (room && this.#random.chance(0.6)) return replied(room.request(`lobby.${name}`, body));
    return this.#ask(`/${lobbyId}/${name}`, { ...body, playerId: this.#player.playerId });
  }

  /** As the game's server does, who knows the match by what somebody heard. */
  async #end(seat: Omit<Seat, "playerId">): Promise<void> {
    const game = [...this.#hall.games.values()].findLast(({ lobbyId }) => lobbyId === seat.lobbyId);
    if (!game) return;
    const results = game.players.map(({ playerId }) => ({ playerId, outcome: "DRAW" }));
    const body = { matchId: game.matchId, results };
    await this.#record("end", seat, () => this.#ask(`/${seat.lobbyId}/end`, body));
  }

  async #record<R>(op: string, value: Omit<Seat, "playerId">, attempt: () => Promise<R>) {
    const { playerId } = this.#player;
    const options = op === "join" ? { timeoutMs: JOIN_TIMEOUT_MS } : {};
    const operation = await this.#hall.history.run([playerId, op], { ...value, playerId }, attempt, options);
    if (operation.outcome === "ok" && op === "join") this.#sit(value.mode as Mode, operation.result as never);
    const reason = operation.error?.message ?? "";
    if (/NOT_IN_LOBBY|LOBBY_NOT_OPEN|INVALID_STATE|NOT_FOUND/.test(reason)) this.#rise(value);
    return operation;
  }

  #sit(mode: Mode, { lobbyId }: { lobbyId: string }): void {
    this.#seats.set(mode, lobbyId);
    const known = this.#hall.known.get(mode)!;
    if (known.includes(lobbyId)) return;
    known.push(lobbyId);
    if (known.length > KNOWN_MAX) known.shift();
  }

  #rise({ mode, lobbyId }: Omit<Seat, "playerId">): void {
    if (this.#seats.get(mode as Mode) === lobbyId) this.#seats.delete(mode as Mode);
  }

  /** A request to the API that answers a lobby; a GET without `body`. */
  async #ask(path: string, body?: object): Promise<LobbySeen> {
    const { api, key, sights, games } = this.#hall;
    const sinceMs = performance.now();
    const at = `/api/v1/lobbies${path}`;
    const answer = answered(body ? await api.post(at, body, { key }) : await api.get(at, { key }));
    const lobby = seenOf(answer.lobby ?? answer);
    const atMs = performance.now();
    sights.push({ process: this.#player.playerId, via: "api", sinceMs, atMs, lobby });
    const { lobbyId, matchId, players } = lobby;
    if (matchId && lobby.status === "IN_GAME" && !games.has(matchId))
      games.set(matchId, { lobbyId, matchId, players: players.map((playerId) => ({ playerId })) });
    return lobby;
  }
}
