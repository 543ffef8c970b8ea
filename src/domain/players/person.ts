import { sql } from "kysely";
import { notFound } from "../kernel/errors.ts";
import type { Work } from "../kernel/work.ts";

/** A player with all players merged into it, whose rows belong to one person. */
export type Person = {
  projectId: string;
  playerId: string;
  /** Ids of the person's rows, including the player's own. */
  ids: readonly string[];
  /** All external ids that events were sent with. */
  names: readonly string[];
};

/** @throws DomainError NOT_FOUND */
export const findPerson = async (
  { db }: Work,
  { projectId, playerId }: { projectId: string; playerId: string },
): Promise<Person> => {
  const found = await sql<{ id: string; external_user_id: string }>`
    select id, external_user_id from players
    where project_id = ${projectId} and (id = ${playerId} or merged_into = ${playerId})
    order by id`.execute(db);
  if (found.rows.length === 0) throw notFound("player");
  return {
    projectId,
    playerId,
    ids: found.rows.map(({ id }) => id),
    names: found.rows.map((row) => row.external_user_id),
  };
};

/** Formats ids as a parameter of `= any()`. */
export const uuids = (ids: readonly string[]) => sql`${`{${ids.join(",")}}`}::uuid[]`;

/** Formats texts as a parameter of `= any()`; they may contain any characters. */
export const texts = (values: readonly string[]) =>
  sql`array(select jsonb_array_elements_text(${JSON.stringify(values)}::jsonb))`;
