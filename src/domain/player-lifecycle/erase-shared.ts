import { isJsonObject } from "../kernel/json.ts";
import { sql } from "kysely";
import type { Json } from "../kernel/events/events.ts";
import { idFloor, timeOfId } from "../kernel/ids.ts";
import type { Work } from "../kernel/work.ts";
import { type Person, uuids } from "../players/person.ts";

/** Number of rows examined per step. */
const SHARED_AT_ONCE = 2_000;
/** Maximum difference between the clock of an id and that of its transaction, in ms. */
const CLOCKS_MS = 60_000;

type Row = { id: string; type: string | null; data: Json };

type PersonNames = { ids: ReadonlySet<string>; name: string };

/** Replaces a person's named record: their places and teams stay, anonymously. */
const nobody = ({ stats: _stats, ...named }: Json, name: string): Json => ({
  ...named,
  ...("externalUserId" in named ? { externalUserId: name } : {}),
  ...("displayName" in named ? { displayName: null } : {}),
  ...("data" in named ? { data: {} } : {}),
});

/** Returns the value without the names and data of a person, wherever it contains them. */
const withoutPerson = (value: unknown, who: PersonNames): unknown => {
  if (Array.isArray(value)) return value.map((one) => withoutPerson(one, who));
  if (!isJsonObject(value)) return value;
  const { playerId } = value;
  const isNamed = typeof playerId === "string" && who.ids.has(playerId);
  const kept = isNamed ? nobody(value, who.name) : value;
  return Object.fromEntries(Object.entries(kept).map(([key, one]) => [key, withoutPerson(one, who)]));
};

/** Removes a lobby's name and metadata, which its host has written and which may describe the person. */
const withoutTexts = (data: Json): Json => ({
  ...data,
  ...("metadata" in data ? { metadata: {} } : {}),
  ...("name" in data && "mode" in data ? { name: data["mode"] } : {}),
});

type Occurred = { name: string; data: Json };

const erasedOf = (type: string, data: Json, who: PersonNames): Json => {
  const changed = withoutPerson(data, who) as Json;
  if (!type.startsWith("lobby.")) return changed;
  const occurrences = changed["occurrences"] as Occurred[] | undefined;
  if (!occurrences) return withoutTexts(changed);
  return { ...changed, occurrences: occurrences.map((one) => ({ ...one, data: withoutTexts(one.data) })) };
};

/** Lines that may name a person begin with the id of the oldest of the person's players. */
const firstOf = ({ ids }: Person): string => idFloor(Math.min(...ids.map(timeOfId)) - CLOCKS_MS);

/**
 * Reads rows after `after` that belong to no player: those that name the person, or are of a lobby whose last
 * host was the person, with their content.
 */
const readPage = async ({ db }: Work, { projectId, ids }: Person, after: string): Promise<Row[]> => {
  const found = await sql<Row>`
    with page as materialized (
      select id, type, data from outbox
      where project_id = ${projectId} and player_id is null and type <> 'leaderboard.entries_changed'
        and id > ${after}::uuid
      order by id limit ${SHARED_AT_ONCE})
    select p.id, case when named.it then p.type end as type, case when named.it then p.data end as data
    from page p cross join lateral (
      select exists (
          select 1 from unnest(${uuids(ids)}) as m(id) where position(m.id::text in p.data::text) > 0)
        or exists (
          select 1 from lobbies l where l.project_id = ${projectId}
            and l.id = case when p.type like 'lobby.%' then (p.data->>'lobbyId')::uuid end
            and l.host_player_id = any(${uuids(ids)})) as it) named
    order by p.id`.execute(db);
  return found.rows;
};

/**
 * Removes a person from a page of events about several players, such as a lobby's game or the first places of
 * a board. The rows stay, with what they say of others.
 * @returns where the next page begins
 */
export const eraseShared = async (
  work: Work,
  person: Person,
  { after, name }: { after: string | undefined; name: string },
): Promise<{ count: number; after: string | undefined }> => {
  const page = await readPage(work, person, after ?? firstOf(person));
  const who: PersonNames = { ids: new Set(person.ids), name };
  const changed = page.flatMap(({ id, type, data }) =>
    type === null ? [] : [{ i: id, d: erasedOf(type, data, who) }],
  );
  if (changed.length > 0)
    await sql`
      update outbox o set data = x.d
      from json_to_recordset(${JSON.stringify(changed)}::json) as x(i uuid, d jsonb)
      where o.project_id = ${person.projectId} and o.id = x.i`.execute(work.db);
  return { count: changed.length, after: page.length === SHARED_AT_ONCE ? page.at(-1)!.id : undefined };
};
