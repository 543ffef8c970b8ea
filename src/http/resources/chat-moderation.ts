import { z } from "zod";
import { ADMINS } from "../../domain/kernel/caller.ts";
import {
  addSanction,
  answerAppeal,
  APPEAL_MAX,
  appealSanction,
  revokeSanction,
  SANCTION_REASON_MAX,
  SANCTION_SECONDS_MAX,
} from "../../domain/social/chat/moderation/sanction-changes.ts";
import {
  APPEAL_STATUSES,
  getSanction,
  listSanctions,
  restoreMessage,
  SANCTION_ORDERS,
} from "../../domain/social/chat/moderation/show-sanction.ts";
import { SANCTION_KINDS } from "../../domain/kernel/events/chat-views.ts";
import { pageBody, PageQuery } from "../../domain/kernel/paging.ts";
import { group } from "../route.ts";
import { ChatMessageBody } from "./chat-bodies.ts";
import { channelRefOf } from "./chat-channels.ts";
import { PlayerName, SanctionBody } from "./chat-moderation-bodies.ts";
import { Flag, pageReply, sortedBy } from "./list-bodies.ts";

const common = group({ tag: "Chat moderation", project: "caller" });
const moderate = common.with({ access: { scope: "chat:moderate", roles: ADMINS } });

const NewSanction = z
  .strictObject({
    playerId: PlayerName,
    kind: z.enum(SANCTION_KINDS),
    channelId: z.uuid().optional().meta({ description: "Default: all channels of the project" }),
    reason: z.string().min(1).max(SANCTION_REASON_MAX).meta({ description: "Shown to the player" }),
    durationSeconds: z
      .int()
      .min(1)
      .max(SANCTION_SECONDS_MAX)
      .optional()
      .meta({ description: "Default: for good" }),
  })
  .meta({ example: { playerId: "ext:ada", kind: "MUTE", reason: "Spam", durationSeconds: 3600 } });

export const chatModerationRoutes = [
  moderate.get("/chat/sanctions", "listChatSanctions", {
    summary: "List mutes, bans and shadow mutes",
    description: "Newest first.",
    query: PageQuery.extend({
      ...sortedBy(SANCTION_ORDERS),
      playerId: PlayerName.optional(),
      channelId: z.uuid().optional(),
      kind: z.enum(SANCTION_KINDS).optional(),
      active: Flag.meta({ description: "Those that hold now, or those that do not" }),
      appealStatus: z.enum(APPEAL_STATUSES).optional(),
    }),
    response: pageBody(SanctionBody),
    run: async (work, { projectId, query }) => {
      const { sanctions, ...total } = await listSanctions(work, projectId, query);
      return pageReply(sanctions, total, query);
    },
  }),
  moderate.post("/chat/sanctions", "createChatSanction", {
    summary: "Mute, ban or shadow-mute a player",
    description:
      "MUTE: may read and not write; BAN: neither; SHADOW_MUTE: is not notified, and only they see what " +
      "they write. It holds from the next message on.",
    body: NewSanction,
    status: 201,
    response: SanctionBody,
    run: (work, { projectId, body }) => addSanction(work, projectId, body),
  }),
  moderate.get("/chat/sanctions/{sanctionId}", "getChatSanction", {
    summary: "Get a sanction",
    response: SanctionBody,
    run: (work, { projectId, params }) => getSanction(work, projectId, params.sanctionId),
  }),
  moderate.delete("/chat/sanctions/{sanctionId}", "revokeChatSanction", {
    summary: "End a sanction",
    description: "It stays in the player's history. 409 when it does not hold any more.",
    response: SanctionBody,
    run: (work, { projectId, params }) => revokeSanction(work, projectId, params.sanctionId),
  }),
  common.post("/chat/sanctions/{sanctionId}/appeal", "appealChatSanction", {
    access: { scope: "chat:write" },
    summary: "Appeal against a sanction",
    description: "By the player it is about, once. A shadow mute is 404.",
    body: z.strictObject({ playerId: PlayerName, text: z.string().trim().min(1).max(APPEAL_MAX) }),
    example: { playerId: "ext:ada", text: "It was not me" },
    response: SanctionBody,
    run: (work, { projectId, params, body }) => appealSanction(work, projectId, params.sanctionId, body),
  }),
  moderate.patch("/chat/sanctions/{sanctionId}/appeal", "answerChatAppeal", {
    summary: "Answer an appeal",
    description: "ACCEPTED ends the sanction.",
    body: z.strictObject({ status: z.enum(["ACCEPTED", "REJECTED"]) }),
    example: { status: "ACCEPTED" },
    response: SanctionBody,
    run: (work, { projectId, params, body }) => answerAppeal(work, projectId, params.sanctionId, body.status),
  }),
  moderate.post("/chat/channels/{channelId}/messages/{seq}/restore", "restoreChatMessage", {
    summary: "Restore a message that is held or masked",
    description:
      "HELD: readers see the message as intended. MASKED: readers see the original text. 409 for others, " +
      "and for a masked one that was edited since.",
    response: ChatMessageBody,
    run: async (work, { projectId, params }) =>
      restoreMessage(work, await channelRefOf(work, projectId, params.channelId), params.seq),
  }),
];
