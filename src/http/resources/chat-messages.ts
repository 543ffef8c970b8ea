import { z } from "zod";
import { ChatMessage, ReactionList } from "../../domain/kernel/events/social-views.ts";
import type { App } from "../../app.ts";
import { readChannel, readSettings } from "../../domain/social/chat/channels.ts";
import { isBlocked, recordBlocked } from "../../domain/social/chat/moderation/sanction-changes.ts";
import { findPlayer } from "../../domain/progression/players/players.ts";
import { ADMINS, EVERY_ROLE } from "../../domain/kernel/caller.ts";
import { markRead, react, REACTIONS_MAX } from "../../domain/social/chat/commands.ts";
import { admitSend } from "../../domain/social/chat/admit-send.ts";
import { deleteMessage, editMessage } from "../../domain/social/chat/message-view.ts";
import { prepareText } from "../../domain/social/chat/context.ts";
import { prepareFilter } from "../../domain/social/chat/moderation/filters.ts";
import {
  type HistoryQuery,
  readMessages,
  sendMessages,
  type Sent,
} from "../../domain/social/chat/messages.ts";
import { invalid } from "../../domain/kernel/errors.ts";
import { PAGE_DEPTH_MAX } from "../../domain/kernel/paging.ts";
import type { Work } from "../../domain/kernel/work.ts";
import { group, Reply } from "../route.ts";
import {
  accessOf,
  ActingPlayer,
  ActingQuery,
  type ChannelAccess,
  channelRefOf,
  type ChannelRequest,
  MarkRead,
  MessagePatch,
  NewMessage,
} from "./chat-channels.ts";
import { Limit } from "./bodies.ts";

type RefusedSend = { projectId: string; channelId: string; playerId?: string | undefined };

/** Counts a message refused for its content against the player; after the third the player is muted. */
const countBlocked = async (
  app: App,
  { projectId, channelId: asked, playerId: ref }: RefusedSend,
  error: unknown,
): Promise<void> => {
  if (ref === undefined || !isBlocked(error)) return;
  const sender = await app.transact(async (work) => {
    const player = await findPlayer(work, projectId, ref);
    return player && { ...(await channelRefOf(work, projectId, asked)), playerId: player.id };
  });
  if (sender) await recordBlocked(app, sender, error);
};

const common = group({ tag: "Chat", project: "caller" });
const read = common.with({ access: { scope: "chat:read", roles: EVERY_ROLE } });
const write = common.with({ access: { scope: "chat:write" } });

const Seq = z.coerce.number().int().min(0).max(Number.MAX_SAFE_INTEGER).optional();

const History = z.object({
  page: z.coerce
    .number()
    .int()
    .min(1)
    .max(PAGE_DEPTH_MAX)
    .optional()
    .meta({ description: "Instead of before and after: pages of limit messages from the newest" }),
  before: Seq.meta({ description: "Messages below this seq, newest first" }),
  after: Seq.meta({ description: "Messages above this seq, oldest first" }),
  limit: Limit,
  playerId: ActingPlayer,
});

const HistoryBody = z.object({
  data: z.array(ChatMessage),
  pagination: z.object({
    limit: z.int(),
    hasMore: z.boolean().meta({ description: "Whether there are more in this direction" }),
  }),
});

/** Seqs have no gaps, so a page can begin at a known one. */
const rangeOf = async (
  work: Work,
  { actor, ref }: ChannelAccess,
  { page, before, after, limit }: z.output<typeof History>,
): Promise<Pick<HistoryQuery, "before" | "after">> => {
  if (page === undefined) return { before, after };
  if (before !== undefined || after !== undefined)
    throw invalid("page", "cannot be combined with before and after");
  const { lastSeq } = await readChannel(work, ref, actor);
  return { before: lastSeq - (page - 1) * limit + 1 };
};

/**
 * Rate-limits a send before its transaction, loads the word lists for it, and screens its text.
 * @throws RateLimited, and as readChannel
 */
const admit = async (
  app: App,
  asked: ChannelRequest,
  send: { content: string; clientMsgId?: string | undefined },
) => {
  const { actor, ref, settings } = await app.transact(async (work) => {
    const access = await accessOf(work, asked);
    return { ...access, settings: await readSettings(work, access.ref, access.actor) };
  });
  await prepareFilter(app, ref.projectId);
  const giveBack = await admitSend(app, ref, { actor, send, settings });
  const isPlayer = actor.kind === "PLAYER";
  const screening = isPlayer ? prepareText(ref.projectId, settings, send.content) : undefined;
  return { actor, ref, giveBack, screening };
};

const answerOf = (sent: Sent): Reply<z.input<typeof ChatMessage>> => {
  if ("error" in sent) throw sent.error;
  return new Reply(sent.isDuplicate ? 200 : 201, sent.message);
};

