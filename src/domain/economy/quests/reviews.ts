import { sql } from "kysely";
import { countRows, type Total } from "../../kernel/counting.ts";
import { notFound } from "../../kernel/errors.ts";
import { isId } from "../../kernel/ids.ts";
import { offsetOf, type PageQuery } from "../../kernel/paging.ts";
import { orderBy, type Ordered, type SortOf } from "../../kernel/sorting.ts";
import type { Work } from "../../kernel/work.ts";
import { isPlayer } from "../../progression/players/players.ts";

/** WITHDRAWN: the quest was over before anybody decided; CONFIRMED: it counted without a review. */
export const SUBMISSION_STATUSES = ["PENDING", "APPROVED", "REJECTED", "WITHDRAWN", "CONFIRMED"] as const;
export type SubmissionStatus = (typeof SUBMISSION_STATUSES)[number];

/** What a player has submitted for a step. Times are ISO 8601. */
export type QuestSubmission = {
  id: string;
  questKey: string;
  playerQuestId: string;
  cycleKey: string;
  stepKey: string;
  playerId: string;
  externalUserId: string;
  displayName: string | null;
  evidenceType: "TEXT" | "URL" | null;
  evidence: string | null;
  status: SubmissionStatus;
  submittedAt: string;
  reviewedBy: string | null;
  reviewedAt: string | null;
  note: string | null;
};

type Row = Omit<QuestSubmission, "submittedAt" | "reviewedAt"> & {
  submittedAt: Date | string;
  closedAt: Date | string | null;
};

const show = ({ submittedAt, closedAt, ...row }: Row): QuestSubmission => {
  const isReviewed = row.reviewedBy !== null && closedAt !== null;
  return {
    ...row,
    submittedAt: new Date(submittedAt).toISOString(),
    reviewedAt: isReviewed ? new Date(closedAt).toISOString() : null,
  };
};

/** Orders of the list. */
export const SUBMISSION_ORDERS = { by: { submittedAt: sql`s.id` }, usual: "asc" } as const;

export type ListSubmissions = PageQuery &
  Ordered<SortOf<typeof SUBMISSION_ORDERS>> & {
    status?: SubmissionStatus | undefined;
    /** The UUID or the key. */
    questId?: string | undefined;
    stepKey?: string | undefined;
    /** `{playerId}` of a player. */
    playerId?: string | undefined;
  };

/** Lists what players have submitted, oldest first. @throws DomainError NOT_FOUND for an unknown player */
export const listSubmissions = async (
  work: Work,
  projectId: string,
  query: ListSubmissions,
): Promise<{ submissions: QuestSubmission[] } & Total> => {
  const { status, questId: quest, stepKey } = query;
  const ofQuest =
    quest === undefined
      ? sql`true`
      : sql`s.quest_key in (select key from definitions where project_id = ${projectId} and kind = 'quest'
          and (key = ${quest} or id::text = ${quest.toLowerCase()}))`;
  const ofStatus = status === undefined ? sql`true` : sql`s.status = ${status}`;
  const ofStep = stepKey === undefined ? sql`true` : sql`s.step_key = ${stepKey}`;
  const ofPlayer = await isPlayer(work, projectId, sql`s.player_id`, query.playerId);
  const where = sql`s.project_id = ${projectId} and ${ofStatus} and ${ofQuest} and ${ofStep} and ${ofPlayer}`;
  const found = await sql<Row>`
    select s.id, s.quest_key as "questKey", s.player_quest_id as "playerQuestId", s.cycle_key as "cycleKey",
      s.step_key as "stepKey", s.player_id as "playerId", p.external_user_id as "externalUserId",
      p.display_name as "displayName", s.evidence_type as "evidenceType", s.evidence, s.status,
      s.submitted_at as "submittedAt", s.reviewed_by as "reviewedBy", s.closed_at as "closedAt", s.note
    from quest_submissions s join players p on p.project_id = s.project_id and p.id = s.player_id
    where ${where}
    order by ${orderBy(SUBMISSION_ORDERS, query, sql`s.id`)}
    limit ${query.limit} offset ${offsetOf(query)}`.execute(work.db);
  const total = await countRows(work, sql`quest_submissions s where ${where}`);
  return { submissions: found.rows.map(show), ...total };
};

/** Checks that a quest has a submission. @throws DomainError NOT_FOUND */
export const checkSubmission = async (
  { db }: Work,
  projectId: string,
  { id, questKey }: { id: string; questKey: string },
): Promise<void> => {
  const found = isId(id)
    ? await sql`
        select 1 from quest_submissions
        where project_id = ${projectId} and id = ${id} and quest_key = ${questKey}`.execute(db)
    : undefined;
  if (!found?.rows[0]) throw notFound("submission");
};
