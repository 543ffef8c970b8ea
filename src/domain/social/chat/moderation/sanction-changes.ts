import { z } from "zod";
import { sql } from "kysely";
import type { Bucket, Limiter } from "../../../accounts/rate-limits/limiter.ts";
import { sendMessage } from "../../../evaluation/inbox/send.ts";
import { conflict, DomainError, invalid, notFound } from "../../../kernel/errors.ts";
import type { SanctionKind } from "../../../kernel/events/social-views.ts";
import { isId, newId } from "../../../kernel/ids.ts";
import type { Transact, Work } from "../../../kernel/work.ts";
import { changePlayers } from "../../../progression/change.ts";
import { getPlayer } from "../../../progression/players/players.ts";
import { type Channel, isPrivate } from "../channel-row.ts";
import { isInForce } from "./moderate.ts";
import {
  readReport,
  type Report,
  REPORT_ACTIONS,
  type ReportAction,
  type ReportStatus,
} from "./report-queue.ts";
import {
  actorName,
  type AppealStatus,
  auditModerator,
  getSanction,
  removeReported,
  type Sanction,
} from "./show-sanction.ts";

/** Maximum number of a player's concurrent sanctions: each send reads them. */
export const SANCTIONS_MAX = 20;
/** Ten years, in seconds; anything longer must be permanent. */
const SANCTION_SECONDS_MAX = 10 * 366 * 86_400;
const SANCTION_REASON_MAX = 500;
/** How long a sanction holds, in seconds. */
export const Duration = z.int().min(1).max(SANCTION_SECONDS_MAX).optional();
export const Reason = z.string().min(1).max(SANCTION_REASON_MAX);
/** Maximum characters of an appeal. */
export const APPEAL_MAX = 1_000;

type NewSanction = {
  /** A UUID, or `ext:` and the externalUserId. */
  playerId: string;
  kind: SanctionKind;
  /** Absent: in all channels of the project. */
  channelId?: string | undefined;
  reason: string;
  /** Absent: permanent. */
  durationSeconds?: number | undefined;
  isAutomatic?: true;
};

/** Whether the channel of a sanction is private. @throws DomainError VALIDATION_ERROR for an unknown one */
const isChannelPrivate = async ({ db }: Work, projectId: string, channelId: string): Promise<boolean> => {
  if (!isId(channelId)) throw invalid("channelId", "there is no such channel");
  const { rows } = await sql<Pick<Channel, "kind">>`
    select kind from chat_channels where project_id = ${projectId} and id = ${channelId}`.execute(db);
  if (!rows[0]) throw invalid("channelId", "there is no such channel");
  return isPrivate(rows[0]);
};

/** Makes calls that sanction a player take turns until commit. */
const lockPlayer = async ({ db }: Work, projectId: string, playerId: string): Promise<void> => {
  await sql`
    select 1 from players where project_id = ${projectId} and id = ${playerId}
    for no key update`.execute(db);
};

/** Locks the player, so that two concurrent calls cannot exceed the limit together. */
const checkRoom = async (work: Work, projectId: string, playerId: string): Promise<void> => {
  await lockPlayer(work, projectId, playerId);
  const { rows } = await sql<{ held: number }>`
    select count(*) as held from chat_sanctions s
    where project_id = ${projectId} and player_id = ${playerId} and ${isInForce(work.now)}`.execute(work.db);
  if (rows[0]!.held >= SANCTIONS_MAX)
    throw conflict("LIMIT_REACHED", `the player already has ${SANCTIONS_MAX} sanctions in force`);
};

/**
 * Mutes, bans or shadow-mutes a player from now on. Emits `chat.player_sanctioned`; the player's sockets are
 * notified of a MUTE or BAN.
 * @throws DomainError NOT_FOUND for an unknown player, VALIDATION_ERROR for an unknown channel, CONFLICT
 * LIMIT_REACHED
 */
export const addSanction = async (
  work: Work,
  projectId: string,
  { playerId: ref, kind, channelId, reason, durationSeconds, isAutomatic }: NewSanction,
): Promise<Sanction> => {
  const player = await getPlayer(work, projectId, ref);
  const isInPrivate = channelId !== undefined && (await isChannelPrivate(work, projectId, channelId));
  if (isAutomatic === undefined) await checkRoom(work, projectId, player.id);
  const id = newId();
  const expiresAt =
    durationSeconds === undefined ? null : new Date(work.now.getTime() + durationSeconds * 1_000);
  const event = { id, player, kind, channelId: channelId ?? null, isInPrivate, reason, expiresAt };
  await insert(work, projectId, event, isAutomatic ?? false);
  emitSanction(work, projectId, event);
  const data = { kind, playerId: player.id, channelId: event.channelId };
  if (isAutomatic === undefined)
    await auditModerator(work, { action: "chat_sanction.created", projectId, id, data });
  return getSanction(work, projectId, id);
};

