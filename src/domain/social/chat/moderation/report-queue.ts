import { z } from "zod";
import { type RawBuilder, sql } from "kysely";
import { type Bucket, type CountingParts, countUse } from "../../../accounts/rate-limits/limiter.ts";
import { conflict, notFound } from "../../../kernel/errors.ts";
import {
  type ChannelKind,
  MODERATIONS,
  REPORT_REASONS,
  type ReportReason,
} from "../../../kernel/events/social-views.ts";
import { Person } from "../../../kernel/events/shapes.ts";
import { isId, newId } from "../../../kernel/ids.ts";
import { type RowOf, shownRow } from "../../../kernel/json.ts";
import { offsetOf, orderBy, type Ordered, type PageQuery, type SortOf } from "../../../kernel/paging.ts";
import { countRows, type Total, type Work } from "../../../kernel/work.ts";
import { getPlayer, isPlayer } from "../../../progression/players/players.ts";
import { admit, type Channel, type ChannelRef } from "../channel-row.ts";
import { auditPrivateRead, isHidden, lockMessage, type MessageRow, ofMessage } from "../message-view.ts";
import { holdMessage, listSanctions, personOf, Sanction } from "./show-sanction.ts";

export const REPORT_STATUSES = ["OPEN", "IN_REVIEW", "RESOLVED", "DISMISSED"] as const;
export type ReportStatus = (typeof REPORT_STATUSES)[number];
export const REPORT_ACTIONS = ["NONE", "REMOVE", "WARN", "MUTE", "BAN"] as const;
export type ReportAction = (typeof REPORT_ACTIONS)[number];

/**
 * A report as moderators see it; without `seq` it is about a player, and was created by the service itself.
 */
export const Report = z
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
export type Report = z.output<typeof Report>;

/** Reports `r` with their players. */
const REPORTS = sql`
  select r.id, r.channel_id as "channelId", r.seq, ${personOf(sql`r.reporter_id`, "a")} as reporter,
    ${personOf(sql`r.sender_id`, "b")} as sender, r.reason, r.note, r.status, r.action, r.assignee,
    r.created_at as "createdAt", r.resolved_at as "resolvedAt", r.resolved_by as "resolvedBy"
  from chat_reports r
  left join players a on a.project_id = r.project_id and a.id = r.reporter_id
  left join players b on b.project_id = r.project_id and b.id = r.sender_id`;

/** Reads the reports of a condition, which may have an order after it. */
const readReports = async ({ db }: Work, where: RawBuilder<unknown>): Promise<Report[]> => {
  const { rows } = await sql<RowOf<Report>>`${REPORTS} where ${where}`.execute(db);
  return rows.map((row) => shownRow(row));
};

/** @param lock what follows the condition: how the row is locked @throws DomainError NOT_FOUND */
export const readReport = async (
  work: Work,
  projectId: string,
  id: string,
  lock = sql``,
): Promise<Report> => {
  if (!isId(id)) throw notFound("report");
  const [report] = await readReports(work, sql`r.project_id = ${projectId} and r.id = ${id} ${lock}`);
  if (!report) throw notFound("report");
  return report;
};

/**
 * Number of distinct players whose reports within `HOLDING_MS` hold a message until a moderator has seen it.
 */
const HOLDING_REPORTS = 5;
const HOLDING_MS = 600_000;
/** Maximum characters of a report's note. */
export const REPORT_NOTE_MAX = 1_000;
/** Rate limit of one player's reports. */
export const REPORTS_RATE: Bucket = { name: "chat-reports", points: 20, seconds: 3_600 };

/** Counts a report against its player's limit, before its transaction. @throws RateLimited REPORT_RATE */
export const admitReport = async (
  parts: CountingParts,
  projectId: string,
  playerId: string,
): Promise<void> => {
  const message = `A player reports at most ${REPORTS_RATE.points} messages in an hour`;
  await countUse(parts, { bucket: REPORTS_RATE, key: `${projectId}:${playerId}` }, "REPORT_RATE", message);
};

type NewReport = {
  seq: number;
  /** The reporter: a UUID, or `ext:` and the externalUserId. */
  playerId: string;
  reason: ReportReason;
  note?: string | undefined;
};

