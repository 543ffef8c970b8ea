import { sql } from "kysely";
import type { PlayerRef } from "../../../kernel/events/events.ts";
import { notFound } from "../../../kernel/errors.ts";
import { isId } from "../../../kernel/ids.ts";
import type { Work } from "../../../kernel/work.ts";
import type { ReportReason } from "../../../kernel/events/chat-views.ts";
import { timeOf, timeOrNull } from "./show-sanction.ts";

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

export type ReportRow = {
  id: string;
  channel_id: string | null;
  seq: string | number | null;
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
  created_at: Date | string;
  resolved_at: Date | string | null;
  resolved_by: string | null;
};

/** The rows that `showReport` takes: reports `r` with their players. */
export const REPORTS = sql`
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

export const showReport = (row: ReportRow): Report => ({
  id: row.id,
  channelId: row.channel_id,
  seq: row.seq === null ? null : Number(row.seq),
  reporter: personOf(row.reporter_id, row.reporter_name, row.reporter_shown),
  sender: personOf(row.sender_id, row.sender_name, row.sender_shown),
  reason: row.reason,
  note: row.note,
  status: row.status,
  action: row.action,
  assignee: row.assignee,
  createdAt: timeOf(row.created_at),
  resolvedAt: timeOrNull(row.resolved_at),
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
