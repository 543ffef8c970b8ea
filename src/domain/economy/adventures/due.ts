import { sql } from "kysely";
import { settleDue } from "../../evaluation/adventures/advance.ts";
import type { PlanTurn } from "../../evaluation/project-plan.ts";
import type { Work } from "../../kernel/work.ts";
import { changeFreePlayers, type PlayersOf } from "../../progression/change-free-players.ts";

/** The table whose due rows are processed: see findDue. */
export const DUE_ADVENTURES = {
  table: "player_adventures",
  column: "due_at",
  where: sql`due_at is not null`,
} as const;

/** Unlocks and expires the adventures of players of which something is due. Idempotent. */
export const settlePlayersAdventures = async (work: Work, players: PlayersOf): Promise<void> => {
  await changeFreePlayers(
    work,
    players,
    async () => undefined,
    (turn) => {
      if (turn.player.status !== "ERASED") settleDue(turn);
      dropUnknown(turn);
    },
  );
  // Players who were merged into another are not changed any more.
  const { projectId, playerIds } = players;
  await sql`
    update player_adventures s set due_at = null from players p
    where s.project_id = ${projectId} and s.player_id = any(${`{${playerIds.join(",")}}`}::uuid[])
      and s.due_at is not null and p.project_id = s.project_id and p.id = s.player_id
      and (p.merged_into is not null or p.status = 'ERASED')`.execute(work.db);
};

/** Nothing is due any more in an archived adventure. */
const dropUnknown = ({ player, project }: PlanTurn): void => {
  for (const [key, row] of player.adventures) {
    if (row.dueMs === null || project.adventures.byKey.has(key)) continue;
    player.adventures.set(key, { ...row, dueMs: null, isChanged: true });
    player.dirty.adventures.add(key);
  }
};