const checkReportable = (row: MessageRow, reporterId: string): void => {
  if (row.deleted_at !== null || isHidden(row)) throw notFound("message");
  if (row.sender_id === null) throw conflict("INVALID_STATE", "messages of the server cannot be reported");
  if (row.sender_id === reporterId) throw conflict("INVALID_STATE", "players cannot report themselves");
};

/**
 * Reports a message by a player who can read it, once. The fifth player in 10 minutes makes it HELD, in the
 * same commit. Emits `chat.message_reported`.
 * @throws DomainError NOT_FOUND, FORBIDDEN PLAYER_BANNED, CONFLICT ALREADY_REPORTED, INVALID_STATE
 */
export const reportMessage = async (
  work: Work,
  ref: ChannelRef,
  { seq, playerId, reason, note }: NewReport,
): Promise<Report> => {
  const { projectId, channelId } = ref;
  const reporter = await getPlayer(work, projectId, playerId);
  const { channel, viewer } = await admit(work, ref, { kind: "PLAYER", playerId: reporter.id });
  // The lock serializes reporters: each sees the reports committed before its own.
  const row = await lockMessage(work, channel, viewer, seq);
  checkReportable(row, reporter.id);
  const id = newId();
  const { rows } = await sql`
    insert into chat_reports
      (project_id, id, channel_id, seq, reporter_id, sender_id, reason, note, status, created_at)
    values (${projectId}, ${id}, ${channelId}, ${seq}::bigint, ${reporter.id}, ${row.sender_id}, ${reason},
      ${note ?? null}, 'OPEN', ${work.now.toISOString()}::timestamptz)
    on conflict do nothing returning 1`.execute(work.db);
  if (rows.length === 0) throw conflict("ALREADY_REPORTED", "the player has already reported this message");
  const counted = await countReports(work, channel, seq);
  const { id: reporterId, externalUserId } = reporter;
  const who = { playerId: reporterId, externalUserId };
  const data = { reportId: id, channelId, seq, reporter: who, reason, reports: counted.all };
  work.emit(projectId, "chat.message_reported", data, { playerId: reporterId });
  if (counted.recent >= HOLDING_REPORTS) await holdMessage(work, channel, row);
  return readReport(work, projectId, id);
};

type Counted = { all: number; recent: number };

/** Counts all reports of a message, and the recent ones that are not closed: one per player. */
const countReports = async ({ db, now }: Work, channel: Channel, seq: number): Promise<Counted> => {
  const since = new Date(now.getTime() - HOLDING_MS).toISOString();
  const { rows } = await sql<Counted>`
    select count(*) as all, count(*) filter (
      where created_at > ${since}::timestamptz and status in ('OPEN', 'IN_REVIEW')) as recent
    from chat_reports where ${ofMessage(channel, seq)} and reporter_id is not null`.execute(db);
  return rows[0]!;
};

/** Number of messages shown before, and after, the reported one. */
const NEIGHBOURS = 5;
/** Number of a sender's latest sanctions and reports shown with a report. */
const HISTORY_SHOWN = 20;

/** Orders of the list. */
export const REPORT_ORDERS = { by: { createdAt: sql`r.id` }, usual: "asc" } as const;

type ReportQuery = PageQuery &
  Ordered<SortOf<typeof REPORT_ORDERS>> & {
    status?: ReportStatus | undefined;
    channelId?: string | undefined;
    /** The author: a UUID, or `ext:` and the externalUserId. */
    senderId?: string | undefined;
  };

/** Lists reports, oldest first: a queue. @throws DomainError NOT_FOUND for an unknown player */
export const listReports = async (
  work: Work,
  projectId: string,
  query: ReportQuery,
): Promise<Total & { reports: Report[] }> => {
  const { status, channelId, senderId } = query;
  const parts = [
    sql`r.project_id = ${projectId}`,
    await isPlayer(work, projectId, sql`r.sender_id`, senderId),
  ];
  if (status !== undefined) parts.push(sql`r.status = ${status}`);
  if (channelId !== undefined) parts.push(sql`r.channel_id = ${channelId}::uuid`);
  const where = sql.join(parts, sql` and `);
  const reports = await readReports(
    work,
    sql`${where} order by ${orderBy(REPORT_ORDERS, query, sql`r.id`)}
      limit ${query.limit} offset ${offsetOf(query)}`,
  );
  return { reports, ...(await countRows(work, sql`chat_reports r where ${where}`)) };
};

