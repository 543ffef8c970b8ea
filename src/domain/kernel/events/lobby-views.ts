import type { Json, PlayerRef } from "./events.ts";

export const LOBBY_STATUSES = ["OPEN", "STARTING", "IN_GAME", "CLOSED"] as const;
export type LobbyStatus = (typeof LOBBY_STATUSES)[number];
export const LOBBY_VISIBILITIES = ["PUBLIC", "PRIVATE", "FRIENDS"] as const;
export type LobbyVisibility = (typeof LOBBY_VISIBILITIES)[number];
export type LobbyCloseReason =
  | "COMPLETED"
  | "HOST_CLOSED"
  | "HOST_LEFT"
  | "EMPTY"
  | "EXPIRED"
  | "ABORTED"
  | "ADMIN";
export const MEMBER_STATUSES = ["JOINED", "READY", "DISCONNECTED", "LEFT", "KICKED"] as const;
export type MemberStatus = (typeof MEMBER_STATUSES)[number];
export const OUTCOMES = ["WIN", "LOSS", "DRAW", "NO_CONTEST"] as const;
export type Outcome = (typeof OUTCOMES)[number];

export type LobbyTeams = {
  count: number;
  size: number;
  assignment: "MANUAL" | "BALANCED" | "RANDOM";
  /** A numeric attribute of players, for BALANCED. */
  balanceBy?: string | undefined;
};

export type LobbySettings = {
  countdownSeconds: number;
  readyPolicy: "ALL" | "MAJORITY" | "HOST";
  autoStart: boolean;
  allowLateJoin: boolean;
  allowSpectators: boolean;
  allowRematch: boolean;
  hostMigration: "OLDEST" | "RANDOM" | "CLOSE";
  graceSeconds: number;
  inGameGraceSeconds: number;
  maxGameSeconds: number;
  idleSeconds: number;
  endAuthority: "SERVER" | "HOST";
  teams?: LobbyTeams | undefined;
};

export type LobbyMember = PlayerRef & {
  displayName: string | null;
  status: MemberStatus;
  isHost: boolean;
  role: "PLAYER" | "SPECTATOR";
  team: number | null;
  slot: number | null;
  data: Json;
  joinedAt: string;
};

export type LobbyResult = PlayerRef & {
  team: number | null;
  rank: number | null;
  outcome: Outcome;
  score: number | null;
  stats?: Json;
};

/** A lobby as its members and the API see it. `members` are the active ones, by `joinedAt`. */
export type LobbyView = {
  id: string;
  code: string;
  name: string;
  mode: string;
  visibility: LobbyVisibility;
  hasPasscode: boolean;
  status: LobbyStatus;
  hostPlayerId: string | null;
  minPlayers: number;
  maxPlayers: number;
  memberCount: number;
  settings: LobbySettings;
  metadata: Json;
  /** Only for members and servers; absent in lists and for others. */
  privateData?: Json;
  version: number;
  channelId: string | null;
  matchId: string | null;
  startsAt: string | null;
  startedAt: string | null;
  endedAt: string | null;
  closeReason: LobbyCloseReason | null;
  results: LobbyResult[] | null;
  members: LobbyMember[];
  expiresAt: string;
  createdAt: string;
  updatedAt: string;
};

/** An occurrence in a lobby at its version, sent to its observers as a message of the room. */
export type Occurrence = { name: LobbyOccurrence; data: Json };
export type LobbyOccurrence =
  | "lobby.countdown"
  | "lobby.countdown_cancelled"
  | "lobby.started"
  | "lobby.game_finished"
  | "lobby.ended"
  | "lobby.member_joined"
  | "lobby.member_left"
  | "lobby.host_changed";

/** The result of a command: the whole lobby at its new version, and the occurrences. */
export type LobbyChange = { lobby: LobbyView; occurrences: Occurrence[] };

/**
 * The originator of a lobby command. SERVER is a key without `playerId`; ADMIN a console user; PLAYER a
 * player's socket, or a key with `playerId`, which has that player's rights and no more.
 */
export type LobbyActor =
  | { kind: "SERVER" }
  | { kind: "ADMIN"; userId: string }
  | { kind: "PLAYER"; playerId: string };
