import { z } from "zod";
import { REPORT_ACTIONS, REPORT_STATUSES } from "../../domain/social/chat/moderation/report-queue.ts";
import { APPEAL_STATUSES } from "../../domain/social/chat/moderation/show-sanction.ts";
import { MODERATIONS, REPORT_REASONS, SANCTION_KINDS } from "../../domain/kernel/events/chat-views.ts";

const NAMED_MAX = 300;

/** A player in a body or query. */
export const PlayerName = z
  .string()
  .min(1)
  .max(NAMED_MAX)
  .meta({ description: "UUID, or ext: and the externalUserId", example: "ext:ada" });

const Person = z.object({
  playerId: z.uuid(),
  externalUserId: z.string(),
  displayName: z.string().nullable(),
});

export const SanctionBody = z
  .object({
    id: z.uuid(),
    player: Person,
    kind: z.enum(SANCTION_KINDS),
    channelId: z.uuid().nullable().meta({ description: "null: in all channels of the project" }),
    reason: z.string(),
    isAutomatic: z.boolean(),
    isActive: z.boolean().meta({ description: "Neither revoked nor over" }),
    expiresAt: z.iso.datetime().nullable().meta({ description: "null: for good" }),
    createdBy: z.string(),
    createdAt: z.iso.datetime(),
    revokedAt: z.iso.datetime().nullable(),
    revokedBy: z.string().nullable(),
    appeal: z.object({ text: z.string(), status: z.enum(APPEAL_STATUSES), at: z.iso.datetime() }).nullable(),
  })
  .meta({ id: "ChatSanction" });

export const ReportBody = z
  .object({
    id: z.uuid(),
    channelId: z.uuid().nullable(),
    seq: z.int().nullable().meta({ description: "null: about the player, made by the service itself" }),
    reporter: Person.nullable(),
    sender: Person.nullable(),
    reason: z.enum(REPORT_REASONS),
    note: z.string().nullable(),
    status: z.enum(REPORT_STATUSES),
    action: z.enum(REPORT_ACTIONS).nullable(),
    assignee: z.string().nullable(),
    createdAt: z.iso.datetime(),
    resolvedAt: z.iso.datetime().nullable(),
    resolvedBy: z.string().nullable(),
  })
  .meta({ id: "ChatReport" });

const ReviewedMessage = z
  .object({
    id: z.uuid(),
    seq: z.int(),
    sender: Person.nullable(),
    content: z.string(),
    original: z.string().nullable().meta({ description: "The text before masks, edits and deletion" }),
    moderation: z.enum(MODERATIONS),
    flags: z.array(z.string()),
    isShadowed: z.boolean(),
    editedAt: z.iso.datetime().nullable(),
    deletedAt: z.iso.datetime().nullable(),
    createdAt: z.iso.datetime(),
  })
  .meta({ id: "ReviewedChatMessage" });

export const ReviewBody = z
  .object({
    report: ReportBody,
    message: ReviewedMessage.nullable().meta({ description: "null once retention has deleted it" }),
    neighbours: z.array(ReviewedMessage).meta({ description: "Up to five before and five after, in order" }),
    history: z
      .object({
        sanctions: z.array(SanctionBody),
        sanctionCount: z.int(),
        reports: z.array(ReportBody),
        reportCount: z.int(),
      })
      .meta({ description: "Of the sender: the newest 20 of each, and how many there are" }),
  })
  .meta({ id: "ChatReportReview" });
