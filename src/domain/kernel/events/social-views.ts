import { z } from "zod";
import type { Json } from "./events.ts";
import { Data, Id, Person, PLAYER, Text, Time } from "./shapes.ts";

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

const Team = z.int().nullable().meta({ description: "From 1" });

const Settings = z.object({
  countdownSeconds: z.int(),
  readyPolicy: z.enum(["ALL", "MAJORITY", "HOST"]),
  autoStart: z.boolean(),
  allowLateJoin: z.boolean(),
  allowSpectators: z.boolean(),
  allowRematch: z.boolean(),
  hostMigration: z.enum(["OLDEST", "RANDOM", "CLOSE"]),
  graceSeconds: z.int(),
  inGameGraceSeconds: z.int(),
  maxGameSeconds: z.int(),
  idleSeconds: z.int(),
  endAuthority: z.enum(["SERVER", "HOST"]),
  teams: z
    .object({
      count: z.int(),
      size: z.int(),
      assignment: z.enum(["MANUAL", "BALANCED", "RANDOM"]),
      balanceBy: z.string().optional(),
    })
    .optional(),
});

/** Fields of a member of a lobby. */
export const MEMBER = {
  ...Person.shape,
  status: z.enum(MEMBER_STATUSES),
  isHost: z.boolean(),
  role: z.enum(["PLAYER", "SPECTATOR"]),
  team: z.int().nullable(),
  slot: z.int().nullable(),
  data: Data,
  joinedAt: Time,
};
const SLOT = { description: "From 1, in the team if there are teams" };
const Member = z.object({ ...MEMBER, team: Team, slot: MEMBER.slot.meta(SLOT) }).meta({ id: "LobbyMember" });

/** Fields of a player's result of a game. */
export const RESULT = {
  ...PLAYER,
  team: z.int().nullable(),
  rank: z.int().nullable(),
  outcome: z.enum(OUTCOMES),
  score: z.number().nullable(),
  stats: Data.optional(),
};
const Result = z.object({ ...RESULT, team: Team }).meta({ id: "LobbyResult" });

/** A lobby as its members and the API see it. `members` are the active ones, by `joinedAt`. */
export const LobbyView = z
  .object({
    id: z.uuid(),
    code: z.string().meta({ example: "K7QXM2" }),
    name: z.string(),
    mode: z.string(),
    visibility: z.enum(LOBBY_VISIBILITIES),
    hasPasscode: z.boolean(),
    status: z.enum(LOBBY_STATUSES),
    hostPlayerId: z.uuid().nullable(),
    minPlayers: z.int(),
    maxPlayers: z.int(),
    memberCount: z.int().meta({ description: "Members with a seat; spectators have none" }),
    settings: Settings,
    metadata: Data,
    privateData: Data.optional().meta({ description: "For members and servers; never in lists" }),
    version: z.int(),
    channelId: z.uuid().nullable(),
    matchId: z.uuid().nullable(),
    startsAt: z.iso.datetime().nullable(),
    startedAt: z.iso.datetime().nullable(),
    endedAt: z.iso.datetime().nullable(),
    closeReason: z.enum(LOBBY_CLOSE_REASONS).nullable(),
    results: z.array(Result).nullable().meta({ description: "Of the last game" }),
    members: z.array(Member).meta({ description: "Members of the lobby, by joinedAt" }),
    expiresAt: z.iso.datetime(),
    createdAt: z.iso.datetime(),
    updatedAt: z.iso.datetime(),
  })
  .meta({ id: "Lobby" });
export type LobbyView = z.output<typeof LobbyView>;
export type LobbyMember = LobbyView["members"][number];
export type LobbyResult = NonNullable<LobbyView["results"]>[number];
export type LobbySettings = LobbyView["settings"];
export type LobbyTeams = NonNullable<LobbySettings["teams"]>;

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

