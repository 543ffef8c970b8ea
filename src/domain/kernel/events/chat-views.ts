import type { PlayerRef } from "./events.ts";

export const CHANNEL_KINDS = ["PROJECT", "LOBBY", "DIRECT", "GROUP"] as const;
export type ChannelKind = (typeof CHANNEL_KINDS)[number];
/**
 * Whether a kind of channel is read by every player of the project, or by its members alone. Besides members,
 * a PRIVATE channel is read only by who may moderate, and each such read is audited.
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

/** Of one channel; 0 turns a limit off. */
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
  /** Messages of one player in 5 seconds, and in a minute. */
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
  /** `mine` is of the player who reads. */
  reactions: { emoji: string; count: number; mine: boolean }[];
  moderation: Moderation;
  editedAt: string | null;
  deletedAt: string | null;
  createdAt: string;
  /** For the sender only. */
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
  /** Of the player who reads. */
  unread?: number;
  lastMessage?: ChatMessage | null;
  createdAt: string;
};

/**
 * Who acts in chat. SERVER is a key without `playerId` (it moderates with `chat:moderate`, else it may speak
 * as the system); ADMIN a console user; PLAYER a player's socket, or a key with `playerId`.
 */
export type ChatActor =
  | { kind: "SERVER"; isModerator: boolean }
  | { kind: "ADMIN"; userId: string }
  | { kind: "PLAYER"; playerId: string };

/** What a send asks for. `clientMsgId` makes it idempotent for one sender and channel. */
export type ChatSend = {
  content: string;
  clientMsgId?: string | undefined;
  replyTo?: number | undefined;
  mentions?: readonly string[] | undefined;
};

/**
 * What a channel's readers are told in its own order: a message (`chat.message` carries the seq), or a change
 * of one that was told before. `forPlayer`: only that player may be told.
 */
export type ChatLine =
  | { name: "chat.message"; data: ChatMessage; forPlayer?: string }
  | { name: "chat.edited"; data: { channelId: string; seq: number; content: string; editedAt: string } }
  | { name: "chat.deleted"; data: { channelId: string; seq: number; by: "SENDER" | "MODERATOR" } }
  | { name: "chat.reaction"; data: ChatReaction }
  | { name: "chat.channel"; data: { channelId: string; status: ChannelStatus; settings: ChannelSettings } };

export type ChatReaction = {
  channelId: string;
  seq: number;
  emoji: string;
  playerId: string;
  op: "ADD" | "REMOVE";
  count: number;
};
