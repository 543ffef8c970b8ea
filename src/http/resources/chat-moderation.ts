import { z } from "zod";
import {
  admitReport,
  listReports,
  Report,
  REPORT_NOTE_MAX,
  REPORT_ORDERS,
  REPORT_STATUSES,
  reportMessage,
  ReviewedReport,
  reviewReport,
} from "../../domain/social/chat/moderation/report-queue.ts";
import {
  APPEAL_STATUSES,
  deleteWordList,
  getSanction,
  getWordList,
  LIST_WORDS_MAX,
  listSanctions,
  listWordLists,
  putWordList,
  restoreMessage,
  Sanction,
  SANCTION_ORDERS,
  WordListSummary,
} from "../../domain/social/chat/moderation/show-sanction.ts";
import {
  ChatMessage,
  CONTENT_MAX,
  REPORT_REASONS,
  SANCTION_KINDS,
} from "../../domain/kernel/events/social-views.ts";
import { ADMINS, DESIGNERS } from "../../domain/kernel/caller.ts";
import {
  addSanction,
  answerAppeal,
  APPEAL_MAX,
  appealSanction,
  Duration,
  patchReport,
  Reason,
  ReportPatch,
  revokeSanction,
} from "../../domain/social/chat/moderation/sanction-changes.ts";
import { group } from "../route.ts";
import { prepareFilter, Trial, tryFilter } from "../../domain/social/chat/moderation/filters.ts";
import {
  LIST_ACTIONS,
  LIST_MATCHES,
  WORD_LENGTH_MAX,
} from "../../domain/social/chat/moderation/word-filter.ts";
import { channelRefOf } from "./chat-channels.ts";
import { deleted, Deleted, Flag, paged, pageReply } from "./bodies.ts";

const NAMED_MAX = 300;

/** A player in a body or query. */
const PlayerName = z
  .string()
  .min(1)
  .max(NAMED_MAX)
  .meta({ description: "UUID, or ext: and the externalUserId", example: "ext:ada" });

const common = group({ tag: "Chat moderation", project: "caller" });
const moderate = common.with({ access: { scope: "chat:moderate", roles: ADMINS } });

/** 5,000 words of 64 letters, written with escapes. */
const BODY_MAX_BYTES = 2 * 1024 * 1024;
const manage = common.with({ access: { scope: "chat:moderate", roles: DESIGNERS } });

const SummaryBody = WordListSummary.meta({ id: "ChatWordListSummary" });
const ListBody = WordListSummary.extend({ words: z.array(z.string()) }).meta({ id: "ChatWordList" });

const ListInput = z
  .strictObject({
    action: z
      .enum(LIST_ACTIONS)
      .meta({ description: "ALLOW: words of other lists inside of these do not count" }),
    match: z
      .enum(LIST_MATCHES)
      .default("WORD")
      .meta({ description: "WORD: where a word begins and ends; SUBSTRING: anywhere" }),
    words: z.array(z.string().min(1).max(WORD_LENGTH_MAX)).max(LIST_WORDS_MAX),
  })
  .meta({ example: { action: "MASK", match: "WORD", words: ["noob"] } });

const NewSanction = z
  .strictObject({
    playerId: PlayerName,
    kind: z.enum(SANCTION_KINDS),
    channelId: z.uuid().optional().meta({ description: "Default: all channels of the project" }),
    reason: Reason.meta({ description: "Shown to the player" }),
    durationSeconds: Duration.meta({ description: "Default: for good" }),
  })
  .meta({ example: { playerId: "ext:ada", kind: "MUTE", reason: "Spam", durationSeconds: 3600 } });

