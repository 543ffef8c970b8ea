import { sql } from "kysely";
import { unanswered } from "../../kernel/statements.ts";
import type { Work } from "../../kernel/work.ts";

/**
 * Makes due what waits for a review in quests that were ended or archived: the next sweep expires it, and
 * withdraws what was submitted. Players who may still finish theirs go on.
 */
export const closeWaiting = async (
  { db, now }: Work,
  projectId: string,
  keys: readonly string[],
): Promise<void> => {
  const due = sql`
    update player_quests q set due_at = ${now.toISOString()}::timestamptz
    from (
      select distinct player_id, quest_key, cycle_key, player_quest_id from quest_submissions
      where project_id = ${projectId} and status = 'PENDING'
        and quest_key in (select jsonb_array_elements_text(${JSON.stringify(keys)}::jsonb))) s
    where q.project_id = ${projectId} and q.player_id = s.player_id and q.quest_key = s.quest_key
      and q.cycle_key = s.cycle_key and q.id = s.player_quest_id and q.state = 'IN_PROGRESS'`;
  await unanswered(db, due);
};
