import { eventually } from "../eventually.ts";
import { boardDefinition, unique } from "./bodies.ts";
import type { Known } from "./operations.ts";
import type { Side } from "../app/sides.ts";

const known = new WeakMap<Side, Promise<string>>();

/** A leaderboard with a closed period, `all-time`: closing is the work of a second, so one serves all. */
const closedBoard = (side: Side): Promise<string> => {
  const made = known.get(side) ?? closeBoard(side);
  known.set(side, made);
  return made;
};

const closeBoard = async (side: Side): Promise<string> => {
  const key = unique("closed");
  await side.make("/leaderboards", { key, name: "Closed", metric: { source: "CUSTOM" }, operator: "BEST" });
  await side.send("post", `/leaderboards/${key}/reset`, {});
  const path = `/leaderboards/${key}/periods/all-time/results`;
  await eventually(async () => (await side.send("get", path)).status === 200, { timeoutMs: 60_000 });
  return key;
};

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
