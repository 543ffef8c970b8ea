import { auditDefinition } from "../accounts/audit/definitions.ts";
import { notFound } from "../kernel/errors.ts";
import { getPlayer } from "../progression/players/players.ts";
import { lockPlayersById } from "../progression/load.ts";
import type { PlayerState } from "../evaluation/player-state.ts";
import { openGroupChange } from "../progression/group-change.ts";
import type { Work } from "../kernel/work.ts";
import type { Board } from "../evaluation/boards/board.ts";
import { boardOf } from "../progression/leaderboard.ts";
import { getLeaderboard } from "./leaderboards.ts";
import { leaveList } from "../evaluation/boards/leave.ts";
import { findList } from "../evaluation/boards/lists.ts";

/** `ban`: true keeps the player off the leaderboard from now on, false lifts that. */
export type Removal = { leaderboardRef: string; playerRef: string; ban?: boolean | undefined };

/**
 * Removes a player from a leaderboard: the entry of the current period is deleted. Without a ban the next
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
  let players = new Map<string, PlayerState>();
  const several = await openGroupChange(work, {
    projectId,
    // Also for a board that is not active: it still has its entries.
    planFor: async (plan) => ({ ...plan, boards: [board] }),
    lock: async () => [...(players = await lockPlayersById(work, projectId, [playerId])).values()],
  });
  const [player] = players.values();
  if (!player) throw notFound("player");
  const removed = takeOff(player, board, { ban, nowMs: work.now.getTime() });
  await several.save();
  const action = ban === true ? "banned" : "removed";
  await auditDefinition(work, `leaderboard.player_${action}`, leaderboard);
  return removed;
};

type TakeOff = { ban: boolean | undefined; nowMs: number };

/** Returns the ids of the boards from which a player is banned, with the requested change for this one. */
const bansOf = ({ doc: { b = [] } }: PlayerState, { id }: Board, ban: boolean | undefined): string[] => {
  const others = b.filter((other) => other !== id);
  return (ban ?? others.length < b.length) ? [...others, id] : others;
};

/** @returns whether there was an entry */
const takeOff = (player: PlayerState, board: Board, { ban, nowMs }: TakeOff): boolean => {
  player.doc = { ...player.doc, b: bansOf(player, board, ban) };
  player.dirty.doc = true;
  const list = findList(board, player, nowMs);
  if (typeof list === "string" || !player.entries.has(list.id)) return false;
  leaveList(player, list.id);
  return true;
};
