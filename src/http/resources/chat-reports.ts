import { z } from "zod";
import { ADMINS } from "../../domain/kernel/caller.ts";
import {
  admitReport,
  listReports,
  REPORT_ACTIONS,
  REPORT_NOTE_MAX,
  REPORT_ORDERS,
  REPORT_STATUSES,
  reportMessage,
  reviewReport,
} from "../../domain/social/chat/moderation/report-queue.ts";
import {
  patchReport,
  SANCTION_REASON_MAX,
  SANCTION_SECONDS_MAX,
} from "../../domain/social/chat/moderation/sanction-changes.ts";
import { REPORT_REASONS } from "../../domain/kernel/events/chat-views.ts";
import { pageBody, PageQuery } from "../../domain/kernel/paging.ts";
import { group } from "../route.ts";
import { channelRefOf } from "./chat-channels.ts";
import { PlayerName, ReportBody, ReviewBody } from "./chat-moderation-bodies.ts";
import { pageReply, sortedBy } from "./list-bodies.ts";

const ASSIGNEE_MAX = 255;

const common = group({ tag: "Chat moderation", project: "caller" });
const moderate = common.with({ access: { scope: "chat:moderate", roles: ADMINS } });

export const chatReportRoutes = [
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
    errors: ["RATE_LIMITED"],
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
    query: PageQuery.extend({
      ...sortedBy(REPORT_ORDERS),
      status: z.enum(REPORT_STATUSES).optional(),
      channelId: z.uuid().optional(),
      senderId: PlayerName.optional(),
    }),
    response: pageBody(ReportBody),
    run: async (work, { projectId, query }) => {
      const { reports, ...total } = await listReports(work, projectId, query);
      return pageReply(reports, total, query);
    },
  }),
  moderate.get("/chat/reports/{reportId}", "getChatReport", {
    summary: "Get a report with its context",
    description: "The original message, ten neighbours, and the sender's history.",
    response: ReviewBody,
    run: (work, { projectId, params }) => reviewReport(work, projectId, params.reportId),
  }),
  moderate.patch("/chat/reports/{reportId}", "updateChatReport", {
    summary: "Take on, resolve or dismiss a report",
    description:
      "OPEN, then IN_REVIEW, then RESOLVED with an action or DISMISSED; else 409. REMOVE empties the " +
      "message, WARN puts one into the sender's inbox, MUTE and BAN make a sanction.",
    body: z
      .strictObject({
        status: z.enum(["IN_REVIEW", "RESOLVED", "DISMISSED"]).optional(),
        action: z.enum(REPORT_ACTIONS).optional().meta({ description: "With RESOLVED" }),
        assignee: z.string().min(1).max(ASSIGNEE_MAX).optional().meta({ description: "Default: the caller" }),
        durationSeconds: z
          .int()
          .min(1)
          .max(SANCTION_SECONDS_MAX)
          .optional()
          .meta({ description: "Of MUTE and BAN; default: for good" }),
        reason: z
          .string()
          .min(1)
          .max(SANCTION_REASON_MAX)
          .optional()
          .meta({ description: "Shown to the sender for WARN, MUTE and BAN" }),
        channelOnly: z
          .boolean()
          .optional()
          .meta({ description: "MUTE and BAN: in the message's channel; default: in all" }),
      })
      .meta({ example: { status: "IN_REVIEW" } }),
    response: ReportBody,
    run: (work, { projectId, params, body }) => patchReport(work, projectId, params.reportId, body),
  }),
];
