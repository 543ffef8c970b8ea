import { sql } from "kysely";
import type { PlanTurn } from "../../evaluation/project-plan.ts";
import { dropCounts, storeRow, withdrawDropped } from "../../evaluation/quests/store.ts";
import { withEnd } from "../../evaluation/quests/context.ts";
import { expireDue } from "../../evaluation/quests/settle.ts";
import type { QuestRow } from "../../evaluation/quests/row.ts";
import type { Work } from "../../kernel/work.ts";
import { changeFreePlayers, type PlayersOf } from "../../progression/change-free-players.ts";
import { clearDueOfMerged } from "../../progression/merged-due.ts";
import { endAt, ENDS_PAGE, type EndingRows } from "../../progression/moved-ends.ts";

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
      // The next cycle of an idle player begins when somebody looks at it, not with the end of this one.
      turn.root.isTimeOnly = true;
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
  if (quest && player.status !== "ERASED") {
    const running = expireDue(turn, quest);
    // The quest goes on for the player after its end, or its end was put off.
    if (running) storeRow(turn, key, withEnd(quest, running));
    return;
  }
  // An archived quest expires silently.
  const over = (row: QuestRow): QuestRow => {
    if (!isDue(row, nowMs)) return row;
    dropCounts(turn, row);
    return { ...row, state: "EXPIRED", isChanged: true };
  };
  const now = { latest: over(state.latest), older: state.older.map(over) };
  withdrawDropped(turn, state, now);
  player.quests.set(key, now);
  player.dirty.quests.add(key);
};

/** Cycles of which something waits for a review: with the quest's end it is withdrawn. */
export const QUEST_ENDS: EndingRows = {
  kind: "quest",
  endsOf: ({ quests }, key) => {
    const quest = quests.byKey.get(key);
    return quest && { openMs: Math.min(quest.untilMs, quest.endedMs), claimMs: Infinity };
  },
  readPage: async ({ db }, { projectId, key, after }) => {
    const { rows } = await sql<{ id: string; player_id: string; quest_key: string }>`
      select id, player_id, quest_key from quest_submissions
      where project_id = ${projectId}::uuid and status = 'PENDING' and id > ${after}::uuid
      order by id limit ${ENDS_PAGE}`.execute(db);
    const own = rows.filter(({ quest_key: questKey }) => questKey === key);
    return {
      playerIds: [...new Set(own.map(({ player_id: id }) => id))],
      after: rows.length === ENDS_PAGE ? rows.at(-1)!.id : undefined,
    };
  },
  moveDue: async ({ db }, { projectId, key, playerIds, ends: { openMs } }) => {
    if (!Number.isFinite(openMs)) return;
    // The document too: from it the next change of the row finds when the row is due.
    await sql`
      update player_quests s
      set due_at = ${endAt(openMs)}, doc = jsonb_set(s.doc, '{endsMs}', to_jsonb(${openMs}::float8))
      where s.project_id = ${projectId}::uuid and s.quest_key = ${key}
        and s.player_id = any(${`{${playerIds.join(",")}}`}::uuid[]) and s.state = 'IN_PROGRESS'
        and coalesce(s.due_at, 'infinity') > ${endAt(openMs)}
        and exists (select from quest_submissions q
          where q.project_id = s.project_id and q.player_id = s.player_id and q.player_quest_id = s.id
            and q.status = 'PENDING')`.execute(db);
  },
};
