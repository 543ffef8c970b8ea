import { unique } from "./bodies.ts";
import type { Known } from "./operations.ts";
import type { Side } from "../app/sides.ts";

/** A score that waits for a review. */
const held = async (side: Side): Promise<string> => {
  const bounds = { max: 10, onViolation: "HOLD" };
  const board = {
    key: unique("board"),
    name: "Held",
    metric: { source: "CUSTOM" },
    operator: "BEST",
    bounds,
  };
  await side.make("/leaderboards", board);
  const score = { playerId: await side.player(), score: 11 };
  const answer = await side.send("post", `/leaderboards/${board.key}/scores`, score);
  return answer.body.reviewId as string;
};

export const scoreOperations: Record<string, Known> = {
  submitScore: {
    call: async (side) => {
      const [board, playerId] = [await side.board(), await side.player()];
      const body = { playerId, score: 7.25, meta: { level: 3 }, occurredAt: new Date().toISOString() };
      return { path: `/leaderboards/${board}/scores`, body };
    },
    foreign: async (own, other) => [
      {
        path: `/leaderboards/${await own.board()}/scores`,
        body: { playerId: await other.player(), score: 7 },
      },
    ],
  },
  submitScores: {
    call: async (side) => {
      const [board, playerId] = [await side.board(), await side.player()];
      return { path: `/leaderboards/${board}/scores/batch`, body: { scores: [{ playerId, score: 7 }] } };
    },
  },
  removeLeaderboardPlayer: {
    call: async (side) => {
      const { board, player } = await side.entry();
      return { path: `/leaderboards/${board}/players/${player}`, body: { ban: true } };
    },
    foreign: async (own, other) => [
      {
        path: `/leaderboards/${(await own.entry()).board}/players/${(await other.entry()).player}`,
        body: {},
      },
    ],
  },
  listScoreReviews: { call: () => ({ path: "/score-reviews" }) },
  decideScoreReview: {
    call: async (side) => ({ path: `/score-reviews/${await held(side)}`, body: { decision: "ACCEPT" } }),
  },
};
