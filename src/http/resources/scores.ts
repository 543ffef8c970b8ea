import { z } from "zod";
import { SCORE_META_MAX_BYTES } from "../../domain/evaluation/boards/definition.ts";
import { ADMINS } from "../../domain/kernel/caller.ts";
import {
  decideReview,
  listReviews,
  REVIEW_DECISIONS,
  REVIEW_ORDERS,
  REVIEW_STATUSES,
  ScoreReviewBody,
} from "../../domain/leaderboards/reviews.ts";
import { PATH_VALUES, Reply } from "../route.ts";
import {
  type BatchScore,
  finishScore,
  ScoreChange,
  type ScoreLeft,
  SCORES_MAX,
  submitPlayerScore,
  submitScores,
} from "../../domain/leaderboards/record-scores.ts";
import { removePlayer } from "../../domain/leaderboards/remove-player.ts";
import {
  explainedInPart,
  readScoreItems,
  resultsInOrder,
  SHORT_REFUSALS_EXPLAINED,
  submissionOf,
} from "../item-refusals.ts";
import { boards, PlayerRef, SubmittedScore } from "./leaderboards.ts";
import { ByPlayer, paged, pageReply } from "./bodies.ts";

const write = boards.with({ access: { scope: "leaderboards:write", roles: ADMINS } });

const BatchScoreBody = z
  .object({
    playerId: z.uuid().nullable(),
    ...ScoreChange.shape,
  })
  .partial()
  .extend({
    error: z
      .object({
        code: z.string(),
        reason: z.string().nullable().optional(),
        message: z.string().optional(),
      })
      .nullable()
      .meta({ description: "Why it did not count; null when it did, or waits" }),
  })
  .meta({ id: "BatchScore" });

/** Whether a score was refused before its player was looked up. */
const isRefused = ({ error, playerId }: BatchScore): boolean => error !== null && playerId === null;
const inBrief = ({ error }: BatchScore) => ({ error: error && { code: error.code } });

const CREATES = "An unknown ext: name creates the player where the setting autoCreatePlayers is on.";

export const scoreRoutes = [
  write.post("/leaderboards/{leaderboardId}/scores", "submitScore", {
    sharing: ({ body }) => ({ player: body.playerId, isPlain: true }),
    summary: "Submit a score",
    description:
      "For CUSTOM leaderboards; it counts in the period of its time. accepted is false when a newer score " +
      "stands, when it does not suffice to enter, and when it is held for a review; nothing " +
      `changes then. ${CREATES}`,
    body: SubmittedScore,
    example: {
      playerId: "ext:user-1",
      score: 1250,
      meta: { map: "canyon" },
      occurredAt: "2026-01-31T12:00:00Z",
    },
    response: z.object({
      ...ScoreChange.shape,
      rank: z
        .int()
        .nullable()
        .meta({ description: "null when the player has none, or rankings did not answer" }),
      previousRank: z.int().nullable().meta({ description: "As rank, before the score" }),
    }),
    outside: async (app, { projectId, params: { leaderboardId }, body }) => {
      const submission = submissionOf(body);
      const { result, left } = await submitPlayerScore(app.transact, projectId, leaderboardId, submission);
      return left ? Reply.resumable(result, left) : result;
    },
    resume: (app, left) => finishScore(app, left as ScoreLeft),
  }),
  write.post("/leaderboards/{leaderboardId}/scores/batch", "submitScores", {
    takesGzip: true,
    summary: "Submit many scores",
    description:
      "One result for each, in order; a bad one leaves the others as they are. Ranks are not returned: " +
      `read the leaderboard. Each has at most ${SCORE_META_MAX_BYTES} bytes of meta. After ` +
      `${SHORT_REFUSALS_EXPLAINED} bad ones that are very short, further such have just an error.code. ${CREATES}`,
    body: z.object({ scores: z.array(z.unknown()).min(1).max(SCORES_MAX) }),
    example: {
      scores: [
        { playerId: "ext:user-1", score: 1250 },
        { playerId: "ext:user-2", score: 990, occurredAt: "2026-01-31T12:00:00Z" },
      ],
    },
    described: z.object({ scores: z.array(SubmittedScore).min(1).max(SCORES_MAX) }),
    itemised: true,
    response: z.object({ results: z.array(BatchScoreBody) }),
    outside: async (app, { projectId, params, body }) => {
      const items = await readScoreItems(body.scores);
      const readable = items.flatMap((item) => ("submission" in item ? [item.submission] : []));
      return app.transact(async (work) => {
        const results = await submitScores(work, projectId, params.leaderboardId, readable);
        return { results: explainedInPart(body.scores, resultsInOrder(items, results), isRefused, inBrief) };
      });
    },
  }),
  write.delete("/leaderboards/{leaderboardId}/players/{playerId}", "removeLeaderboardPlayer", {
    summary: "Take a player off a leaderboard",
    description:
      "The entry of the current period goes. With ban true the player stays off, in every period to come, " +
      "until the same with ban false.",
    params: z.object({ leaderboardId: PATH_VALUES.leaderboardId, playerId: PlayerRef }),
    body: z.strictObject({ ban: z.boolean().optional() }),
    example: { ban: true },
    response: z.object({ deleted: z.boolean().meta({ description: "Whether there was an entry" }) }),
    run: async (work, { projectId, params, body }) => ({
      deleted: await removePlayer(work, projectId, {
        leaderboardRef: params.leaderboardId,
        playerRef: params.playerId,
        ban: body.ban,
      }),
    }),
  }),
  write.get("/score-reviews", "listScoreReviews", {
    summary: "List scores that were held for a review",
    description: "The oldest first.",
    ...paged(ScoreReviewBody, REVIEW_ORDERS, {
      status: z.enum(REVIEW_STATUSES).optional(),
      leaderboardId: z
        .string()
        .min(1)
        .max(64)
        .optional()
        .meta({ description: "The leaderboard's UUID or key" }),
      playerId: ByPlayer,
    }),
    run: async (work, { projectId, query }) =>
      pageReply(await listReviews(work, projectId, query), "reviews", query),
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
