import { z } from "zod";
import { ADMINS } from "../../domain/kernel/caller.ts";
import {
  decideReview,
  listReviews,
  REVIEW_DECISIONS,
  REVIEW_STATUSES,
  REVIEW_ORDERS,
} from "../../domain/leaderboards/reviews.ts";
import { pageBody, PageQuery } from "../../domain/kernel/paging.ts";
import { group } from "../route.ts";
import { pageReply, ByPlayer, sortedBy } from "./list-bodies.ts";

const common = group({ tag: "Leaderboards", project: "caller" });
const write = common.with({ access: { scope: "leaderboards:write", roles: ADMINS } });

const ScoreReviewBody = z
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

export const scoreReviewRoutes = [
  write.get("/score-reviews", "listScoreReviews", {
    summary: "List scores that were held for a review",
    description: "The oldest first.",
    query: PageQuery.extend({
      ...sortedBy(REVIEW_ORDERS),
      status: z.enum(REVIEW_STATUSES).optional(),
      leaderboardId: z
        .string()
        .min(1)
        .max(64)
        .optional()
        .meta({ description: "The leaderboard's UUID or key" }),
      playerId: ByPlayer,
    }),
    response: pageBody(ScoreReviewBody),
    run: async (work, { projectId, query }) => {
      const { reviews, ...total } = await listReviews(work, projectId, query);
      return pageReply(reviews, total, query);
    },
  }),
  write.post("/score-reviews/{reviewId}", "decideScoreReview", {
    summary: "Accept or reject a score that was held",
    description:
      "Once. ACCEPT submits it as of its own time, bounds aside: 409 LEADERBOARD_CLOSED when its period is " +
      "over by now.",
    body: z.strictObject({ decision: z.enum(REVIEW_DECISIONS) }),
    example: { decision: "ACCEPT" },
    response: ScoreReviewBody,
    run: (work, { projectId, params, body }) => decideReview(work, projectId, { ...params, ...body }),
  }),
];
