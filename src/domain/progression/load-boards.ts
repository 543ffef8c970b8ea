import type { Work } from "../kernel/work.ts";
import type { Board } from "../evaluation/boards/board.ts";
import { Leaderboard, boardOf } from "./leaderboard.ts";

/** Loads the boards that evaluation may touch: all except archived ones. */
export const loadBoards = async ({ em }: Work, projectId: string): Promise<Board[]> => {
  const leaderboards = await em.find(
    Leaderboard,
    { projectId, status: { $ne: "ARCHIVED" } },
    { orderBy: { id: "asc" }, disableIdentityMap: true },
  );
  return leaderboards.map(boardOf);
};
