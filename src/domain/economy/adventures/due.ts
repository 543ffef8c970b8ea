import { sql } from "kysely";
import { settleDue } from "../../evaluation/adventures/advance.ts";
import type { PlanTurn } from "../../evaluation/project-plan.ts";
import type { Work } from "../../kernel/work.ts";
import {
  dueIn,
  endAt,
  type EndingRows,
  type Ends,
  ENDS_PAGE,
  isOtherVersion,
  type PlayersOf,
  settleDueRows,
} from "../../progression/moved-ends.ts";

/** The table whose due rows are processed: see findDue. */
export const DUE_ADVENTURES = dueIn("player_adventures");

/** Unlocks and expires the adventures of players of which something is due. Idempotent. */
export const settlePlayersAdventures = (work: Work, players: PlayersOf): Promise<void> =>
  settleDueRows(work, DUE_ADVENTURES, players, (turn) => {
    if (turn.player.status !== "ERASED") settleDue(turn);
    dropUnknown(turn);
  });

/** Nothing is due any more in an archived adventure. */
const dropUnknown = ({ player, project }: PlanTurn): void => {
  for (const [key, row] of player.adventures) {
    if (row.dueMs === null || project.adventures.byKey.has(key)) continue;
    player.adventures.set(key, { ...row, dueMs: null, isChanged: true });
    player.dirty.adventures.add(key);
  }
};

/** When a row `s` is due at the latest: now, where its player takes part by another version. */
const latest = ({ now }: Work, ends: Ends) =>
  sql`case
    when s.started_at is not null and s.state <> 'EXPIRED' and ${isOtherVersion("adventure_version", ends)}
      then ${endAt(now.getTime())}
    when s.state in ('IN_PROGRESS', 'WAITING') then ${endAt(ends.openMs)}
    when s.state = 'COMPLETED' then ${endAt(ends.claimMs)} else 'infinity' end`;

/** Rows of players who have joined, or have premium, that fall due with the end of their adventure. */
export const ADVENTURE_ENDS: EndingRows = {
  kind: "adventure",
  endsOf: ({ adventures }, key) => {
    const adventure = adventures.byKey.get(key);
    if (!adventure) return undefined;
    return { openMs: adventure.endMs, claimMs: adventure.claimMs, kept: [adventure.version] };
  },
  readPage: async (work, { projectId, key, after, ends }) => {
    const { rows } = await sql<{ id: string; is_late: boolean | null }>`
      select s.player_id as id, coalesce(s.due_at, 'infinity') > ${latest(work, ends)} as is_late from player_adventures s
      where s.project_id = ${projectId}::uuid and s.adventure_key = ${key} and s.player_id > ${after}::uuid
      order by s.player_id limit ${ENDS_PAGE}`.execute(work.db);
    const playerIds = rows.flatMap(({ id, is_late: isLate }) => (isLate === true ? [id] : []));
    return { playerIds, after: rows.length === ENDS_PAGE ? rows.at(-1)!.id : undefined };
  },
  moveDue: async (work, { projectId, key, playerIds, ends }) => {
    await sql`
      update player_adventures s set due_at = ${latest(work, ends)}
      where s.project_id = ${projectId}::uuid and s.adventure_key = ${key}
        and s.player_id = any(${`{${playerIds.join(",")}}`}::uuid[])
        and coalesce(s.due_at, 'infinity') > ${latest(work, ends)}`.execute(work.db);
  },
};
