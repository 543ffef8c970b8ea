import { z } from "zod";
import { EditBody, ReadBody, SendBody } from "../../domain/social/chat/commands.ts";
import {
  CHANNEL_KINDS,
  CHANNEL_STATUSES,
  type ChannelStatus,
  CHAT_ROLES,
  type ChatActor,
  ChatChannel,
  ChatSender,
  GivenSettings,
  NOTIFY,
} from "../../domain/kernel/events/social-views.ts";
import { isId } from "../../domain/kernel/ids.ts";
import { Key } from "../../domain/evaluation/language/syntax.ts";
import { group, PATH_VALUES, Reply } from "../route.ts";
import { ADMINS, type Caller, EVERY_ROLE } from "../../domain/kernel/caller.ts";
import {
  CHANNEL_ORDERS,
  CHAT_MEMBER_ORDERS,
  chatActorOf,
  listChannels,
  listMembers,
  updateMember,
} from "../../domain/social/chat/members.ts";
import {
  createChannel,
  getChannelId,
  openDirectFor,
  readChannel,
  setChannelStatus,
  updateChannel,
} from "../../domain/social/chat/channels.ts";
import type { ChannelRef } from "../../domain/social/chat/channel-row.ts";
import { invalid } from "../../domain/kernel/errors.ts";
import { getPlayer } from "../../domain/progression/players/players.ts";
import type { Work } from "../../domain/kernel/work.ts";
import { paged, pageReply } from "./bodies.ts";

const NAME_MAX = 100;
const NAMED_MAX = 300;

/** For API keys: the acting player, whose rights then apply. */
export const ActingPlayer = z.string().min(1).max(NAMED_MAX).optional().meta({
  description: "For API keys: the acting player, by UUID or ext: and the externalUserId",
});

/** Path parameters of a player in a channel. */
const MemberParams = z.object({
  channelId: PATH_VALUES.channelId,
  playerId: z.string().max(NAMED_MAX).meta({ description: "UUID, or ext: and the externalUserId" }),
});

export const ActingQuery = z.object({ playerId: ActingPlayer });

/** A direct channel, as seen by the caller that opens it. */
const DirectChannelBody = ChatChannel.extend({
  lastSeq: z.int().optional().meta({ description: "Only for a caller that may read the channel" }),
}).meta({ id: "DirectChannel" });

const ChatMemberBody = ChatSender.extend({
  notify: z.enum(NOTIFY),
  lastReadSeq: z.int(),
  joinedAt: z.iso.datetime(),
}).meta({ id: "ChatMember" });

const NewChannel = z
  .strictObject({
    kind: z.enum(["PROJECT", "GROUP"]).default("PROJECT").meta({ description: "GROUP is not available yet" }),
    key: Key.refine((key) => !isId(key), "must not be a UUID: paths would take it for an id"),
    name: z.string().min(1).max(NAME_MAX).optional(),
    settings: GivenSettings.default({}),
  })
  .meta({ example: { key: "trade", name: "Trade", settings: { slowModeSeconds: 10 } } });

const ChannelPatch = z.strictObject({
  name: z.string().min(1).max(NAME_MAX).nullable().optional(),
  settings: GivenSettings.optional(),
});

