import { sql } from "kysely";
import { DomainError } from "../../../kernel/errors.ts";
import { newId } from "../../../kernel/ids.ts";
import type { Bucket, Limiter } from "../../../accounts/rate-limits/limiter.ts";
import type { Transact, Work } from "../../../kernel/work.ts";
import { addSanction } from "./sanction-changes.ts";

/** Number of blocked messages of one player within the window; the last of them mutes the player. */
export const BLOCKED: Bucket = { name: "chat-blocked", points: 3, seconds: 600 };
/** Duration of an automatic mute. */
export const AUTO_MUTE_SECONDS = 600;
/** Number of automatic mutes in a week that create a report for review. */
export const AUTO_MUTES_REVIEWED = 3;
const WEEK_MS = 7 * 86_400_000;

/** Refusals because of a message's content, unlike a 429 or a sanction. */
const BLOCKING: ReadonlySet<string> = new Set(["MESSAGE_BLOCKED", "LINK_NOT_ALLOWED"]);

export const isBlocked = (error: unknown): boolean =>
  error instanceof DomainError &&
  error.code === "VALIDATION_ERROR" &&
  error.reason !== undefined &&
  BLOCKING.has(error.reason);

/** The parts of App that are needed. */
export type EscalationParts = { limiter: Limiter; transact: Transact };
export type BlockedSender = { projectId: string; channelId: string; playerId: string };

/**
 * Counts a player's refused message, if `error` shows that its content was the reason, and mutes the player
 * after the third in 10 minutes. Uses the limiter and a transaction of its own: must be called outside of
 * any, after that of the refused send.
 */
export const recordBlocked = async (
  { limiter, transact }: EscalationParts,
  sender: BlockedSender,
  error: unknown,
): Promise<void> => {
  if (!isBlocked(error)) return;
  const { used } = await limiter.consume(BLOCKED, `${sender.projectId}:${sender.playerId}`);
  if (used >= BLOCKED.points) await transact((work) => muteBlocked(work, sender));
};

type Row = { recent: string | number; week: string | number };

/**
 * Mutes a player for 10 minutes in all channels, unless that was done in the last 10 minutes; the third time
 * in a week creates a report for review.
 */
export const muteBlocked = async (work: Work, sender: BlockedSender): Promise<void> => {
  const { projectId, playerId } = sender;
  // Serialized, so that only one of two concurrent calls mutes.
  await sql`
    select 1 from players where project_id = ${projectId} and id = ${playerId}
    for no key update`.execute(work.db);
  const nowMs = work.now.getTime();
  const { rows } = await sql<Row>`
    select count(*) as week, count(*) filter (where created_at >
      ${new Date(nowMs - AUTO_MUTE_SECONDS * 1_000).toISOString()}::timestamptz) as recent
    from chat_sanctions
    where project_id = ${projectId} and player_id = ${playerId} and is_automatic
      and created_at > ${new Date(nowMs - WEEK_MS).toISOString()}::timestamptz`.execute(work.db);
  if (Number(rows[0]!.recent) > 0) return;
  await addSanction(work, projectId, {
    playerId,
    kind: "MUTE",
    reason: `${BLOCKED.points} messages were blocked in ${BLOCKED.seconds / 60} minutes`,
    durationSeconds: AUTO_MUTE_SECONDS,
    isAutomatic: true,
  });
  if (Number(rows[0]!.week) + 1 >= AUTO_MUTES_REVIEWED) await reportForReview(work, sender);
};

/** One report at a time: while it is open, further mutes appear in the sender's history. */
const reportForReview = async ({ db, now }: Work, sender: BlockedSender): Promise<void> => {
  const { projectId, channelId, playerId } = sender;
  await sql`
    insert into chat_reports
      (project_id, id, channel_id, seq, reporter_id, sender_id, reason, note, status, created_at)
    select ${projectId}::uuid, ${newId()}::uuid, ${channelId}::uuid, null, null, ${playerId}::uuid, 'OTHER',
      ${`${AUTO_MUTES_REVIEWED} automatic mutes in 7 days`}, 'OPEN', ${now.toISOString()}::timestamptz
    where not exists (select 1 from chat_reports
      where project_id = ${projectId} and sender_id = ${playerId} and reporter_id is null
        and status in ('OPEN', 'IN_REVIEW'))`.execute(db);
};
