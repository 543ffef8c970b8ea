import type { Side } from "../app/sides.ts";
import { unique } from "./bodies.ts";
import type { Known } from "./operations.ts";

const known = new WeakMap<Side, Promise<string>>();

/** A leaderboard with a breakdown: one serves all. */
const byTeam = (side: Side): Promise<string> => {
  const made = known.get(side) ?? makeByTeam(side);
  known.set(side, made);
  return made;
};

const makeByTeam = async (side: Side): Promise<string> => {
  const key = unique("teams");
  const metric = { source: "EVENT", event: { eventTypes: ["goal"] }, aggregate: "count" };
  await side.make("/leaderboards", { key, name: "Teams", metric, breakdownProperty: "team" });
  return key;
};

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