export const chatModerationRoutes = [
  moderate.get("/chat/sanctions", "listChatSanctions", {
    summary: "List mutes, bans and shadow mutes",
    description: "Newest first.",
    ...paged(Sanction, SANCTION_ORDERS, {
      playerId: PlayerName.optional(),
      channelId: z.uuid().optional(),
      kind: z.enum(SANCTION_KINDS).optional(),
      active: Flag.meta({ description: "Those that hold now, or those that do not" }),
      appealStatus: z.enum(APPEAL_STATUSES).optional(),
    }),
    run: async (work, { projectId, query }) =>
      pageReply(await listSanctions(work, projectId, query), "sanctions", query),
  }),
  moderate.post("/chat/sanctions", "createChatSanction", {
    summary: "Mute, ban or shadow-mute a player",
    description:
      "MUTE: may read and not write; BAN: neither; SHADOW_MUTE: is not notified, and only they see what " +
      "they write. It holds from the next message on.",
    body: NewSanction,
    status: 201,
    response: Sanction,
    run: (work, { projectId, body }) => addSanction(work, projectId, body),
  }),
  moderate.get("/chat/sanctions/{sanctionId}", "getChatSanction", {
    summary: "Get a sanction",
    response: Sanction,
    run: (work, { projectId, params }) => getSanction(work, projectId, params.sanctionId),
  }),
  moderate.delete("/chat/sanctions/{sanctionId}", "revokeChatSanction", {
    summary: "End a sanction",
    description: "It stays in the player's history. 409 when it does not hold any more.",
    response: Sanction,
    run: (work, { projectId, params }) => revokeSanction(work, projectId, params.sanctionId),
  }),
  common.post("/chat/sanctions/{sanctionId}/appeal", "appealChatSanction", {
    access: { scope: "chat:write" },
    summary: "Appeal against a sanction",
    description: "By the player it is about, once. A shadow mute is 404.",
    body: z.strictObject({ playerId: PlayerName, text: z.string().trim().min(1).max(APPEAL_MAX) }),
    example: { playerId: "ext:ada", text: "It was not me" },
    response: Sanction,
    run: (work, { projectId, params, body }) => appealSanction(work, projectId, params.sanctionId, body),
  }),
  moderate.patch("/chat/sanctions/{sanctionId}/appeal", "answerChatAppeal", {
    summary: "Answer an appeal",
    description: "ACCEPTED ends the sanction.",
    body: z.strictObject({ status: z.enum(["ACCEPTED", "REJECTED"]) }),
    example: { status: "ACCEPTED" },
    response: Sanction,
    run: (work, { projectId, params, body }) => answerAppeal(work, projectId, params.sanctionId, body.status),
  }),
  moderate.post("/chat/channels/{channelId}/messages/{seq}/restore", "restoreChatMessage", {
    summary: "Restore a message that is held or masked",
    description:
      "HELD: readers see the message as intended. MASKED: readers see the original text. 409 for others, " +
      "and for a masked one that was edited since.",
    response: ChatMessage,
    run: async (work, { projectId, params }) =>
      restoreMessage(work, await channelRefOf(work, projectId, params.channelId), params.seq),
  }),
  common.post("/chat/channels/{channelId}/messages/{seq}/reports", "reportChatMessage", {
    access: { scope: "chat:write" },
    summary: "Report a message",
    description:
      "By a player who can read it, once. The fifth player in 10 minutes has it HELD until a moderator has " +
      "seen it.",
    body: z.strictObject({
      playerId: PlayerName,
      reason: z.enum(REPORT_REASONS),
      note: z.string().min(1).max(REPORT_NOTE_MAX).optional(),
    }),
    example: { playerId: "ext:ada", reason: "SPAM", note: "Advertises another game" },
    status: 201,
    response: z.object({ id: z.uuid(), createdAt: z.iso.datetime() }).meta({ id: "ChatReportReceipt" }),
    prepare: (app, { projectId, body }) => admitReport(app, projectId, body.playerId),
    run: async (work, { projectId, params, body }) => {
      const ref = await channelRefOf(work, projectId, params.channelId);
      // The outcome, and the reported author, are not disclosed to the reporter.
      const { id, createdAt } = await reportMessage(work, ref, { ...body, seq: params.seq });
      return { id, createdAt };
    },
  }),
  moderate.get("/chat/reports", "listChatReports", {
    summary: "List reports",
    description: "A queue: the oldest first.",
    ...paged(Report, REPORT_ORDERS, {
      status: z.enum(REPORT_STATUSES).optional(),
      channelId: z.uuid().optional(),
      senderId: PlayerName.optional(),
    }),
    run: async (work, { projectId, query }) =>
      pageReply(await listReports(work, projectId, query), "reports", query),
  }),
  moderate.get("/chat/reports/{reportId}", "getChatReport", {
    summary: "Get a report with its context",
    description: "The original message, ten neighbours, and the sender's history.",
    response: ReviewedReport,
    run: (work, { projectId, params }) => reviewReport(work, projectId, params.reportId),
  }),
  moderate.patch("/chat/reports/{reportId}", "updateChatReport", {
    summary: "Take on, resolve or dismiss a report",
    description:
      "OPEN, then IN_REVIEW, then RESOLVED with an action or DISMISSED; else 409. REMOVE empties the " +
      "message, WARN puts one into the sender's inbox, MUTE and BAN make a sanction.",
    body: ReportPatch,
    response: Report,
    run: (work, { projectId, params, body }) => patchReport(work, projectId, params.reportId, body),
  }),
  manage.get("/chat/word-lists", "listChatWordLists", {
    summary: "List the word lists of a project",
    description: "By key, without their words; at most 50.",
    response: z.object({ data: z.array(SummaryBody) }),
    run: async (work, { projectId }) => ({ data: await listWordLists(work, projectId) }),
  }),
  manage.get("/chat/word-lists/{key}", "getChatWordList", {
    summary: "Get a word list",
    response: ListBody,
    run: (work, { projectId, params }) => getWordList(work, projectId, params.key),
  }),
  manage.put("/chat/word-lists/{key}", "putChatWordList", {
    summary: "Make or replace a word list",
    description: "It holds for every message that is sent from then on, in all channels of the project.",
    body: ListInput,
    bodyLimit: BODY_MAX_BYTES,
    response: ListBody,
    run: (work, { projectId, params, body }) => putWordList(work, projectId, params.key, body),
  }),
  manage.delete("/chat/word-lists/{key}", "deleteChatWordList", {
    summary: "Delete a word list",
    response: Deleted,
    run: (work, { projectId, params }) => deleted(deleteWordList(work, projectId, params.key)),
  }),
  manage.post("/chat/filter/test", "testChatFilter", {
    summary: "Test the moderation of a text",
    description:
      "As of a player who may write: in a channel, or in one of kind PROJECT with its defaults. It writes " +
      "nothing.",
    body: z
      .strictObject({
        text: z.string().max(2 * CONTENT_MAX),
        channelId: z.uuid().optional(),
      })
      .meta({ example: { text: "well played" } }),
    response: Trial,
    prepare: (app, { projectId }) => prepareFilter(app, projectId),
    run: (work, { projectId, body }) => tryFilter(work, projectId, body),
  }),
];
