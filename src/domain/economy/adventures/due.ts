import { sql } from "kysely";
import { settleDue } from "../../evaluation/adventures/advance.ts";
import type { PlanTurn } from "../../evaluation/project-plan.ts";
import type { Work } from "../../kernel/work.ts";
import { changeFreePlayers, type PlayersOf } from "../../progression/change-free-players.ts";
import { clearDueOfMerged } from "../../progression/merged-due.ts";
import { endAt, ENDS_PAGE, type EndingRows, type Ends } from "../../progression/moved-ends.ts";

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
  await clearDueOfMerged(work, "player_adventures", players);
};

/** Nothing is due any more in an archived adventure. */
const dropUnknown = ({ player, project }: PlanTurn): void => {
  for (const [key, row] of player.adventures) {
    if (row.dueMs === null || project.adventures.byKey.has(key)) continue;
    player.adventures.set(key, { ...row, dueMs: null, isChanged: true });
    player.dirty.adventures.add(key);
  }
};

/** When a row `s` is due at the latest. */
const latest = ({ openMs, claimMs }: Ends) =>
  sql`case s.state when 'COMPLETED' then ${endAt(claimMs)} else ${endAt(openMs)} end`;

/** Rows of players who have joined, or have premium, that fall due with the end of their adventure. */
export const ADVENTURE_ENDS: EndingRows = {
  kind: "adventure",
  endsOf: ({ adventures }, key) => {
    const adventure = adventures.byKey.get(key);
    return adventure && { openMs: adventure.endMs, claimMs: adventure.claimMs };
  },
  readPage: async ({ db }, { projectId, key, after, ends }) => {
    const { rows } = await sql<{ id: string; is_late: boolean | null }>`
      select s.player_id as id, s.due_at > ${latest(ends)} as is_late from player_adventures s
      where s.project_id = ${projectId}::uuid and s.adventure_key = ${key} and s.player_id > ${after}::uuid
      order by s.player_id limit ${ENDS_PAGE}`.execute(db);
    const playerIds = rows.flatMap(({ id, is_late: isLate }) => (isLate === true ? [id] : []));
    return { playerIds, after: rows.length === ENDS_PAGE ? rows.at(-1)!.id : undefined };
  },
  moveDue: async ({ db }, { projectId, key, playerIds, ends }) => {
    await sql`
      update player_adventures s set due_at = ${latest(ends)}
      where s.project_id = ${projectId}::uuid and s.adventure_key = ${key}
        and s.player_id = any(${`{${playerIds.join(",")}}`}::uuid[])
        and s.due_at > ${latest(ends)}`.execute(db);
  },
};
