import { type RawBuilder, sql } from "kysely";
import { allLists } from "../leaderboards/periods/lists-of-project.ts";
import { type Person, uuids } from "../players/person.ts";

/** Where rows of a person are kept, and what becomes of them when the person is erased. */
export type PersonalTable = {
  table: string;
  /** Which of its rows, as `t`, are the person's. By an index. */
  isOf(person: Person): RawBuilder<unknown>;
  /** In the order of an export. */
  orderBy: string;
  /**
   * DELETED at once; KEPT: what identifies is taken out of the rows and the rest stays, see erase.ts;
   * NOTHING: there is no personal data in it.
   */
  onErase: "DELETED" | "KEPT" | "NOTHING";
  /** A row `t` as an export has it, jsonb; absent: the whole row. */
  exported?: RawBuilder<unknown>;
  /** Left out of exports, which have it elsewhere or must not have it. */
  isNotExported?: true;
};

export const byPlayer = ({ projectId, ids }: Person): RawBuilder<unknown> =>
  sql`t.project_id = ${projectId} and t.player_id = any(${uuids(ids)})`;

/** A table with the rows of a player under `project_id` and `player_id`. */
export const ofPlayer = (
  table: string,
  orderBy: string,
  onErase: PersonalTable["onErase"] = "DELETED",
): PersonalTable => ({ table, orderBy, onErase, isOf: byPlayer });

/** What lists of leaderboards have of players has no index by player. */
export const inLists = ({ projectId, ids }: Person): RawBuilder<unknown> => sql`
  t.project_id = ${projectId} and t.player_id = any(${uuids(ids)})
  and t.period_id in (${allLists(projectId)})`;
