import { schema, type SchemaType, t } from "@colyseus/schema";
import type { App } from "../app.ts";
import { DomainError } from "../domain/kernel/errors.ts";
import type {
  LobbyChange,
  LobbyMember,
  LobbyStatus,
  LobbyView,
  LobbyVisibility,
  MemberStatus,
  Occurrence,
} from "../domain/kernel/events/social-views.ts";
import type { LobbyNotice } from "../domain/kernel/topics.ts";
import type { Work } from "../domain/kernel/work.ts";
import {
  connectMember,
  disconnectMember,
  enterMember,
  LOBBY_COMMANDS,
  type LobbyRef,
  readLobbyVersions,
} from "../domain/social/lobbies/commands.ts";
import { openRoomsOf, assignChanged, syncMap } from "./mirror-room.ts";
import { Coalescer, type Ticker } from "./pace.ts";

/** An open room of a lobby. */
export type OpenLobby = {
  readonly ref: LobbyRef;
  /** Takes the version that was read; undefined for a lobby that no longer exists. */
  look(version: number | undefined): void;
};

/** Compares the open rooms of lobbies with the database: one query for all of this process. */
export const openLobbiesOf = (app: App): Ticker<OpenLobby> =>
  openRoomsOf<OpenLobby>(app, "lobby rooms", async (rooms) => {
    const refs = rooms.map(({ ref }) => ref);
    const versions = await app.transact((work) => readLobbyVersions(work, refs));
    for (const room of rooms) room.look(versions.get(room.ref.lobbyId));
  });

export type Change = (work: Work) => Promise<LobbyChange | undefined>;

/** How a player's last socket ended: voluntarily, or not. */
export type Absence = "LEAVE" | "DISCONNECT";

type LobbyPresenceParts = {
  ref(): LobbyRef;
  /** Commits a change after all earlier ones, and shows it. */
  commit(run: Change): Promise<void>;
  /** Has the room show the lobby as it is. */
  refresh(): Promise<void>;
  onError(error: unknown): void;
};

/**
 * Tracks which players are in a room by socket, and reports a player's first and last socket to the domain; a
 * player counts once, whatever the number of sockets.
 */
export class LobbyPresence {
  readonly #parts: LobbyPresenceParts;
  /** The player of each joined session. */
  readonly #sockets = new Map<string, string>();
  /** Players who have asked to leave, and whose sockets are about to close. */
  readonly #leaving = new Set<string>();
  /** Players whose absence has not been reported to the domain yet. */
  readonly #absences = new Map<string, Absence>();

  constructor(parts: LobbyPresenceParts) {
    this.#parts = parts;
  }

  playerOf(sessionId: string): string | undefined {
    return this.#sockets.get(sessionId);
  }

  isHere(playerId: string): boolean {
    return [...this.#sockets.values()].includes(playerId);
  }

  isLeaving(playerId: string): boolean {
    return this.#leaving.has(playerId);
  }

  /**
   * Runs an operation that removes a player; during a game the seat may stay, but none of their sockets may
   * hold it.
   */
  async leave<T>(playerId: string, run: () => Promise<T>): Promise<T> {
    this.#leaving.add(playerId);
    try {
      return await run();
    } catch (error) {
      this.#leaving.delete(playerId);
      throw error;
    }
  }

  /**
   * Takes a socket of a player whom the room shows as a member; the first is reported to the domain.
   * @throws DomainError FORBIDDEN NOT_A_MEMBER for one who is none any more
   */
  async arrive(sessionId: string, playerId: string): Promise<void> {
    const isFirst = !this.isHere(playerId);
    this.#sockets.set(sessionId, playerId);
    this.#absences.delete(playerId);
    this.#leaving.delete(playerId);
    if (!isFirst) return;
    try {
      await this.#parts.commit(async (work) =>
        this.#isComing(playerId) ? enterMember(work, { ...this.#parts.ref(), playerId }) : undefined,
      );
    } catch (error) {
      if (error instanceof DomainError && error.reason === "NOT_A_MEMBER") {
        this.#sockets.delete(sessionId);
        // The next try of one who has left elsewhere takes a seat again.
        await this.#parts.refresh();
      }
      throw error;
    }
  }