const insert = async (
  work: Work,
  projectId: string,
  event: SanctionEvent,
  isAutomatic: boolean,
): Promise<void> => {
  const { id, player, kind, channelId, reason, expiresAt } = event;
  await sql`
    insert into chat_sanctions
      (project_id, id, player_id, channel_id, kind, reason, is_automatic, expires_at, created_by, created_at)
    values (${projectId}, ${id}, ${player.id}, ${channelId}::uuid, ${kind}, ${reason}, ${isAutomatic},
      ${expiresAt?.toISOString() ?? null}::timestamptz, ${isAutomatic ? "system" : actorName(work)},
      ${work.now.toISOString()}::timestamptz)`.execute(work.db);
};

type SanctionEvent = {
  id: string;
  player: { id: string; externalUserId: string };
  kind: SanctionKind;
  channelId: string | null;
  /** Whether the channel is private. */
  isInPrivate: boolean;
  reason: string;
  expiresAt: Date | null;
};

/**
 * Notifies integrators of a sanction, for a private channel without the channel and the moderator's reason;
 * the player's own sockets get both.
 */
const emitSanction = (work: Work, projectId: string, event: SanctionEvent): void => {
  const { id, player, kind, channelId, isInPrivate, reason } = event;
  const { id: playerId, externalUserId } = player;
  const expiresAt = event.expiresAt?.toISOString() ?? null;
  const where = isInPrivate ? { channelId: null, reason: null } : { channelId, reason };
  const data = { playerId, externalUserId, sanctionId: id, kind, isInPrivateChannel: isInPrivate, expiresAt };
  work.emit(projectId, "chat.player_sanctioned", { ...data, ...where }, { playerId });
  // A player who knows of a shadow mute would continue under another name.
  if (kind === "SHADOW_MUTE") return;
  const notice = { name: "chat.sanction", data: { kind, channelId, expiresAt, reason } } as const;
  work.emit(projectId, "player.notice", { playerId, notice }, { playerId });
};

const lockSanction = (work: Work, projectId: string, id: string): Promise<Sanction> =>
  getSanction(work, projectId, id, sql`for update of s`);

/** @throws DomainError CONFLICT INVALID_STATE */
const checkInForce = ({ isActive }: Sanction): void => {
  if (!isActive) throw conflict("INVALID_STATE", "the sanction is no longer in force");
};

/** Revokes a sanction. @throws DomainError NOT_FOUND; CONFLICT INVALID_STATE when it is no longer in force */
export const revokeSanction = async (work: Work, projectId: string, id: string): Promise<Sanction> => {
  checkInForce(await lockSanction(work, projectId, id));
  await endSanction(work, projectId, id);
  await auditModerator(work, { action: "chat_sanction.revoked", projectId, id });
  return getSanction(work, projectId, id);
};

const endSanction = async (work: Work, projectId: string, id: string): Promise<void> => {
  await sql`
    update chat_sanctions
    set revoked_at = ${work.now.toISOString()}::timestamptz, revoked_by = ${actorName(work)}
    where project_id = ${projectId} and id = ${id} and revoked_at is null`.execute(work.db);
};

type Appeal = {
  /** The sanctioned player: a UUID, or `ext:` and the externalUserId. */
  playerId: string;
  text: string;
};

/**
 * Submits the player's appeal against a sanction, once. A shadow mute does not exist for its player.
 * @throws DomainError NOT_FOUND also for another's, CONFLICT INVALID_STATE, ALREADY_APPEALED
 */
export const appealSanction = async (
  work: Work,
  projectId: string,
  id: string,
  { playerId, text }: Appeal,
): Promise<Sanction> => {
  const player = await getPlayer(work, projectId, playerId);
  const sanction = await lockSanction(work, projectId, id);
  if (sanction.player.playerId !== player.id || sanction.kind === "SHADOW_MUTE") throw notFound("sanction");
  checkInForce(sanction);
  if (sanction.appeal) throw conflict("ALREADY_APPEALED", "a sanction can be appealed only once");
  await sql`
    update chat_sanctions set appeal = ${text}, appeal_status = 'OPEN',
      appealed_at = ${work.now.toISOString()}::timestamptz
    where project_id = ${projectId} and id = ${id}`.execute(work.db);
  return getSanction(work, projectId, id);
};

