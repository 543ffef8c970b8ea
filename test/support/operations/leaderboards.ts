import { onePerSide, type Side } from "../app/sides.ts";
import { boardDefinition, unique } from "./bodies.ts";
import type { Known } from "./operations.ts";
import { eventually } from "../eventually.ts";
import { definitionDocument } from "../rules/plan.ts";

/** A leaderboard with a breakdown: one serves all. */
const byTeam = onePerSide(async (side): Promise<string> => {
  const key = unique("teams");
  const metric = { source: "EVENT", event: { eventTypes: ["goal"] }, aggregate: "count" };
  await side.make("/leaderboards", { key, name: "Teams", metric, breakdownProperty: "team" });
  return key;
});

/** What is read of leaderboards. */
export const leaderboardEntryOperations: Record<string, Known> = {
  listLeaderboardEntries: {
    call: async (side) => ({ path: `/leaderboards/${await side.board()}/entries` }),
    foreign: async (own, other) => {
      const [{ board }, player] = [await own.entry(), await other.player()];
      const path = `/leaderboards/${board}/entries`;
      return [{ path: `${path}?around=${player}` }, { path: `${path}?playerId=${player}` }];
    },
  },
  exportLeaderboard: {
    call: async (side) => ({ path: `/leaderboards/${(await side.entry()).board}/export` }),
  },
  getLeaderboardEntry: {
    call: async (side) => {
      const { board, player } = await side.entry();
      return { path: `/leaderboards/${board}/players/${player}` };
    },
    foreign: async (own, other) => [
      { path: `/leaderboards/${(await own.entry()).board}/players/${(await other.entry()).player}` },
    ],
  },
  listLeaderboardValues: {
    call: async (side) => ({ path: `/leaderboards/${await byTeam(side)}/values` }),
  },
  listLeaderboardFeed: {
    call: async (side) => ({ path: `/leaderboards/${(await side.entry()).board}/feed` }),
  },
};

/** A leaderboard with a closed period, `all-time`: closing is the work of a second, so one serves all. */
const closedBoard = onePerSide(async (side): Promise<string> => {
  const key = unique("closed");
  await side.make("/leaderboards", { key, name: "Closed", metric: { source: "CUSTOM" }, operator: "BEST" });
  await side.send("post", `/leaderboards/${key}/reset`, {});
  const path = `/leaderboards/${key}/periods/all-time/results`;
  await eventually(async () => (await side.send("get", path)).status === 200, { timeoutMs: 60_000 });
  return key;
});

/** There is room for few. */
const anyBoard = (side: Side): Promise<string> => side.active("/leaderboards", boardDefinition);

export const leaderboardPeriodOperations: Record<string, Known> = {
  listLeaderboardPeriods: {
    call: async (side) => ({ path: `/leaderboards/${await anyBoard(side)}/periods` }),
  },
  listLeaderboardResults: {
    call: async (side) => ({ path: `/leaderboards/${await closedBoard(side)}/periods/all-time/results` }),
  },
  resetLeaderboard: {
    call: async (side) => {
      const { board } = await side.entry();
      return { path: `/leaderboards/${board}/reset`, body: { awardPrizes: true, reason: "A new season" } };
    },
  },
  rebuildLeaderboard: {
    call: async (side) => ({ path: `/leaderboards/${await anyBoard(side)}/rebuild`, body: {} }),
  },
};

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

const DAY_MS = 86_400_000;

/** With freezes and repairs: a project may have 20. */
const aStreak = onePerSide(async (side): Promise<string> => {
  const made = definitionDocument("streak");
  const repairs = { freeze: { initial: 1, autoUse: false }, repairWindowHours: 720 };
  await side.make("/streaks", { ...made, ...repairs });
  return made.key;
});

const ofStreak = (step: string, body?: object): Known => ({
  call: async (side) => ({
    path: `/players/${await side.player()}/streaks/${await aStreak(side)}/${step}`,
    ...(body ? { body } : {}),
  }),
});

/** Every field that a streak of periods may have. */
const wholeStreak = () => ({
  ...definitionDocument("streak"),
  description: "Text",
  mode: "PERIODIC",
  period: "WEEK",
  qualify: {
    mode: "ANY",
    parts: [
      {
        metric: {
          eventTypes: ["swept"],
          filter: { all: [{ path: "a.b", op: "contains", value: "x" }] },
          aggregate: "sum",
          property: "v",
        },
        threshold: 2,
      },
    ],
  },
  timezonePolicy: "PROJECT",
  dayStartsAtMinutes: 240,
  graceSeconds: 3_600,
  freeze: { enabled: true, max: 3, initial: 1, autoEarnEvery: 7, autoUse: true },
  repairWindowHours: 48,
  milestones: [{ length: 7, every: 7, rewards: { xp: 5, addTags: ["keen"] } }],
});
const consecutive = () => ({
  ...definitionDocument("streak"),
  mode: "CONSECUTIVE",
  breakOn: { eventTypes: ["lost"], filter: { path: "a", op: "exists" } },
});

export const streakOperations: Record<string, Known> = {
  listStreaks: { call: () => ({ path: "/streaks" }) },
  createStreak: { call: () => ({ path: "/streaks", body: wholeStreak() }), also: [consecutive] },
  getStreak: { call: async (side) => ({ path: `/streaks/${await aStreak(side)}` }) },
  updateStreak: {
    call: async (side) => ({
      path: `/streaks/${await aStreak(side)}`,
      body: { name: "New", description: null, graceSeconds: 60 },
    }),
  },
  archiveStreak: {
    call: async (side) => ({
      path: `/streaks/${await side.active("/streaks", () => definitionDocument("streak"))}`,
    }),
  },
  listPlayerStreaks: {
    call: async (side) => {
      await aStreak(side);
      return { path: `/players/${await side.player()}/streaks` };
    },
  },
  getStreakHistory: ofStreak("history?from=2026-01-01&to=2026-01-31"),
  giveStreakFreezes: ofStreak("freezes", { amount: 1 }),
  repairStreak: {
    call: async (side) => {
      const streak = await aStreak(side);
      const timestamp = new Date(Date.now() - 5 * DAY_MS).toISOString();
      const player = await side.playerOf({ eventType: "done", timestamp });
      return { path: `/players/${player}/streaks/${streak}/repair`, body: { pay: false } };
    },
  },
  resetStreak: ofStreak("reset", {}),
};
