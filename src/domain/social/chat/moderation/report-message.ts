import { sql } from "kysely";
import { conflict, notFound } from "../../../kernel/errors.ts";
import { newId } from "../../../kernel/ids.ts";
import { getPlayer } from "../../../progression/players/players.ts";
import { type Bucket, type Limiter, RateLimited } from "../../../accounts/rate-limits/limiter.ts";
import type { Work } from "../../../kernel/work.ts";
import { admit } from "../access.ts";
import { lockMessage } from "../change-message.ts";
import type { ChannelRef } from "../channel-row.ts";
import { isHidden, type MessageRow } from "../message-view.ts";
import type { ReportReason } from "../../../kernel/events/chat-views.ts";
import { holdMessage } from "./moderate-message.ts";
import { readReport, type Report } from "./report.ts";

/**
 * Number of distinct players whose reports within `HOLDING_MS` hold a message until a moderator has seen it.
 */
export const HOLDING_REPORTS = 5;
const HOLDING_MS = 600_000;
/** Maximum characters of a report's note. */
export const REPORT_NOTE_MAX = 1_000;
/** Rate limit of one player's reports. */
export const REPORTS_RATE: Bucket = { name: "chat-reports", points: 20, seconds: 3_600 };

/** Counts a report against its player's limit, before its transaction. @throws RateLimited REPORT_RATE */
export const admitReport = async (
  { limiter, clock }: { limiter: Limiter; clock: () => Date },
  projectId: string,
  playerId: string,
): Promise<void> => {
  const state = await limiter.consume(REPORTS_RATE, `${projectId}:${playerId}`);
  if (state.isAllowed) return;
  const message = `A player reports at most ${REPORTS_RATE.points} messages in an hour`;
  throw new RateLimited("REPORT_RATE", message, state, clock().getTime());
};

export type NewReport = {
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

type Counted = { all: string | number; recent: string | number };

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
  return { all: Number(rows[0]!.all), recent: Number(rows[0]!.recent) };
};
