import { z } from "zod";
import { EditBody, ReadBody, SendBody } from "../../domain/social/chat/send-known.ts";
import { GivenSettings } from "../../domain/social/chat/settings.ts";
import {
  CHANNEL_KINDS,
  CHANNEL_STATUSES,
  CHAT_ROLES,
  MODERATIONS,
  NOTIFY,
} from "../../domain/kernel/events/chat-views.ts";
import { isId } from "../../domain/kernel/ids.ts";
import { Key } from "../../domain/evaluation/language/syntax.ts";
import { PATH_VALUES } from "../path-values.ts";

const NAME_MAX = 100;
const NAMED_MAX = 300;

/** For API keys: the acting player, whose rights then apply. */
export const ActingPlayer = z.string().min(1).max(NAMED_MAX).optional().meta({
  description: "For API keys: the acting player, by UUID or ext: and the externalUserId",
});

/** Path parameters of a player in a channel. */
export const MemberParams = z.object({
  channelId: PATH_VALUES.channelId,
  playerId: z.string().max(NAMED_MAX).meta({ description: "UUID, or ext: and the externalUserId" }),
});

export const ActingQuery = z.object({ playerId: ActingPlayer });

const ChatSender = z.object({
  playerId: z.uuid(),
  externalUserId: z.string(),
  displayName: z.string().nullable(),
  role: z.enum(CHAT_ROLES),
});

export const ReactionList = z.array(
  z.object({
    emoji: z.string(),
    count: z.int(),
    mine: z.boolean().meta({ description: "Role of the reader" }),
  }),
);

export const ChatMessageBody = z
  .object({
    id: z.uuid(),
    channelId: z.uuid(),
    seq: z.int().meta({ description: "1, 2, 3, ... in the channel, without gaps" }),
    sender: ChatSender.nullable().meta({
      description: "null: sent by the server, or by a player who was erased",
    }),
    type: z.enum(["TEXT", "SYSTEM"]),
    content: z.string().meta({ description: "Empty where it was deleted, or waits for a moderator" }),
    mentions: z.array(z.uuid()),
    replyTo: z.int().nullable(),
    reactions: ReactionList,
    moderation: z.enum(MODERATIONS),
    editedAt: z.iso.datetime().nullable(),
    deletedAt: z.iso.datetime().nullable(),
    createdAt: z.iso.datetime(),
    clientMsgId: z.string().optional().meta({ description: "For the sender only" }),
  })
  .meta({ id: "ChatMessage" });

const ChannelSettingsBody = GivenSettings.required();

export const ChatChannelBody = z
  .object({
    id: z.uuid(),
    kind: z.enum(CHANNEL_KINDS),
    key: z.string().nullable(),
    name: z.string().nullable(),
    status: z.enum(CHANNEL_STATUSES),
    settings: ChannelSettingsBody,
    lobbyId: z.uuid().nullable(),
    lastSeq: z.int(),
    unread: z.int().optional().meta({ description: "Of the reading player" }),
    lastMessage: ChatMessageBody.nullable().optional(),
    createdAt: z.iso.datetime(),
  })
  .meta({ id: "ChatChannel" });

/** A direct channel, as seen by the caller that opens it. */
export const DirectChannelBody = ChatChannelBody.extend({
  lastSeq: z.int().optional().meta({ description: "Only for a caller that may read the channel" }),
}).meta({ id: "DirectChannel" });

export const ChatMemberBody = z
  .object({
    playerId: z.uuid(),
    externalUserId: z.string(),
    displayName: z.string().nullable(),
    role: z.enum(CHAT_ROLES),
    notify: z.enum(NOTIFY),
    lastReadSeq: z.int(),
    joinedAt: z.iso.datetime(),
  })
  .meta({ id: "ChatMember" });

export const NewChannel = z
  .strictObject({
    kind: z.enum(["PROJECT", "GROUP"]).default("PROJECT").meta({ description: "GROUP is not available yet" }),
    key: Key.refine((key) => !isId(key), "must not be a UUID: paths would take it for an id"),
    name: z.string().min(1).max(NAME_MAX).optional(),
    settings: GivenSettings.default({}),
  })
  .meta({ example: { key: "trade", name: "Trade", settings: { slowModeSeconds: 10 } } });

export const ChannelPatch = z.strictObject({
  name: z.string().min(1).max(NAME_MAX).nullable().optional(),
  settings: GivenSettings.optional(),
});

export const DirectBody = z.strictObject({
  playerIds: z
    .array(z.string().min(1).max(NAMED_MAX))
    .length(2)
    .meta({ description: "The two players, by UUID or ext: and the externalUserId" }),
  playerId: ActingPlayer,
});

export const NewMessage = SendBody.extend({ playerId: ActingPlayer }).meta({
  id: "NewChatMessage",
  example: { content: "Hello @bob", clientMsgId: "c-1", playerId: "ext:ada" },
});
export const MessagePatch = EditBody.pick({ content: true }).extend({ playerId: ActingPlayer });
export const MarkRead = ReadBody.extend({ playerId: ActingPlayer });
export const MemberPatch = z.strictObject({
  role: z.enum(CHAT_ROLES).optional(),
  notify: z.enum(NOTIFY).optional(),
  /** The acting player; the path names the member. */
  actingPlayerId: ActingPlayer,
});
