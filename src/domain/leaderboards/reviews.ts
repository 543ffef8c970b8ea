import { sql } from "kysely";
import { z } from "zod";
import { auditDefinition } from "../accounts/audit/audit.ts";
import { actorOf } from "../kernel/caller.ts";
import { countRows, type Total, type Work } from "../kernel/work.ts";
import { conflict, notFound } from "../kernel/errors.ts";
import { isId } from "../kernel/ids.ts";
import { type RowOf, shownRow } from "../kernel/json.ts";
import { offsetOf, orderBy, type Ordered, type PageQuery, type SortOf } from "../kernel/paging.ts";
import { isPlayer } from "../progression/players/players.ts";
import { errorOfProblem, problemOf, recordScores } from "./record-scores.ts";

export const REVIEW_STATUSES = ["OPEN", "ACCEPTED", "REJECTED"] as const;
export type ReviewStatus = (typeof REVIEW_STATUSES)[number];
export const REVIEW_DECISIONS = ["ACCEPT", "REJECT"] as const;
export type ReviewDecision = (typeof REVIEW_DECISIONS)[number];

/** A submitted score that was out of bounds: pending, or decided. */
export const ScoreReviewBody = z
  .object({
    id: z.uuid(),
    leaderboardId: z.uuid(),
    leaderboardKey: z.string(),
    playerId: z.uuid(),
    externalUserId: z.string(),
    score: z.number(),
    violation: z.string().meta({ description: "The bound that the score broke" }),
    meta: z.record(z.string(), z.unknown()).nullable(),
    occurredAt: z.iso.datetime(),
    status: z.enum(REVIEW_STATUSES),
    submittedAt: z.iso.datetime(),
    reviewedBy: z.string().nullable(),
    reviewedAt: z.iso.datetime().nullable(),
  })
  .meta({ id: "ScoreReview" });
type ScoreReview = z.output<typeof ScoreReviewBody>;

type Row = RowOf<ScoreReview> & { periodId: string };

const reviewOf = ({ periodId: _period, ...review }: Row): ScoreReview => shownRow<ScoreReview>(review);

const COLUMNS = sql.raw(`r.id, r.leaderboard_id as "leaderboardId", b.key as "leaderboardKey",
  r.player_id as "playerId", p.external_user_id as "externalUserId", r.score, r.violation, r.meta,
  r.occurred_at as "occurredAt", r.status, r.submitted_at as "submittedAt",
  r.reviewed_by as "reviewedBy", r.reviewed_at as "reviewedAt", r.period_id as "periodId"`);

const WITH_NAMES = sql`
  join leaderboards b on b.id = r.leaderboard_id and b.project_id = r.project_id
  join players p on p.project_id = r.project_id and p.id = r.player_id`;

/** Orders of the list. */
export const REVIEW_ORDERS = { by: { submittedAt: sql`r.id` }, usual: "asc" } as const;

export type ListReviews = PageQuery &
  Ordered<SortOf<typeof REVIEW_ORDERS>> & {
    status?: ReviewStatus | undefined;
    /** The UUID or the key. */
    leaderboardId?: string | undefined;
    /** `{playerId}` of a player. */
    playerId?: string | undefined;
  };

/** Lists reviews, oldest first. @throws DomainError NOT_FOUND for an unknown player */
export const listReviews = async (
  work: Work,
  projectId: string,
  query: ListReviews,
): Promise<{ reviews: ScoreReview[] } & Total> => {
  const { status, leaderboardId: board } = query;
  const ofBoard =
    board === undefined
      ? sql`true`
      : sql`r.leaderboard_id in (select id from leaderboards where project_id = ${projectId}
          and (key = ${board} or id::text = ${board.toLowerCase()}))`;
  const ofStatus = status === undefined ? sql`true` : sql`r.status = ${status}`;
  const ofPlayer = await isPlayer(work, projectId, sql`r.player_id`, query.playerId);
  const where = sql`r.project_id = ${projectId} and ${ofStatus} and ${ofBoard} and ${ofPlayer}`;
  const found = await sql<Row>`
    select ${COLUMNS} from score_reviews r ${WITH_NAMES} where ${where}
    order by ${orderBy(REVIEW_ORDERS, query, sql`r.id`)}
    limit ${query.limit} offset ${offsetOf(query)}`.execute(work.db);
  const total = await countRows(work, sql`score_reviews r where ${where}`);
  return { reviews: found.rows.map(reviewOf), ...total };
};

/**
 * Decides on a held score, once. ACCEPT submits it as of its own time, regardless of bounds; an entry fee is
 * charged then.
 * @throws DomainError NOT_FOUND; CONFLICT: INVALID_STATE when it was decided before, LEADERBOARD_CLOSED when
 * its period is over by now, PLAYER_INACTIVE, NOT_ELIGIBLE, LIMIT_REACHED, INSUFFICIENT_FUNDS
 */
export const decideReview = async (
  work: Work,
  projectId: string,
  { reviewId, decision }: { reviewId: string; decision: ReviewDecision },
): Promise<ScoreReview> => {
  const held = await lockReview(work, projectId, reviewId);
  if (held.status !== "OPEN") throw conflict("INVALID_STATE", `the score is ${held.status} already`);
  if (decision === "ACCEPT") await accept(work, projectId, held);
  const status = decision === "ACCEPT" ? "ACCEPTED" : "REJECTED";
  const reviewedBy = work.by ? actorOf(work.by.caller) : "system";
  const at = work.now.toISOString();
  await sql`
    update score_reviews set status = ${status}, reviewed_by = ${reviewedBy},
      reviewed_at = ${at}::timestamptz
    where project_id = ${projectId} and id = ${held.id}`.execute(work.db);
  await auditDefinition(work, `score_review.${status.toLowerCase()}`, {
    projectId,
    id: held.id,
    key: held.leaderboardKey,
  });
  return { ...reviewOf(held), status, reviewedBy, reviewedAt: at };
};

const lockReview = async ({ db }: Work, projectId: string, reviewId: string): Promise<Row> => {
  if (!isId(reviewId)) throw notFound("score review");
  const found = await sql<Row>`
    select ${COLUMNS} from score_reviews r ${WITH_NAMES}
    where r.project_id = ${projectId} and r.id = ${reviewId} for update of r`.execute(db);
  const [row] = found.rows;
  if (!row) throw notFound("score review");
  return row;
};

const accept = async (work: Work, projectId: string, held: Row): Promise<void> => {
  const { leaderboardKey, playerId, score, occurredAt, meta, periodId } = held;
  const submission = { playerId, score, occurredAt, meta: meta ?? undefined };
  const target = { projectId, leaderboardKey, isReviewed: true };
  const [outcome] = await recordScores(work, target, [submission]);
  const problem = problemOf(outcome!);
  if (problem || "problem" in outcome!) throw errorOfProblem(problem!);
  // Another list than it was held for: the board was reset, or the player is in another group by now.
  if (outcome!.scored.listId !== periodId)
    throw conflict("LEADERBOARD_CLOSED", "the ranking that the score was held for accepts no more scores");
};
