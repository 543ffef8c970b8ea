import { sql } from "kysely";
import { type Bucket, type CountingParts, countUse } from "../../../accounts/rate-limits/limiter.ts";
import { conflict, notFound } from "../../../kernel/errors.ts";
import type { ChannelKind, Moderation, ReportReason } from "../../../kernel/events/social-views.ts";
import type { PlayerRef } from "../../../kernel/events/events.ts";
import { isId, newId } from "../../../kernel/ids.ts";
import { isoOf } from "../../../kernel/iso-time.ts";
import { offsetOf, orderBy, type Ordered, type PageQuery, type SortOf } from "../../../kernel/paging.ts";
import { countRows, type Total, type Work } from "../../../kernel/work.ts";
import { getPlayer } from "../../../progression/players/players.ts";
import { admit, type ChannelRef } from "../channel-row.ts";
import { auditPrivateRead, isHidden, lockMessage, type MessageRow } from "../message-view.ts";
import { holdMessage, listSanctions, type Sanction } from "./show-sanction.ts";

export const REPORT_STATUSES = ["OPEN", "IN_REVIEW", "RESOLVED", "DISMISSED"] as const;
export type ReportStatus = (typeof REPORT_STATUSES)[number];
export const REPORT_ACTIONS = ["NONE", "REMOVE", "WARN", "MUTE", "BAN"] as const;
export type ReportAction = (typeof REPORT_ACTIONS)[number];

type Person = PlayerRef & { displayName: string | null };

/**
 * A report as moderators see it; without `seq` it is about a player, and was created by the service itself.
 */
export type Report = {
  id: string;
  channelId: string | null;
  seq: number | null;
  reporter: Person | null;
  sender: Person | null;
  reason: ReportReason;
  note: string | null;
  status: ReportStatus;
  action: ReportAction | null;
  assignee: string | null;
  createdAt: string;
  resolvedAt: string | null;
  resolvedBy: string | null;
};

type ReportRow = {
  id: string;
  channel_id: string | null;
  seq: number | null;
  reporter_id: string | null;
  reporter_name: string | null;
  reporter_shown: string | null;
  sender_id: string | null;
  sender_name: string | null;
  sender_shown: string | null;
  reason: ReportReason;
  note: string | null;
  status: ReportStatus;
  action: ReportAction | null;
  assignee: string | null;
  created_at: Date;
  resolved_at: Date | null;
  resolved_by: string | null;
};

/** The rows that `showReport` takes: reports `r` with their players. */
const REPORTS = sql`
  select r.*, a.external_user_id as reporter_name, a.display_name as reporter_shown,
    b.external_user_id as sender_name, b.display_name as sender_shown
  from chat_reports r
  left join players a on a.project_id = r.project_id and a.id = r.reporter_id
  left join players b on b.project_id = r.project_id and b.id = r.sender_id`;

const personOf = (
  playerId: string | null,
  externalUserId: string | null,
  displayName: string | null,
): Person | null =>
  playerId === null ? null : { playerId, externalUserId: externalUserId ?? "", displayName };

const showReport = (row: ReportRow): Report => ({
  id: row.id,
  channelId: row.channel_id,
  seq: row.seq,
  reporter: personOf(row.reporter_id, row.reporter_name, row.reporter_shown),
  sender: personOf(row.sender_id, row.sender_name, row.sender_shown),
  reason: row.reason,
  note: row.note,
  status: row.status,
  action: row.action,
  assignee: row.assignee,
  createdAt: row.created_at.toISOString(),
  resolvedAt: isoOf(row.resolved_at),
  resolvedBy: row.resolved_by,
});

/** @throws DomainError NOT_FOUND */
export const readReport = async ({ db }: Work, projectId: string, id: string): Promise<Report> => {
  if (!isId(id)) throw notFound("report");
  const { rows } = await sql<ReportRow>`
    ${REPORTS} where r.project_id = ${projectId} and r.id = ${id}`.execute(db);
  if (!rows[0]) throw notFound("report");
  return showReport(rows[0]);
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
  const counted = await countReports(work, ref, seq);
  const { id: reporterId, externalUserId } = reporter;
  const who = { playerId: reporterId, externalUserId };
  const data = { reportId: id, channelId, seq, reporter: who, reason, reports: counted.all };
  work.emit(projectId, "chat.message_reported", data, { playerId: reporterId });
  if (counted.recent >= HOLDING_REPORTS) await holdMessage(work, channel, row);
  return readReport(work, projectId, id);
};

type Counted = { all: number; recent: number };

