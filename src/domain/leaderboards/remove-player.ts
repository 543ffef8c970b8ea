import { sql } from "kysely";
import { auditDefinition } from "../accounts/audit/audit.ts";
import { notFound } from "../kernel/errors.ts";
import { getPlayer } from "../progression/players/players.ts";
import { lockPlayersById } from "../progression/load.ts";
import type { PlayerState } from "../evaluation/player-state.ts";
import { openGroupChange } from "../progression/group-change.ts";
import type { Work } from "../kernel/work.ts";
import { type Board, type List, windowAt } from "../evaluation/boards/board.ts";
import { boardOf } from "../progression/load-plan.ts";
import { getLeaderboard } from "./leaderboards.ts";
import { findList, leaveList, listOf, markList } from "../evaluation/boards/lists.ts";

/** `ban`: true keeps the player off the leaderboard from now on, false lifts that. */
export type Removal = { leaderboardRef: string; playerRef: string; ban?: boolean | undefined };

/**
 * Removes a player from a leaderboard: the entries of the current period are deleted. Without a ban the next
 * score enters again; a ban is stored with the player, so it applies to all future periods.
 * @returns whether there was an entry
 * @throws DomainError NOT_FOUND for an unknown leaderboard or player
 */
export const removePlayer = async (
  work: Work,
  projectId: string,
  { leaderboardRef, playerRef, ban }: Removal,
): Promise<boolean> => {
  const leaderboard = await getLeaderboard(work, projectId, leaderboardRef);
  const { id: playerId } = await getPlayer(work, projectId, playerRef);
  const board = boardOf(leaderboard);
  let player: PlayerState | undefined;
  let lists: readonly List[] = [];
  const several = await openGroupChange(work, {
    projectId,
    // Also for a board that is not active: it still has its entries.
    planFor: async (plan) => ({ ...plan, boards: [board] }),
    lock: async () => {
      player = (await lockPlayersById(work, projectId, [playerId])).values().next().value;
      if (!player) return [];
      lists = await currentLists(work, board, player);
      for (const list of lists) markList(player, list);
      return [player];
    },
  });
  if (!player) throw notFound("player");
  const removed = takeOff(player, board, { ban, lists });
  await several.save();
  const action = ban === true ? "banned" : "removed";
  await auditDefinition(work, `leaderboard.player_${action}`, leaderboard);
  return removed;
};

/** Returns the lists of the current window on which the player may have an entry. */
const currentLists = async (work: Work, board: Board, player: PlayerState): Promise<List[]> => {
  const nowMs = work.now.getTime();
  if (board.breakdownProperty === undefined) {
    const list = findList(board, player, { at: nowMs });
    return typeof list === "string" ? [] : [list];
  }
  const window = windowAt(board, nowMs);
  if (!window) return [];
  const found = await sql<{ board: string }>`
    select p.board from leaderboard_periods p
    join leaderboard_entries e on e.project_id = p.project_id and e.period_id = p.id
    where p.project_id = ${player.projectId} and p.leaderboard_id = ${board.id}
      and p.period_key = ${window.key} and e.player_id = ${player.id}`.execute(work.db);
  return found.rows.map((row) => listOf(board, window, row.board));
};

type TakeOff = { ban: boolean | undefined; lists: readonly List[] };

/** Returns the ids of the boards from which a player is banned, with the requested change for this one. */
const bansOf = ({ doc: { b = [] } }: PlayerState, { id }: Board, ban: boolean | undefined): string[] => {
  const others = b.filter((other) => other !== id);
  return (ban ?? others.length < b.length) ? [...others, id] : others;
};

/** @returns whether there was an entry */
const takeOff = (player: PlayerState, board: Board, { ban, lists }: TakeOff): boolean => {
  player.doc = { ...player.doc, b: bansOf(player, board, ban) };
  player.dirty.doc = true;
  const entered = lists.filter(({ id }) => player.entries.has(id));
  for (const { id } of entered) leaveList(player, id);
  return entered.length > 0;
};
