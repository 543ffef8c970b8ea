import { z } from "zod";
import { IsoTime } from "../../domain/kernel/iso-time.ts";
import {
  InboxMessage,
  listInbox,
  readMessage,
  sendByHand,
  INBOX_ORDERS,
} from "../../domain/economy/inbox/inbox.ts";
import { BODY_MAX, TITLE_MAX } from "../../domain/evaluation/inbox/send.ts";
import { fitsBytes } from "../../domain/kernel/hostile-json.ts";
import { getPlayer } from "../../domain/progression/players/players.ts";
import { Key } from "../../domain/evaluation/language/syntax.ts";
import { causeOf, Flag, onPlayers, paged, pageReply } from "./bodies.ts";

/** Maximum bytes of `data` as JSON. */
const DATA_MAX_BYTES = 8 * 1024;

const NewMessage = z
  .strictObject({
    type: Key.default("message").meta({ description: "By which your clients distinguish messages" }),
    title: z.string().min(1).max(TITLE_MAX),
    body: z.string().min(1).max(BODY_MAX).optional(),
    data: z
      .record(z.string().max(255), z.unknown())
      .refine((value) => fitsBytes(value, DATA_MAX_BYTES), "must be at most 8 KiB of JSON")
      .default({}),
    rewardKey: Key.optional().meta({
      description: "A reward to be claimed, for as long as the message stays",
    }),
    expiresAt: IsoTime.optional().meta({ description: "Default: 90 days from now" }),
  })
  .meta({ example: { type: "news", title: "A new season", body: "It begins on Monday." } });

const { read, write } = onPlayers("Inbox");

export const inboxRoutes = [
  read.get("/players/{playerId}/inbox", "listInbox", {
    summary: "List the messages of a player",
    description: "Newest first, without those that have ended.",
    ...paged(InboxMessage, INBOX_ORDERS, {
      unread: Flag,
      type: Key.optional(),
    }),
    run: async (work, { projectId, params, query }) => {
      const player = await getPlayer(work, projectId, params.playerId);
      return pageReply(await listInbox(work, player, query), "messages", query);
    },
  }),
  write.post("/players/{playerId}/inbox", "sendMessage", {
    summary: "Send a player a message",
    body: NewMessage,
    status: 201,
    response: InboxMessage,
    run: async (work, { projectId, params, body, caller }) => {
      const player = await getPlayer(work, projectId, params.playerId);
      return sendByHand(work, player, { ...body, cause: causeOf(caller) });
    },
  }),
  write.post("/players/{playerId}/inbox/{messageId}/read", "readMessage", {
    summary: "Mark a message as read",
    response: InboxMessage,
    run: async (work, { projectId, params }) =>
      readMessage(work, await getPlayer(work, projectId, params.playerId), params.messageId),
  }),
];
