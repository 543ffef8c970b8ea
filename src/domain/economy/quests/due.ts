import { sql } from "kysely";
import type { PlanTurn } from "../../evaluation/project-plan.ts";
import { expireDue } from "../../evaluation/quests/settle.ts";
import type { QuestRow } from "../../evaluation/quests/row.ts";
import type { Work } from "../../kernel/work.ts";
import { changeFreePlayers, type PlayersOf } from "../../progression/change-free-players.ts";

/** The table whose due rows are processed: see findDue. */
export const DUE_QUESTS = {
  table: "player_quests",
  column: "due_at",
  where: sql`due_at is not null`,
} as const;

/** Expires the quests of players whose time is over. Idempotent. */
export const settlePlayersQuests = async (work: Work, players: PlayersOf): Promise<void> => {
  await changeFreePlayers(
    work,
    players,
    async () => undefined,
    (turn) => {
      for (const key of turn.player.quests.keys()) settleDue(turn, key);
    },
  );
  // Players who were merged into another are not changed any more.
  const { projectId, playerIds } = players;
  await sql`
    update player_quests s set due_at = null from players p
    where s.project_id = ${projectId} and s.player_id = any(${`{${playerIds.join(",")}}`}::uuid[])
      and s.due_at is not null and p.project_id = s.project_id and p.id = s.player_id
      and p.merged_into is not null`.execute(work.db);
};

const isDue = ({ dueMs }: QuestRow, nowMs: number): boolean => dueMs != null && dueMs <= nowMs;

const settleDue = (turn: PlanTurn, key: string): void => {
  const { player, project, nowMs } = turn;
  const state = player.quests.get(key)!;
  if (![state.latest, ...state.older].some((row) => isDue(row, nowMs))) return;
  const quest = project.quests.byKey.get(key);
  if (quest && player.status !== "ERASED") return void expireDue(turn, quest);
  // An archived quest expires silently.
  const over = (row: QuestRow): QuestRow =>
    isDue(row, nowMs) ? { ...row, state: "EXPIRED", isChanged: true } : row;
  player.quests.set(key, { latest: over(state.latest), older: state.older.map(over) });
  player.dirty.quests.add(key);
};