/**
 * Answers an appeal; accepting it revokes the sanction.
 * @throws DomainError NOT_FOUND, CONFLICT INVALID_STATE without an open appeal
 */
export const answerAppeal = async (
  work: Work,
  projectId: string,
  id: string,
  status: Exclude<AppealStatus, "OPEN">,
): Promise<Sanction> => {
  const { appeal } = await lockSanction(work, projectId, id);
  if (appeal?.status !== "OPEN") throw conflict("INVALID_STATE", "there is no open appeal");
  await sql`
    update chat_sanctions set appeal_status = ${status}
    where project_id = ${projectId} and id = ${id}`.execute(work.db);
  if (status === "ACCEPTED") await endSanction(work, projectId, id);
  const action = status === "ACCEPTED" ? "chat_sanction.appeal_accepted" : "chat_sanction.appeal_rejected";
  await auditModerator(work, { action, projectId, id });
  return getSanction(work, projectId, id);
};

/** Number of blocked messages of one player within the window; the last of them mutes the player. */
const BLOCKED: Bucket = { name: "chat-blocked", points: 3, seconds: 600 };
/** Duration of an automatic mute. */
const AUTO_MUTE_SECONDS = 600;
/** Number of automatic mutes in a week that create a report for review. */
const AUTO_MUTES_REVIEWED = 3;
const WEEK_MS = 7 * 86_400_000;

/** Refusals because of a message's content, unlike a 429 or a sanction. */
const BLOCKING: ReadonlySet<string> = new Set(["MESSAGE_BLOCKED", "LINK_NOT_ALLOWED"]);

export const isBlocked = (error: unknown): boolean =>
  error instanceof DomainError &&
  error.code === "VALIDATION_ERROR" &&
  error.reason !== undefined &&
  BLOCKING.has(error.reason);

/** The parts of App that are needed. */
type EscalationParts = { limiter: Limiter; transact: Transact };
type BlockedSender = { projectId: string; channelId: string; playerId: string };

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

type Row = { recent: number; week: number };

/**
 * Mutes a player for 10 minutes in all channels, unless that was done in the last 10 minutes; the third time
 * in a week creates a report for review.
 */
