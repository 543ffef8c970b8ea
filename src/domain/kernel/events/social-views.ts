import type { Json, PlayerRef } from "./events.ts";

export const LOBBY_STATUSES = ["OPEN", "STARTING", "IN_GAME", "CLOSED"] as const;
export type LobbyStatus = (typeof LOBBY_STATUSES)[number];
export const LOBBY_VISIBILITIES = ["PUBLIC", "PRIVATE", "FRIENDS"] as const;
export type LobbyVisibility = (typeof LOBBY_VISIBILITIES)[number];
export const LOBBY_CLOSE_REASONS = [
  "COMPLETED",
  "HOST_CLOSED",
  "HOST_LEFT",
  "EMPTY",
  "EXPIRED",
  "ABORTED",
  "ADMIN",
] as const;
export type LobbyCloseReason = (typeof LOBBY_CLOSE_REASONS)[number];
export const MEMBER_STATUSES = ["JOINED", "READY", "DISCONNECTED", "LEFT", "KICKED"] as const;
export type MemberStatus = (typeof MEMBER_STATUSES)[number];
export const OUTCOMES = ["WIN", "LOSS", "DRAW", "NO_CONTEST"] as const;
type Outcome = (typeof OUTCOMES)[number];

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

export const CHANNEL_KINDS = ["PROJECT", "LOBBY", "DIRECT", "GROUP"] as const;
export type ChannelKind = (typeof CHANNEL_KINDS)[number];
/**
 * Whether a kind of channel is readable by every player of the project, or by its members alone. Besides its
 * members, only moderators can read a PRIVATE channel, and each such read is audited.
 */
export const CHANNEL_PRIVACY: Readonly<Record<ChannelKind, "PUBLIC" | "PRIVATE">> = {
  PROJECT: "PUBLIC",
  LOBBY: "PRIVATE",
  DIRECT: "PRIVATE",
  GROUP: "PRIVATE",
};
export const PUBLIC_KINDS: readonly ChannelKind[] = CHANNEL_KINDS.filter(
  (kind) => CHANNEL_PRIVACY[kind] === "PUBLIC",
);
export const CHANNEL_STATUSES = ["ACTIVE", "LOCKED", "ARCHIVED"] as const;
export type ChannelStatus = (typeof CHANNEL_STATUSES)[number];
export const CHAT_ROLES = ["OWNER", "MODERATOR", "MEMBER"] as const;
export type ChatRole = (typeof CHAT_ROLES)[number];
export const NOTIFY = ["ALL", "MENTIONS", "NONE"] as const;
export type Notify = (typeof NOTIFY)[number];
export const MODERATIONS = ["VISIBLE", "MASKED", "HELD", "REMOVED"] as const;
export type Moderation = (typeof MODERATIONS)[number];
export const SANCTION_KINDS = ["MUTE", "BAN", "SHADOW_MUTE"] as const;
export type SanctionKind = (typeof SANCTION_KINDS)[number];
export const REPORT_REASONS = [
  "SPAM",
  "HARASSMENT",
  "HATE",
  "SEXUAL",
  "VIOLENCE",
  "CHEATING",
  "PERSONAL_DATA",
  "OTHER",
] as const;
export type ReportReason = (typeof REPORT_REASONS)[number];

/** Settings of one channel; 0 disables a limit. */
export type ChannelSettings = {
  slowModeSeconds: number;
  maxLength: number;
  links: "ALLOW" | "ALLOW_LIST" | "BLOCK";
  allowedDomains: string[];
  profanity: "OFF" | "MASK" | "BLOCK" | "HOLD";
  reactions: boolean;
  mentions: "ALL" | "NO_EVERYONE" | "OFF";
  readOnly: boolean;
  minLevelToPost: number;
  minAccountAgeSeconds: number;
  retentionDays: number;
  editWindowSeconds: number;
  /** Messages of one player per 5 seconds, and per minute. */
  burstMessages: number;
  minuteMessages: number;
};

export type ChatMessage = {
  id: string;
  channelId: string;
  seq: number;
  sender: (PlayerRef & { displayName: string | null; role: ChatRole }) | null;
  type: "TEXT" | "SYSTEM";
  /** Empty where the message was deleted, removed or is held for others. */
  content: string;
  mentions: string[];
  replyTo: number | null;
  /** `mine` refers to the reading player. */
  reactions: { emoji: string; count: number; mine: boolean }[];
  moderation: Moderation;
  editedAt: string | null;
  deletedAt: string | null;
  createdAt: string;
  /** Only for the sender. */
  clientMsgId?: string;
};

export type ChatChannel = {
  id: string;
  kind: ChannelKind;
  key: string | null;
  name: string | null;
  status: ChannelStatus;
  settings: ChannelSettings;
  lobbyId: string | null;
  lastSeq: number;
  /** Of the reading player. */
  unread?: number;
  lastMessage?: ChatMessage | null;
  createdAt: string;
};

/**
 * The originator of a chat command. SERVER is a key without `playerId` (with `chat:moderate` it moderates,
 * otherwise it may post as the system); ADMIN a console user; PLAYER a player's socket, or a key with
 * `playerId`.
 */
export type ChatActor =
  | { kind: "SERVER"; isModerator: boolean }
  | { kind: "ADMIN"; userId: string }
  | { kind: "PLAYER"; playerId: string };

/** A message to be sent. `clientMsgId` makes it idempotent per sender and channel. */
export type ChatSend = {
  content: string;
  clientMsgId?: string | undefined;
  replyTo?: number | undefined;
  mentions?: readonly string[] | undefined;
};

/**
 * An update for the readers of a channel, in its order: a message (`chat.message` carries the seq), or a
 * change of an earlier message. `forPlayer`: delivered to that player only.
 */
export type ChatLine =
  | { name: "chat.message"; data: ChatMessage; forPlayer?: string }
  | { name: "chat.edited"; data: { channelId: string; seq: number; content: string; editedAt: string } }
  | { name: "chat.deleted"; data: { channelId: string; seq: number; by: "SENDER" | "MODERATOR" } }
  | { name: "chat.reaction"; data: ChatReaction }
  | { name: "chat.channel"; data: { channelId: string; status: ChannelStatus; settings: ChannelSettings } };

type ChatReaction = {
  channelId: string;
  seq: number;
  emoji: string;
  playerId: string;
  op: "ADD" | "REMOVE";
  count: number;
};
