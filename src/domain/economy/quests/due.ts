import { sql } from "kysely";
import type { PlanTurn } from "../../evaluation/project-plan.ts";
import { dropCounts } from "../../evaluation/quests/store.ts";
import { expireDue } from "../../evaluation/quests/settle.ts";
import type { QuestRow } from "../../evaluation/quests/row.ts";
import type { Work } from "../../kernel/work.ts";
import { changeFreePlayers, type PlayersOf } from "../../progression/change-free-players.ts";
import { clearDueOfMerged } from "../../progression/merged-due.ts";

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
  await clearDueOfMerged(work, "player_quests", players);
};

const isDue = ({ dueMs }: QuestRow, nowMs: number): boolean => dueMs != null && dueMs <= nowMs;

const settleDue = (turn: PlanTurn, key: string): void => {
  const { player, project, nowMs } = turn;
  const state = player.quests.get(key)!;
  if (![state.latest, ...state.older].some((row) => isDue(row, nowMs))) return;
  const quest = project.quests.byKey.get(key);
  if (quest && player.status !== "ERASED") return void expireDue(turn, quest);
  // An archived quest expires silently.
  const over = (row: QuestRow): QuestRow => {
    if (!isDue(row, nowMs)) return row;
    dropCounts(turn, row);
    return { ...row, state: "EXPIRED", isChanged: true };
  };
  player.quests.set(key, { latest: over(state.latest), older: state.older.map(over) });
  player.dirty.quests.add(key);
};