  /** Reports to the domain again that a player is present: another room of the lobby has seen them leave. */
  reportPresence(playerId: string): Promise<void> {
    return this.#parts.commit(async (work) =>
      this.#isComing(playerId) ? connectMember(work, this.#parts.ref(), playerId) : undefined,
    );
  }

  #isComing(playerId: string): boolean {
    return this.isHere(playerId) && !this.isLeaving(playerId);
  }

  /**
   * @returns the player whose last socket this was; undefined while there are others, or if it never joined
   */
  depart(sessionId: string): string | undefined {
    const playerId = this.#sockets.get(sessionId);
    this.#sockets.delete(sessionId);
    if (playerId === undefined || this.isHere(playerId)) return undefined;
    this.#leaving.delete(playerId);
    return playerId;
  }

  /** Reports to the domain that a player has no socket; after a failure retry() repeats it. */
  async reportAbsence(playerId: string, absence: Absence): Promise<void> {
    const ref = this.#parts.ref();
    const leave = LOBBY_COMMANDS["lobby.leave"];
    this.#absences.set(playerId, absence);
    try {
      await this.#parts.commit(async (work) => {
        // A player who has returned meanwhile has reported so.
        if (this.isHere(playerId)) return undefined;
        if (absence === "DISCONNECT") return disconnectMember(work, ref, playerId);
        return leave.run(work, ref, { kind: "PLAYER", playerId }, leave.body.parse({}));
      });
    } catch (error) {
      this.#parts.onError(error);
      if (!(error instanceof DomainError)) return;
    }
    this.#absences.delete(playerId);
  }

  async retry(): Promise<void> {
    for (const [playerId, absence] of Array.from(this.#absences)) await this.reportAbsence(playerId, absence);
  }
}

/** `team` and `slot` are -1 for none; `data` is JSON text. */
const LobbyMemberState = schema(
  {
    playerId: t.string(),
    externalUserId: t.string(),
    displayName: t.string(),
    status: t.string<MemberStatus>(),
    role: t.string<LobbyMember["role"]>(),
    isHost: t.boolean(),
    team: t.int16(),
    slot: t.int16(),
    data: t.string(),
    joinedAt: t.string(),
  },
  "LobbyMemberState",
);
type LobbyMemberState = SchemaType<typeof LobbyMemberState>;

/**
 * A lobby as everybody in the room sees it; `privateData` reaches members only. Missing values are "", and
 * objects are JSON text: they change rarely and as a whole, and clients need no schema for them.
 */
export const LobbyState = schema(
  {
    id: t.string().default(""),
    code: t.string().default(""),
    name: t.string().default(""),
    mode: t.string().default(""),
    visibility: t.string<LobbyVisibility>().default("PUBLIC"),
    hasPasscode: t.boolean().default(false),
    status: t.string<LobbyStatus>().default("OPEN"),
    hostPlayerId: t.string().default(""),
    minPlayers: t.uint16().default(0),
    maxPlayers: t.uint16().default(0),
    memberCount: t.uint16().default(0),
    settings: t.string().default("{}"),
    metadata: t.string().default("{}"),
    version: t.uint32().default(0),
    channelId: t.string().default(""),
    matchId: t.string().default(""),
    startsAt: t.string().default(""),
    startedAt: t.string().default(""),
    endedAt: t.string().default(""),
    closeReason: t.string().default(""),
    results: t.string().default(""),
    expiresAt: t.string().default(""),
    createdAt: t.string().default(""),
    members: t.map(LobbyMemberState),
    privateData: t.string().default("{}").view(),
  },
  "LobbyState",
);
export type LobbyState = SchemaType<typeof LobbyState>;

const memberFields = (member: LobbyMember): Partial<LobbyMemberState> => ({
  playerId: member.playerId,
  externalUserId: member.externalUserId,
  displayName: member.displayName ?? "",
  status: member.status,
  role: member.role,
  isHost: member.isHost,
  team: member.team ?? -1,
  slot: member.slot ?? -1,
  data: JSON.stringify(member.data),
  joinedAt: member.joinedAt,
});

const textFields = (lobby: LobbyView): Partial<LobbyState> => ({
  hostPlayerId: lobby.hostPlayerId ?? "",
  channelId: lobby.channelId ?? "",
  matchId: lobby.matchId ?? "",
  startsAt: lobby.startsAt ?? "",
  startedAt: lobby.startedAt ?? "",
  endedAt: lobby.endedAt ?? "",
  closeReason: lobby.closeReason ?? "",
});

/** Updates `state` to show the whole lobby. In a view without `privateData` that field is left unchanged. */
export const showLobby = (state: LobbyState, lobby: LobbyView): void => {
  const { id, code, name, mode, visibility, hasPasscode, status, version } = lobby;
  const { minPlayers, maxPlayers, memberCount, expiresAt, createdAt, privateData } = lobby;
  assignChanged(state, { id, code, name, mode, visibility, hasPasscode, status, version });
  assignChanged(state, { minPlayers, maxPlayers, memberCount, expiresAt, createdAt });
  assignChanged(state, textFields(lobby));
  assignChanged(state, {
    settings: JSON.stringify(lobby.settings),
    metadata: JSON.stringify(lobby.metadata),
    results: lobby.results === null ? "" : JSON.stringify(lobby.results),
    ...(privateData === undefined ? {} : { privateData: JSON.stringify(privateData) }),
  });
  const members = new Map(lobby.members.map((member) => [member.playerId, memberFields(member)]));
  syncMap(state.members, members, () => new LobbyMemberState());
};

/** Maximum number of versions whose occurrences a room remembers as reported. */
const VERSIONS_KEPT_MAX = 500;

type LobbyMirrorParts = {
  /** Reads the whole lobby as it is committed. */
  read(): Promise<LobbyView>;
  /** Shows a lobby that is newer than the one shown before. */
  show(lobby: LobbyView): void;
  /** Called once for each occurrence, after its version is shown. */
  onOccurrence(occurrence: Occurrence): void;
  later(delayMs: number, run: () => unknown): void;
  onError(error: unknown): void;
};

/**
 * A room's view of its lobby. Each version may be announced twice, by the room's own commit and by the relay,
 * in any order, or not at all; the shown version never decreases, and each occurrence is reported once.
 */
export class LobbyMirror {
  readonly #parts: LobbyMirrorParts;
  /** Occurrences by version, waiting until that version is shown. */
  readonly #waiting = new Map<number, readonly Occurrence[]>();
  readonly #reported = new Set<number>();
  /** Occurrences up to this version are no longer reported. */
  #silentUpTo = 0;
  #version = 0;
  #expected = 0;
  readonly #reading: Coalescer;

  constructor(parts: LobbyMirrorParts) {
    this.#parts = parts;
    this.#reading = new Coalescer({ ...parts, everyMs: () => 0, run: () => this.#readExpected() });
  }

  /** The version shown; 0 before the first. */
  get version(): number {
    return this.#version;
  }

  /** Shows the first lobby. Its earlier occurrences are history and not reported. */
  start(lobby: LobbyView): void {
    this.#silentUpTo = lobby.version;
    this.#show(lobby);
    this.expect(this.#expected);
  }

  /** Applies a change that this room has committed. */
  apply({ lobby, occurrences }: LobbyChange): void {
    this.#note(lobby.version, occurrences);
    this.#show(lobby);
  }

  /** Handles a notice of the relay. */
  receive({ version, occurrences }: LobbyNotice): void {
    this.#note(version, occurrences);
    if (version <= this.#version) this.#reportDue();
    else this.expect(version);
  }

  /** Notes that the lobby has reached `version`. */
  expect(version: number): void {
    this.#expected = Math.max(this.#expected, version);
    if (this.#version > 0 && this.#expected > this.#version) this.#reading.soon();
  }

  async #readExpected(): Promise<void> {
    const wanted = this.#expected;
    if (wanted <= this.#version) return;
    await this.refresh();
    // A version is announced after its commit, so one that this read does not know never will be.
    if (this.#expected === wanted) this.#expected = this.#version;
  }

  /** Reads the lobby again, at once. */
  async refresh(): Promise<void> {
    this.#show(await this.#parts.read());
  }

  #show(lobby: LobbyView): void {
    if (lobby.version > this.#version) {
      this.#version = lobby.version;
      this.#parts.show(lobby);
    }
    this.#reportDue();
  }

  #note(version: number, occurrences: readonly Occurrence[]): void {
    if (version <= this.#silentUpTo || this.#reported.has(version)) return;
    this.#waiting.set(version, occurrences);
    for (const oldest of this.#waiting.keys()) {
      if (this.#waiting.size <= VERSIONS_KEPT_MAX) break;
      this.#waiting.delete(oldest);
    }
  }

  #reportDue(): void {
    const due = [...this.#waiting.keys()].filter((version) => version <= this.#version);
    for (const version of due.toSorted((a, b) => a - b)) {
      const occurrences = this.#waiting.get(version)!;
      this.#waiting.delete(version);
      if (version <= this.#silentUpTo) continue;
      this.#reported.add(version);
      for (const occurrence of occurrences) this.#parts.onOccurrence(occurrence);
    }
    for (const oldest of this.#reported) {
      if (this.#reported.size <= VERSIONS_KEPT_MAX) break;
      this.#reported.delete(oldest);
      this.#silentUpTo = Math.max(this.#silentUpTo, oldest);
    }
  }
}