const DirectBody = z.strictObject({
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

const common = group({ tag: "Chat", project: "caller" });
const read = common.with({ access: { scope: "chat:read", roles: EVERY_ROLE } });
const manage = common.with({
  access: { scope: "chat:moderate", roles: ADMINS },
  response: ChatChannel,
});

/** Resolves the channel named in a path. @throws DomainError NOT_FOUND */
export const channelRefOf = async (work: Work, projectId: string, channel: string): Promise<ChannelRef> => ({
  projectId,
  channelId: await getChannelId(work, projectId, channel),
});

/** Creates the operation that sets a channel's status. */
const statusRoute = (step: string, status: ChannelStatus, texts: { id: string; summary: string }) =>
  manage.post(`/chat/channels/{channelId}/${step}`, texts.id, {
    ...texts,
    run: async (work, { projectId, params }) =>
      setChannelStatus(work, await channelRefOf(work, projectId, params.channelId), status),
  });

/** Who asks for which channel; with a key perhaps as a player. */
export type ChannelRequest = {
  projectId: string;
  caller: Caller;
  channelId: string;
  playerId?: string | undefined;
};

/** What the domain is asked with: the actor of a request, and the channel that it names. */
export type ChannelAccess = { actor: ChatActor; ref: ChannelRef };

export const accessOf = async (work: Work, asked: ChannelRequest): Promise<ChannelAccess> => ({
  actor: await chatActorOf(work, asked.projectId, asked.caller, asked.playerId),
  ref: await channelRefOf(work, asked.projectId, asked.channelId),
});

export const chatChannelRoutes = [
  read.get("/chat/channels", "listChatChannels", {
    summary: "List channels",
    description:
      "Last changed first. With `playerId` the channels that this player reads, with unread counts; else " +
      "those of the whole project, and for moderators the private ones too, without `lastMessage`. The " +
      "channel `global` is always there.",
    ...paged(ChatChannel, CHANNEL_ORDERS, {
      kind: z.enum(CHANNEL_KINDS).optional(),
      status: z.enum(CHANNEL_STATUSES).optional(),
      playerId: ActingPlayer,
    }),
    run: async (work, { projectId, caller, query }) => {
      const actor = await chatActorOf(work, projectId, caller, query.playerId);
      return pageReply(await listChannels(work, projectId, actor, query), "channels", query);
    },
  }),
  read.get("/chat/channels/{channelId}", "getChatChannel", {
    summary: "Get a channel",
    query: ActingQuery,
    response: ChatChannel,
    run: async (work, { projectId, caller, params, query }) => {
      const { actor, ref } = await accessOf(work, { projectId, caller, ...params, ...query });
      return readChannel(work, ref, actor);
    },
  }),
  manage.post("/chat/channels", "createChatChannel", {
    summary: "Create a channel of the whole project",
    body: NewChannel,
    status: 201,
    run: (work, { projectId, body }) => {
      if (body.kind === "GROUP") throw invalid("kind", "GROUP is not available yet");
      return createChannel(work, projectId, body);
    },
  }),
  manage.patch("/chat/channels/{channelId}", "updateChatChannel", {
    summary: "Change the name and settings of a channel",
    description: "Settings that are absent stay.",
    body: ChannelPatch,
    example: { name: "Trade and more", settings: { readOnly: true } },
    run: async (work, { projectId, params, body }) =>
      updateChannel(work, await channelRefOf(work, projectId, params.channelId), body),
  }),
  statusRoute("lock", "LOCKED", { id: "lockChatChannel", summary: "Let only moderators speak" }),
  statusRoute("unlock", "ACTIVE", { id: "unlockChatChannel", summary: "Open a locked or archived channel" }),
  statusRoute("archive", "ARCHIVED", {
    id: "archiveChatChannel",
    summary: "Archive a channel: nobody can send any more",
  }),
  common.post("/chat/direct", "openDirectChannel", {
    access: { scope: "chat:write" },
    summary: "Open the channel of two players",
    description:
      "201, or 200 when it exists already. `lastSeq` is shown to the player of `playerId`, who is one of " +
      "the two, and to keys with `chat:moderate`.",
    body: DirectBody,
    example: { playerIds: ["ext:ada", "ext:grace"] },
    status: 201,
    otherStatus: 200,
    response: DirectChannelBody,
    run: async (work, { projectId, caller, body }) => {
      const [one, other] = body.playerIds;
      const actor = await chatActorOf(work, projectId, caller, body.playerId);
      const players = [await getPlayer(work, projectId, one!), await getPlayer(work, projectId, other!)];
      const ids = [players[0]!.id, players[1]!.id] as const;
      const { channel, isNew } = await openDirectFor(work, projectId, actor, ids);
      return new Reply(isNew ? 201 : 200, channel);
    },
  }),
  read.get("/chat/channels/{channelId}/members", "listChatMembers", {
    summary: "List the members of a channel",
    description:
      "By the time they joined. In a channel of the project, to which everybody belongs, those who have " +
      "read or set something.",
    ...paged(ChatMemberBody, CHAT_MEMBER_ORDERS, {
      playerId: ActingPlayer,
    }),
    run: async (work, { projectId, caller, params, query }) => {
      const { playerId } = query;
      const { actor, ref } = await accessOf(work, { projectId, caller, ...params, playerId });
      return pageReply(await listMembers(work, ref, actor, query), "members", query);
    },
  }),
  common.patch("/chat/channels/{channelId}/members/{playerId}", "updateChatMember", {
    access: { scope: "chat:write", roles: ADMINS },
    summary: "Change a member's role or notification settings",
    description:
      "Roles are given by owners of the channel, keys with `chat:moderate` and console users; `notify` is " +
      "for mentions.",
    params: MemberParams,
    body: MemberPatch,
    example: { notify: "NONE" },
    response: ChatMemberBody,
    run: async (work, { projectId, caller, params, body }) => {
      const { actingPlayerId, ...patch } = body;
      const asked = { projectId, caller, channelId: params.channelId, playerId: actingPlayerId };
      const { actor, ref } = await accessOf(work, asked);
      const { id: playerId } = await getPlayer(work, projectId, params.playerId);
      return updateMember(work, ref, actor, { playerId, patch });
    },
  }),
];