/** Maximum code points of a message, whatever a channel's `maxLength` is. */
export const CONTENT_MAX = 2_000;
const DOMAINS_MAX = 100;
const DOMAIN_MAX = 253;
const DAY_SECONDS = 86_400;

const count = (max: number) => z.int().min(0).max(max);

/** Explicit settings of a channel; absent ones have the default of the channel's kind. */
export const GivenSettings = z
  .strictObject({
    slowModeSeconds: count(3_600).meta({ description: "Between two messages of a player; 0 is off" }),
    maxLength: z.int().min(1).max(CONTENT_MAX).meta({ description: "Code points of a message" }),
    links: z.enum(["ALLOW", "ALLOW_LIST", "BLOCK"]),
    allowedDomains: z.array(z.string().min(1).max(DOMAIN_MAX)).max(DOMAINS_MAX),
    profanity: z.enum(["OFF", "MASK", "BLOCK", "HOLD"]),
    reactions: z.boolean(),
    mentions: z.enum(["ALL", "NO_EVERYONE", "OFF"]),
    readOnly: z.boolean().meta({ description: "Moderators and servers only may speak" }),
    minLevelToPost: count(1_000_000),
    minAccountAgeSeconds: count(365 * DAY_SECONDS),
    retentionDays: z.int().min(1).max(3_650),
    editWindowSeconds: count(30 * DAY_SECONDS),
    burstMessages: count(1_000).meta({ description: "Messages of a player in 5 seconds; 0 is off" }),
    minuteMessages: count(10_000).meta({ description: "Messages of a player in a minute; 0 is off" }),
  })
  .partial();
export type GivenSettings = z.output<typeof GivenSettings>;
/** All settings of one channel. */
const ChannelSettings = GivenSettings.required();
export type ChannelSettings = z.output<typeof ChannelSettings>;

export const ChatSender = Person.extend({ role: z.enum(CHAT_ROLES) });

export const ReactionList = z.array(
  z.object({
    emoji: z.string(),
    count: z.int(),
    mine: z.boolean().meta({ description: "Role of the reader" }),
  }),
);

/** Fields of a message. */
export const MESSAGE = {
  id: Id,
  channelId: Id,
  seq: z.int(),
  sender: ChatSender.nullable(),
  type: z.enum(["TEXT", "SYSTEM"]),
  content: Text,
  mentions: z.array(Id),
  replyTo: z.int().nullable(),
  reactions: z.array(z.object({ emoji: Text, count: z.int(), mine: z.boolean() })),
  moderation: z.enum(MODERATIONS),
  editedAt: Time.nullable(),
  deletedAt: Time.nullable(),
  createdAt: Time,
};
/** A message as its reader sees it. */
export const ChatMessage = z
  .object({
    ...MESSAGE,
    seq: MESSAGE.seq.meta({ description: "1, 2, 3, ... in the channel, without gaps" }),
    sender: MESSAGE.sender.meta({
      description: "null: sent by the server, or by a player who was erased",
    }),
    content: Text.meta({ description: "Empty where it was deleted, or waits for a moderator" }),
    reactions: ReactionList,
    clientMsgId: Text.optional().meta({ description: "For the sender only" }),
  })
  .meta({ id: "ChatMessage" });
export type ChatMessage = z.output<typeof ChatMessage>;

/** A channel as its reader sees it. */
export const ChatChannel = z
  .object({
    id: z.uuid(),
    kind: z.enum(CHANNEL_KINDS),
    key: z.string().nullable(),
    name: z.string().nullable(),
    status: z.enum(CHANNEL_STATUSES),
    settings: ChannelSettings,
    lobbyId: z.uuid().nullable(),
    lastSeq: z.int(),
    unread: z.int().optional().meta({ description: "Of the reading player" }),
    lastMessage: ChatMessage.nullable().optional(),
    createdAt: z.iso.datetime(),
  })
  .meta({ id: "ChatChannel" });
export type ChatChannel = z.output<typeof ChatChannel>;

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
