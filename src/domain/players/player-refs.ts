import { sql } from "kysely";
import { DomainError, notFound } from "../kernel/errors.ts";
import { isId } from "../kernel/ids.ts";
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

type Row = { name: string; id: string };

/**
 * Resolves UUIDs and `ext:…` references to players, in one statement. Merged players resolve to their merge
 * target; unknown references are left out. Row security allows only plain columns to be looked up in an
 * index.
 */
export const playerIdsOf = async (
  { db }: Work,
  projectId: string,
  refs: readonly string[],
): Promise<Map<string, string>> => {
  const ids = refs.filter(isId).map((name) => ({ name, i: name }));
  const names = refs
    .filter((ref) => ref.startsWith("ext:"))
    .map((name) => ({ name, u: name.slice("ext:".length) }));
  const found = await sql<Row>`
    select r.name, coalesce(p.merged_into, p.id) as id
    from json_to_recordset(${JSON.stringify(ids)}::json) as r(name text, i uuid)
    join players p on p.project_id = ${projectId} and p.id = r.i
    union all
    select r.name, coalesce(p.merged_into, p.id)
    from json_to_recordset(${JSON.stringify(names)}::json) as r(name text, u text)
    join players p on p.project_id = ${projectId} and p.external_user_id = r.u`.execute(db);
  return new Map(found.rows.map(({ name, id }) => [name, id]));
};

/** Says how a player is named, where a bare externalUserId was given. */
export const unknownPlayer = (ref: string): DomainError => {
  if (isId(ref) || ref.startsWith("ext:")) return notFound("player");
  // The reference is not quoted: it might be a secret that was put in the wrong place.
  return new DomainError(
    "NOT_FOUND",
    "player not found: a player is named by the UUID, or by ext: and your own id, as in ext:ada",
  );
};
