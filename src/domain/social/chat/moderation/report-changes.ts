import { sql } from "kysely";
import { conflict, invalid, notFound } from "../../../kernel/errors.ts";
import { isId } from "../../../kernel/ids.ts";
import { sendMessage } from "../../../evaluation/inbox/send.ts";
import { changePlayers } from "../../../progression/change.ts";
import type { Work } from "../../../kernel/work.ts";
import { removeReported } from "./moderate-message.ts";
import { actorName, auditModerator } from "./moderator.ts";
import { readReport, type Report, type ReportAction, type ReportStatus } from "./report.ts";
import { addSanction } from "./sanction-changes.ts";

/** Allowed transitions of a report's status; RESOLVED and DISMISSED are final. */
const NEXT: Readonly<Record<ReportStatus, readonly ReportStatus[]>> = {
  OPEN: ["IN_REVIEW"],
  IN_REVIEW: ["RESOLVED", "DISMISSED"],
  RESOLVED: [],
  DISMISSED: [],
};

/** Type of inbox messages about warnings. */
const INBOX_TYPE = "chat-warning";

export type ReportPatch = {
  status?: ReportStatus | undefined;
  /** Required for RESOLVED, and only allowed there. */
  action?: ReportAction | undefined;
  /** The moderator in charge; default for IN_REVIEW: the caller. */
  assignee?: string | undefined;
  /** For MUTE and BAN; absent: permanent. */
  durationSeconds?: number | undefined;
  /** Shown to the player for WARN, MUTE and BAN; default: the reason of the report. */
  reason?: string | undefined;
  /** For MUTE and BAN: only in the channel of the message. */
  channelOnly?: boolean | undefined;
};

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
  if (!isId(id)) throw notFound("report");
  await sql`
    select 1 from chat_reports where project_id = ${projectId} and id = ${id} for update`.execute(work.db);
  const before = await readReport(work, projectId, id);
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
  const sent = await changePlayers(work, projectId, { playerIds: [playerId] }, (turn) =>
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
