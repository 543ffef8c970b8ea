import { sql } from "kysely";
import { notFound } from "../kernel/errors.ts";
import type { Work } from "../kernel/work.ts";

/** A player with everybody who was merged into them: whose rows are one person's. */
export type Person = {
  projectId: string;
  playerId: string;
  /** Ids of the player's rows, the player's own among them. */
  ids: readonly string[];
  /** All external ids by which events came. */
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

/** As a parameter of `= any()`. */
export const uuids = (ids: readonly string[]) => sql`${`{${ids.join(",")}}`}::uuid[]`;

/** As a parameter of `= any()`; texts may hold anything. */
export const texts = (values: readonly string[]) =>
  sql`array(select jsonb_array_elements_text(${JSON.stringify(values)}::jsonb))`;
