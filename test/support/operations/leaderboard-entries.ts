import type { Known } from "./operations.ts";

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
  getLeaderboardEntry: {
    call: async (side) => {
      const { board, player } = await side.entry();
      return { path: `/leaderboards/${board}/players/${player}` };
    },
    foreign: async (own, other) => [
      { path: `/leaderboards/${(await own.entry()).board}/players/${(await other.entry()).player}` },
    ],
  },
  listLeaderboardFeed: {
    call: async (side) => ({ path: `/leaderboards/${(await side.entry()).board}/feed` }),
  },
};
