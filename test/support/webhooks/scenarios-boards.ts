import { must } from "../http/client.ts";
import type { Scenario } from "./stage.ts";

const CUSTOM = { metric: { source: "CUSTOM" }, operator: "BEST" };

/** Gus leads until Ida passes him. */
const places: Scenario = {
  tells: [
    "leaderboard.period_started",
    "leaderboard.new_leader",
    "leaderboard.rank_changed",
    "leaderboard.period_closed",
  ],
  play: async ({ game, heard }) => {
    const prizes = [{ from: 1, to: 1, rewards: { xp: 25 } }];
    await game.make("/leaderboards", {
      key: "daily",
      name: "Daily",
      ...CUSTOM,
      period: { kind: "DAILY" },
      prizes,
      rankChange: { bands: [1], debounceSeconds: 0 },
    });
    await heard("leaderboard.period_started");
    for (const [externalUserId, displayName] of [
      ["gus", "Gus"],
      ["ida", "Ida"],
    ])
      await game.make("/players", { externalUserId, displayName });
    const score = async (user: string, points: number): Promise<void> =>
      void must(
        await game.post("/leaderboards/daily/scores", { playerId: `ext:${user}`, score: points }),
        200,
      );
    await score("gus", 70);
    await heard("leaderboard.new_leader");
    await score("ida", 50);
    await heard("leaderboard.rank_changed", 2);
    await score("ida", 90);
    await heard("leaderboard.new_leader", 2);
    must(await game.post("/leaderboards/daily/reset", { awardPrizes: true }), 200);
    await heard("leaderboard.period_closed");
  },
};

const held: Scenario = {
  tells: ["leaderboard.score_held"],
  play: async ({ game }) => {
    const bounds = { max: 100, onViolation: "HOLD" };
    await game.make("/leaderboards", { key: "guarded", name: "Guarded", ...CUSTOM, bounds });
    must(await game.post("/leaderboards/guarded/scores", { playerId: "ext:gus", score: 5_000 }), 200);
  },
};

/** Two teams, whose season ends. */
const teams: Scenario = {
  tells: ["leaderboard.values_ranked"],
  play: async ({ game, heard }) => {
    const metric = {
      source: "EVENT",
      event: { eventTypes: ["goal.scored"] },
      aggregate: "sum",
      property: "points",
    };
    await game.make("/leaderboards", { key: "teams", name: "Teams", metric, breakdownProperty: "team" });
    for (const [user, points, team] of [
      ["gus", 3, "red"],
      ["ida", 2, "red"],
      ["gus", 4, "blue"],
    ] as const)
      await game.track(user, "goal.scored", { points, team });
    must(await game.post("/leaderboards/teams/reset"), 200);
    await heard("leaderboard.values_ranked");
  },
};

/** Scenarios about leaderboards. */
export const BOARD_SCENARIOS: readonly Scenario[] = [places, held, teams];