const reactRoute = (method: "put" | "delete", texts: { id: string; summary: string }) =>
  write[method]("/chat/channels/{channelId}/messages/{seq}/reactions/{emoji}", texts.id, {
    ...texts,
    description: `Done twice it is done once. A message has at most ${REACTIONS_MAX} different reactions.`,
    query: ActingQuery,
    response: z.object({ seq: z.int(), reactions: ReactionList }),
    run: async (work, { projectId, caller, params, query }) => {
      const { channelId, ...what } = params;
      const { actor, ref } = await accessOf(work, { projectId, caller, channelId, ...query });
      const op = method === "put" ? "ADD" : "REMOVE";
      return (await react(work, ref, actor, { ...what, op })).reply;
    },
  });

export const chatMessageRoutes = [
  read.get("/chat/channels/{channelId}/messages", "listChatMessages", {
    summary: "Read the messages of a channel",
    description:
      "The newest first, or those before or after a seq. What was deleted keeps its place, with an empty " +
      "`content`. With `playerId` as this player sees them. Without, messages of a private channel (of a " +
      "lobby, or of players among themselves) are for moderators only, and each reading of them is in the " +
      "audit log.",
    query: History,
    response: HistoryBody,
    run: async (work, { projectId, caller, params, query }) => {
      const { playerId, limit } = query;
      const { actor, ref } = await accessOf(work, { projectId, caller, ...params, playerId });
      const range = await rangeOf(work, { actor, ref }, query);
      const found = await readMessages(work, ref, actor, { ...range, limit: limit + 1 });
      return { data: found.slice(0, limit), pagination: { limit, hasMore: found.length > limit } };
    },
  }),
  write.post("/chat/channels/{channelId}/messages", "sendChatMessage", {
    summary: "Send a message",
    description:
      "As the player of `playerId`, or without one as the server: `type` SYSTEM. 200 with the message of " +
      "before when its `clientMsgId` was sent already.",
    body: NewMessage,
    status: 201,
    otherStatus: 200,
    response: ChatMessage,
    prepare: (app, { projectId, caller, params, body }) =>
      admit(app, { projectId, caller, ...params, playerId: body.playerId }, body),
    run: async (work, { body, prepared: { actor, ref, screening } }) => {
      const { playerId: _, ...send } = body;
      const { sent } = await sendMessages(work, ref, [{ actor, send, screening }]);
      return answerOf(sent[0]!);
    },
    onRefused: async (app, { projectId, params, body, prepared }, error) => {
      await prepared?.giveBack(error);
      await countBlocked(app, { projectId, channelId: params.channelId, playerId: body.playerId }, error);
    },
  }),
  write.patch("/chat/channels/{channelId}/messages/{seq}", "editChatMessage", {
    summary: "Edit a message",
    description: "By its sender, within `editWindowSeconds`; the new text is judged as a new message is.",
    body: MessagePatch,
    example: { content: "Hello again", playerId: "ext:ada" },
    response: ChatMessage,
    prepare: (app, { projectId }) => prepareFilter(app, projectId),
    run: async (work, { projectId, caller, params, body }) => {
      const { channelId, seq } = params;
      const { playerId, content } = body;
      const { actor, ref } = await accessOf(work, { projectId, caller, channelId, playerId });
      return (await editMessage(work, ref, actor, { seq, content })).reply;
    },
    onRefused: (app, { projectId, params, body }, error) =>
      countBlocked(app, { projectId, channelId: params.channelId, playerId: body.playerId }, error),
  }),
  common.delete("/chat/channels/{channelId}/messages/{seq}", "deleteChatMessage", {
    access: { scope: "chat:write", roles: ADMINS },
    summary: "Delete a message",
    description:
      "By its sender, or as a removal by moderators of the channel, keys with `chat:moderate` and " +
      "console users. Its place stays.",
    query: ActingQuery,
    response: ChatMessage,
    run: async (work, { projectId, caller, params, query }) => {
      const { channelId, seq } = params;
      const { actor, ref } = await accessOf(work, { projectId, caller, channelId, ...query });
      return (await deleteMessage(work, ref, actor, { seq })).reply;
    },
  }),
  reactRoute("put", { id: "addChatReaction", summary: "React to a message" }),
  reactRoute("delete", { id: "removeChatReaction", summary: "Take a reaction back" }),
  write.post("/chat/channels/{channelId}/read", "markChatRead", {
    summary: "Mark messages as read",
    description: "For the player of `playerId`. The mark moves forward only.",
    body: MarkRead,
    example: { seq: 42, playerId: "ext:ada" },
    response: z.object({ lastReadSeq: z.int(), unread: z.int() }),
    run: async (work, { projectId, caller, params, body }) => {
      const { playerId, seq } = body;
      const { actor, ref } = await accessOf(work, { projectId, caller, ...params, playerId });
      return (await markRead(work, ref, actor, { seq })).reply;
    },
  }),
];