/** Counts all reports of a message, and the recent ones that are not closed: one per player. */
const countReports = async (
  { db, now }: Work,
  { projectId, channelId }: ChannelRef,
  seq: number,
): Promise<{ all: number; recent: number }> => {
  const since = new Date(now.getTime() - HOLDING_MS).toISOString();
  const { rows } = await sql<Counted>`
    select count(*) as all, count(*) filter (
      where created_at > ${since}::timestamptz and status in ('OPEN', 'IN_REVIEW')) as recent
    from chat_reports
    where project_id = ${projectId} and channel_id = ${channelId} and seq = ${seq}::bigint
      and reporter_id is not null`.execute(db);
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
  const parts = [sql`r.project_id = ${projectId}`];
  if (status !== undefined) parts.push(sql`r.status = ${status}`);
  if (channelId !== undefined) parts.push(sql`r.channel_id = ${channelId}::uuid`);
  if (senderId !== undefined)
    parts.push(sql`r.sender_id = ${(await getPlayer(work, projectId, senderId)).id}`);
  const where = sql.join(parts, sql` and `);
  const { rows } = await sql<ReportRow>`
    ${REPORTS} where ${where} order by ${orderBy(REPORT_ORDERS, query, sql`r.id`)}
    limit ${query.limit} offset ${offsetOf(query)}`.execute(work.db);
  return {
    reports: rows.map(showReport),
    ...(await countRows(work, sql`chat_reports r where ${where}`)),
  };
};

/** A message as moderators read it: with its original text, whatever happened to it. */
type ReviewedMessage = {
  id: string;
  seq: number;
  sender: (PlayerRef & { displayName: string | null }) | null;
  content: string;
  original: string | null;
  moderation: Moderation;
  flags: string[];
  isShadowed: boolean;
  editedAt: string | null;
  deletedAt: string | null;
  createdAt: string;
};

/** A report with the information that a moderator needs. */
type ReviewedReport = {
  report: Report;
  /** Null once retention has deleted it, and for a report about a player. */
  message: ReviewedMessage | null;
  /** Up to five before and five after, in order. */
  neighbours: ReviewedMessage[];
  /** The sender's history: newest first, with total numbers. */
  history: { sanctions: Sanction[]; sanctionCount: number; reports: Report[]; reportCount: number };
};

type ReportedMessageRow = {
  id: string;
  seq: number;
  sender_id: string | null;
  external_user_id: string | null;
  display_name: string | null;
  content: string;
  original: string | null;
  moderation: Moderation;
  flags: string[];
  is_shadowed: boolean;
  edited_at: Date | null;
  deleted_at: Date | null;
  created_at: Date;
};

const show = (row: ReportedMessageRow): ReviewedMessage => ({
  id: row.id,
  seq: row.seq,
  sender:
    row.sender_id === null
      ? null
      : {
          playerId: row.sender_id,
          externalUserId: row.external_user_id ?? "",
          displayName: row.display_name,
        },
  content: row.content,
  original: row.original,
  moderation: row.moderation,
  flags: row.flags,
  isShadowed: row.is_shadowed,
  editedAt: isoOf(row.edited_at),
  deletedAt: isoOf(row.deleted_at),
  createdAt: row.created_at.toISOString(),
});

type MessageRef = { projectId: string; channelId: string; seq: number };

const readAround = async ({ db }: Work, place: MessageRef): Promise<ReviewedMessage[]> => {
  const { projectId, channelId, seq } = place;
  const of = sql`project_id = ${projectId} and channel_id = ${channelId}`;
  const { rows } = await sql<ReportedMessageRow>`
    select m.id, m.seq, m.sender_id, p.external_user_id, p.display_name, m.content, m.original, m.moderation,
      to_jsonb(m.flags) as flags, m.is_shadowed, m.edited_at, m.deleted_at, m.created_at
    from (
      (select * from chat_messages where ${of} and seq <= ${seq}::bigint
        order by seq desc limit ${NEIGHBOURS + 1})
      union all
      (select * from chat_messages where ${of} and seq > ${seq}::bigint
        order by seq limit ${NEIGHBOURS})) m
    left join players p on p.project_id = m.project_id and p.id = m.sender_id
    order by m.seq`.execute(db);
  return rows.map(show);
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
  const { rows } = await sql<ReportRow>`
    ${REPORTS} where ${ofSender} order by r.id desc limit ${HISTORY_SHOWN}`.execute(work.db);
  const { total: reportCount } = await countRows(work, sql`chat_reports r where ${ofSender}`);
  return { sanctions, sanctionCount, reports: rows.map(showReport), reportCount };
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