export const muteBlocked = async (work: Work, sender: BlockedSender): Promise<void> => {
  const { projectId, playerId } = sender;
  // Serialized, so that only one of two concurrent calls mutes.
  await lockPlayer(work, projectId, playerId);
  const nowMs = work.now.getTime();
  const { rows } = await sql<Row>`
    select count(*) as week, count(*) filter (where created_at >
      ${new Date(nowMs - AUTO_MUTE_SECONDS * 1_000).toISOString()}::timestamptz) as recent
    from chat_sanctions
    where project_id = ${projectId} and player_id = ${playerId} and is_automatic
      and created_at > ${new Date(nowMs - WEEK_MS).toISOString()}::timestamptz`.execute(work.db);
  if (rows[0]!.recent > 0) return;
  await addSanction(work, projectId, {
    playerId,
    kind: "MUTE",
    reason: `${BLOCKED.points} messages were blocked in ${BLOCKED.seconds / 60} minutes`,
    durationSeconds: AUTO_MUTE_SECONDS,
    isAutomatic: true,
  });
  if (rows[0]!.week + 1 >= AUTO_MUTES_REVIEWED) await reportForReview(work, sender);
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

/** Allowed transitions of a report's status; RESOLVED and DISMISSED are final. */
const NEXT: Readonly<Record<ReportStatus, readonly ReportStatus[]>> = {
  OPEN: ["IN_REVIEW"],
  IN_REVIEW: ["RESOLVED", "DISMISSED"],
  RESOLVED: [],
  DISMISSED: [],
};

/** Type of inbox messages about warnings. */
const INBOX_TYPE = "chat-warning";

const ASSIGNEE_MAX = 255;
export const ReportPatch = z
  .strictObject({
    status: z.enum(["IN_REVIEW", "RESOLVED", "DISMISSED"]).optional(),
    action: z.enum(REPORT_ACTIONS).optional().meta({ description: "With RESOLVED" }),
    assignee: z.string().min(1).max(ASSIGNEE_MAX).optional().meta({ description: "Default: the caller" }),
    durationSeconds: Duration.meta({ description: "Of MUTE and BAN; default: for good" }),
    reason: Reason.optional().meta({ description: "Shown to the sender for WARN, MUTE and BAN" }),
    channelOnly: z
      .boolean()
      .optional()
      .meta({ description: "MUTE and BAN: in the message's channel; default: in all" }),
  })
  .meta({ example: { status: "IN_REVIEW" } });
export type ReportPatch = z.output<typeof ReportPatch>;

const checkPatch = ({ status, action, durationSeconds }: ReportPatch): void => {
  if (status === "RESOLVED" && action === undefined) throw invalid("action", "is needed with RESOLVED");
  if (status !== "RESOLVED" && action !== undefined) throw invalid("action", "is only for RESOLVED");
  const isSanction = action === "MUTE" || action === "BAN";
  if (durationSeconds !== undefined && !isSanction)
    throw invalid("durationSeconds", "is only for MUTE and BAN");
};

const checkMove = (from: ReportStatus, { status }: ReportPatch): void => {
  if (status !== undefined && !NEXT[from].includes(status))
    throw conflict("INVALID_STATE", `a report that is ${from} cannot become ${status}`);
  if (status === undefined && NEXT[from].length === 0)
    throw conflict("INVALID_STATE", `a report that is ${from} cannot change any more`);
};

/**
 * Changes a report's status, one moderator at a time: OPEN, IN_REVIEW, then RESOLVED with an action or
 * DISMISSED. The action is performed in the same commit.
 * @throws DomainError NOT_FOUND, VALIDATION_ERROR, CONFLICT INVALID_STATE, LIMIT_REACHED
 */
export const patchReport = async (
  work: Work,
  projectId: string,
  id: string,
  patch: ReportPatch,
): Promise<Report> => {
  checkPatch(patch);
  const before = await readReport(work, projectId, id, sql`for update of r`);
  checkMove(before.status, patch);
  const { action } = patch;
  if (action !== undefined) await act(work, projectId, before, { ...patch, action });
  await write(work, projectId, before, patch);
  const status = patch.status ?? before.status;
  const data = { status, ...(action === undefined ? {} : { action }) };
  await auditModerator(work, { action: "chat_report.updated", projectId, id, data });
  return readReport(work, projectId, id);
};

const write = async (work: Work, projectId: string, before: Report, patch: ReportPatch): Promise<void> => {
  const { status = before.status, action = null } = patch;
  const isStarted = before.status === "OPEN" && status === "IN_REVIEW";
  const assignee = patch.assignee ?? (isStarted ? actorName(work) : before.assignee);
  const isClosed = NEXT[status].length === 0;
  const [at, by] = isClosed ? [work.now.toISOString(), actorName(work)] : [null, null];
  await sql`
    update chat_reports set status = ${status}, action = ${action}, assignee = ${assignee},
      resolved_at = ${at}::timestamptz, resolved_by = ${by}
    where project_id = ${projectId} and id = ${before.id}`.execute(work.db);
};

type Acting = ReportPatch & { action: ReportAction };

const act = async (work: Work, projectId: string, report: Report, acting: Acting): Promise<void> => {
  if (acting.action === "NONE") return;
  if (acting.action === "REMOVE") return remove(work, projectId, report);
  if (report.sender === null) throw conflict("INVALID_STATE", "the message has no sender any more");
  const { playerId } = report.sender;
  const reason = acting.reason ?? `A message was reported: ${report.reason}`;
  if (acting.action === "WARN") return warn(work, projectId, { playerId, reason, report });
  const { action: kind, durationSeconds, channelOnly } = acting;
  const channelId = channelOnly === true && report.channelId !== null ? report.channelId : undefined;
  await addSanction(work, projectId, { playerId, kind, reason, durationSeconds, channelId });
};

const remove = async (work: Work, projectId: string, { channelId, seq }: Report): Promise<void> => {
  if (channelId === null || seq === null)
    throw conflict("INVALID_STATE", "the report is about a player and has no message to remove");
  await removeReported(work, { projectId, id: channelId }, seq);
};

type Warning = { playerId: string; reason: string; report: Report };

const warn = async (work: Work, projectId: string, { playerId, reason, report }: Warning): Promise<void> => {
  const { id: reportId, channelId, seq } = report;
  const sent = await changePlayers(work, projectId, [playerId], (turn) =>
    sendMessage(turn, {
      type: INBOX_TYPE,
      title: "A warning of the moderators",
      body: reason,
      data: { reportId, channelId, seq },
      rewardGrantId: null,
      expiresMs: null,
    }),
  );
  if (sent.length === 0) throw conflict("INVALID_STATE", "the sender is no player any more");
};