/** A message as moderators read it: with its original text, whatever happened to it. */
export const ReviewedMessage = z
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
export type ReviewedMessage = z.output<typeof ReviewedMessage>;

/** A report with the information that a moderator needs. */
export const ReviewedReport = z
  .object({
    report: Report,
    message: ReviewedMessage.nullable().meta({ description: "null once retention has deleted it" }),
    neighbours: z.array(ReviewedMessage).meta({ description: "Up to five before and five after, in order" }),
    history: z
      .object({
        sanctions: z.array(Sanction),
        sanctionCount: z.int(),
        reports: z.array(Report),
        reportCount: z.int(),
      })
      .meta({ description: "Of the sender: the newest 20 of each, and how many there are" }),
  })
  .meta({ id: "ChatReportReview" });
export type ReviewedReport = z.output<typeof ReviewedReport>;

type MessageRef = { projectId: string; channelId: string; seq: number };

const readAround = async ({ db }: Work, place: MessageRef): Promise<ReviewedMessage[]> => {
  const { projectId, channelId, seq } = place;
  const of = sql`project_id = ${projectId} and channel_id = ${channelId}`;
  const { rows } = await sql<RowOf<ReviewedMessage>>`
    select m.id, m.seq, ${personOf(sql`m.sender_id`, "p")} as sender, m.content, m.original, m.moderation,
      to_jsonb(m.flags) as flags, m.is_shadowed as "isShadowed", m.edited_at as "editedAt",
      m.deleted_at as "deletedAt", m.created_at as "createdAt"
    from (
      (select * from chat_messages where ${of} and seq <= ${seq}::bigint
        order by seq desc limit ${NEIGHBOURS + 1})
      union all
      (select * from chat_messages where ${of} and seq > ${seq}::bigint
        order by seq limit ${NEIGHBOURS})) m
    left join players p on p.project_id = m.project_id and p.id = m.sender_id
    order by m.seq`.execute(db);
  return rows.map((row) => shownRow(row));
};

const historyOf = async (
  work: Work,
  projectId: string,
  sender: Report["sender"],
): Promise<ReviewedReport["history"]> => {
  if (sender === null) return { sanctions: [], sanctionCount: 0, reports: [], reportCount: 0 };
  const query = { playerId: sender.playerId, page: 1, limit: HISTORY_SHOWN };
  const { sanctions, total: sanctionCount } = await listSanctions(work, projectId, query);
  const ofSender = sql`r.project_id = ${projectId} and r.sender_id = ${sender.playerId}`;
  const reports = await readReports(work, sql`${ofSender} order by r.id desc limit ${HISTORY_SHOWN}`);
  const { total: reportCount } = await countRows(work, sql`chat_reports r where ${ofSender}`);
  return { sanctions, sanctionCount, reports, reportCount };
};

/** In a private channel, a review counts as reading it. */
const auditReview = async (work: Work, projectId: string, report: Report): Promise<void> => {
  const { rows } = await sql<{ id: string; kind: ChannelKind }>`
    select id, kind from chat_channels
    where project_id = ${projectId} and id = ${report.channelId}`.execute(work.db);
  const [channel] = rows;
  if (!channel) return;
  const actor = { kind: "SERVER", isModerator: true } as const;
  const data = { what: "report", reportId: report.id, seq: report.seq } as const;
  await auditPrivateRead(work, { projectId, ...channel }, { actor, ...data });
};

/**
 * Returns a report, its message with ten neighbours, and the sender's history. @throws DomainError NOT_FOUND
 */
export const reviewReport = async (work: Work, projectId: string, id: string): Promise<ReviewedReport> => {
  const report = await readReport(work, projectId, id);
  const { channelId, seq } = report;
  const around =
    channelId === null || seq === null ? [] : await readAround(work, { projectId, channelId, seq });
  if (around.length > 0) await auditReview(work, projectId, report);
  return {
    report,
    message: around.find((message) => message.seq === seq) ?? null,
    neighbours: around.filter((message) => message.seq !== seq),
    history: await historyOf(work, projectId, report.sender),
  };
};
