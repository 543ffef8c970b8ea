import { sql } from "kysely";
import type { PlanTurn } from "../../evaluation/project-plan.ts";
import { dropCounts, storeRow, withdrawDropped } from "../../evaluation/quests/store.ts";
import { withEnd } from "../../evaluation/quests/context.ts";
import { expireDue, inProgress, settleQuest } from "../../evaluation/quests/progress.ts";
import { keptVersions } from "../../evaluation/quests/compile.ts";
import type { QuestRow } from "../../evaluation/quests/row.ts";
import type { Work } from "../../kernel/work.ts";
import { NIL_ID } from "../../kernel/ids.ts";
import {
  dueIn,
  endAt,
  type EndingRows,
  ENDS_PAGE,
  isOtherVersion,
  type PlayersOf,
  settleDueRows,
} from "../../progression/moved-ends.ts";

/** The table whose due rows are processed: see findDue. */
export const DUE_QUESTS = dueIn("player_quests");

/** Brings the quests of players of which something is due to the present. Idempotent. */
export const settlePlayersQuests = (work: Work, players: PlayersOf): Promise<void> =>
  settleDueRows(work, DUE_QUESTS, players, (turn) => {
    // The next cycle of an idle player begins when somebody looks at it, not with the end of this one.
    turn.root.isTimeOnly = true;
    for (const key of turn.player.quests.keys()) settleDue(turn, key);
  });

const isDue = ({ dueMs }: QuestRow, nowMs: number): boolean => dueMs != null && dueMs <= nowMs;

const settleDue = (turn: PlanTurn, key: string): void => {
  const { player, project, nowMs } = turn;
  const state = player.quests.get(key)!;
  if (![state.latest, ...state.older].some((row) => isDue(row, nowMs))) return;
  const quest = project.quests.byKey.get(key);
  if (quest && player.status !== "ERASED") {
    // Who is banned completes nothing.
    if (player.status === "ACTIVE") settleQuest(turn, quest);
    else expireDue(turn, quest);
    const running = inProgress(turn, quest);
    // The quest goes on for the player after its end or by another version, or its end was put off.
    if (running) storeRow(turn, key, withEnd(quest, running.row));
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

/** Cycles in progress that adopt a new version, or in which something waits for a review until the end. */
export const QUEST_ENDS: EndingRows = {
  kind: "quest",
  endsOf: ({ quests }, key) => {
    const quest = quests.byKey.get(key);
    return (
      quest && {
        openMs: Math.min(quest.untilMs, quest.endedMs),
        claimMs: Infinity,
        kept: keptVersions(quest),
      }
    );
  },
  // The newest first: in the order of an index, from the end.
  readPage: async ({ db }, { projectId, key, after }) => {
    const [startedAt, id] = after === NIL_ID ? ["infinity", after] : after.split(" ");
    const { rows } = await sql<{ player_id: string; state: string; place: string }>`
      select player_id, state, to_char(started_at at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"') || ' ' || id
        as place
      from player_quests
      where project_id = ${projectId}::uuid and quest_key = ${key}
        and (started_at, id) < (${startedAt}::timestamptz, ${id}::uuid)
      order by started_at desc, id desc limit ${ENDS_PAGE}`.execute(db);
    const running = rows.filter(({ state }) => state === "IN_PROGRESS");
    return {
      playerIds: [...new Set(running.map(({ player_id: playerId }) => playerId))],
      after: rows.length === ENDS_PAGE ? rows.at(-1)!.place : undefined,
    };
  },
  moveDue: async ({ db, now }, { projectId, key, playerIds, ends }) => {
    const rows = sql`s.project_id = ${projectId}::uuid and s.quest_key = ${key}
      and s.player_id = any(${`{${playerIds.join(",")}}`}::uuid[]) and s.state = 'IN_PROGRESS'`;
    await sql`
      update player_quests s set due_at = ${now.toISOString()}::timestamptz
      where ${rows} and ${isOtherVersion("quest_version", ends)}`.execute(db);
    const { openMs } = ends;
    if (!Number.isFinite(openMs)) return;
    // The document too: from it the next change of the row finds when the row is due.
    await sql`
      update player_quests s
      set due_at = ${endAt(openMs)}, doc = jsonb_set(s.doc, '{endsMs}', to_jsonb(${openMs}::float8))
      where ${rows} and coalesce(s.due_at, 'infinity') > ${endAt(openMs)}
        and exists (select from quest_submissions q
          where q.project_id = s.project_id and q.player_id = s.player_id and q.player_quest_id = s.id
            and q.status = 'PENDING')`.execute(db);
  },
};
