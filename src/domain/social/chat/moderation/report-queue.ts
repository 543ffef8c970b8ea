import { sql } from "kysely";
import { countRows, type Total } from "../../../kernel/counting.ts";
import type { PlayerRef } from "../../../kernel/events/events.ts";
import { offsetOf, type PageQuery } from "../../../kernel/paging.ts";
import { orderBy, type Ordered, type SortOf } from "../../../kernel/sorting.ts";
import { getPlayer } from "../../../progression/players/players.ts";
import type { Work } from "../../../kernel/work.ts";
import { auditPrivateRead } from "../audit-chat.ts";
import type { ChannelKind, Moderation } from "../../../kernel/events/chat-views.ts";
import { readReport, type Report, type ReportRow, REPORTS, type ReportStatus, showReport } from "./report.ts";
import { listSanctions } from "./sanction-list.ts";
import { type Sanction, timeOf, timeOrNull } from "./show-sanction.ts";

/** Number of messages shown before, and after, the reported one. */
const NEIGHBOURS = 5;
/** Number of a sender's latest sanctions and reports shown with a report. */
const HISTORY_SHOWN = 20;

/** Orders of the list. */
export const REPORT_ORDERS = { by: { createdAt: sql`r.id` }, usual: "asc" } as const;

export type ReportQuery = PageQuery &
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
export type ReviewedMessage = {
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
export type ReviewedReport = {
  report: Report;
  /** Null once retention has deleted it, and for a report about a player. */
  message: ReviewedMessage | null;
  /** Up to five before and five after, in order. */
  neighbours: ReviewedMessage[];
  /** The sender's history: newest first, with total numbers. */
  history: { sanctions: Sanction[]; sanctionCount: number; reports: Report[]; reportCount: number };
};

type MessageRow = {
  id: string;
  seq: string | number;
  sender_id: string | null;
  external_user_id: string | null;
  display_name: string | null;
  content: string;
  original: string | null;
  moderation: Moderation;
  flags: string[];
  is_shadowed: boolean;
  edited_at: Date | string | null;
  deleted_at: Date | string | null;
  created_at: Date | string;
};

const show = (row: MessageRow): ReviewedMessage => ({
  id: row.id,
  seq: Number(row.seq),
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
  editedAt: timeOrNull(row.edited_at),
  deletedAt: timeOrNull(row.deleted_at),
  createdAt: timeOf(row.created_at),
});

type MessageRef = { projectId: string; channelId: string; seq: number };

const readAround = async ({ db }: Work, place: MessageRef): Promise<ReviewedMessage[]> => {
  const { projectId, channelId, seq } = place;
  const of = sql`project_id = ${projectId} and channel_id = ${channelId}`;
  const { rows } = await sql<MessageRow>`
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
