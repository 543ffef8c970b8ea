import { sql } from "kysely";
import type { Work } from "../../kernel/work.ts";
import { CHUNK_BITS, CHUNK_PLAYERS, DAY_MS, eachTime } from "./documents.ts";

/** An event of a player, at a time in ms. */
type Held = { id: string; type: string; ms: number; player_id: string | null };

type Candidate = { id: string; no: number };

/** Documents that are read at once: each has 4 MiB at most. */
const DOCUMENTS_AT_ONCE = 8;

/** Numbers of players of whom an event may be, since they were merged; of none that was not. */
const findCandidates = async (
  { db }: Work,
  projectId: string,
  events: readonly Held[],
): Promise<Candidate[]> => {
  const asked = events.map(({ id, player_id: p }) => ({ id, p }));
  const { rows } = await sql<Candidate>`
    select x.id, n.no
    from json_to_recordset(${JSON.stringify(asked)}::json) as x(id text, p uuid)
    join players own on own.project_id = ${projectId}::uuid and own.id = x.p
    join players p on p.project_id = own.project_id
      and coalesce(p.merged_into, p.id) = coalesce(own.merged_into, own.id)
    join analytics_players n on n.project_id = p.project_id and n.player_id = p.id
    where exists (select from players m where m.project_id = own.project_id
      and m.merged_into = coalesce(own.merged_into, own.id))
    order by x.id, n.no`.execute(db);
  return rows;
};

/** How often a player's times are in a document: by player within the chunk, then by ms of the day. */
type Counts = Map<number, Map<number, number>>;

/** The document of a day and a type, and what is counted of it. */
type Place = { chunk: number; day: number; type: string; counts: Counts };

/** The documents in which events could be, by name. */
class Places {
  readonly all = new Map<string, Place>();

  /** The times of a number in the document of an event, to be counted there. */
  timesOf(no: number, { type, ms }: Held): Map<number, number> {
    const [chunk, day] = [no >> CHUNK_BITS, Math.floor(ms / DAY_MS)];
    const name = `${chunk} ${day} ${type}`;
    let place = this.all.get(name);
    if (!place) this.all.set(name, (place = { chunk, day, type, counts: new Map() }));
    const player = no & (CHUNK_PLAYERS - 1);
    let times = place.counts.get(player);
    if (!times) place.counts.set(player, (times = new Map()));
    return times;
  }
}

const count = (document: Uint8Array, counts: Counts): void =>
  eachTime(document, (player, ms) => {
    const times = counts.get(player);
    const found = times?.get(ms);
    if (found !== undefined) times!.set(ms, found + 1);
  });

/** Counts the wanted times in the documents, each of which is read once. */
const countTimes = async ({ db }: Work, projectId: string, places: readonly Place[]): Promise<void> => {
  for (let first = 0; first < places.length; first += DOCUMENTS_AT_ONCE) {
    const some = places.slice(first, first + DOCUMENTS_AT_ONCE);
    const asked = JSON.stringify(some.map(({ chunk, day, type }, i) => ({ i, chunk, day, type })));
    const { rows } = await sql<{ i: number; document: Uint8Array }>`
      select x.i, a.document
      from json_to_recordset(${asked}::json) as x(i int, chunk int, day int, type text)
      join analytics_days a on a.project_id = ${projectId}::uuid and a.chunk = x.chunk and a.day = x.day
        and a.event_type = x.type`.execute(db);
    for (const { i, document } of rows) count(document, some[i]!.counts);
  }
};

/**
 * Finds in whose documents events are that players have who were merged: an erasure gives the target what
 * the others had sent, and documents stay where they are.
 * @returns the numbers of players by event, of those events that could be somebody else's
 */
export const findHolders = async (
  work: Work,
  projectId: string,
  events: readonly Held[],
): Promise<Map<string, number>> => {
  const holders = new Map<string, number>();
  if (events.length === 0) return holders;
  const candidates = await findCandidates(work, projectId, events);
  const byId = new Map(events.map((event) => [event.id, event]));
  const places = new Places();
  const dayMsOf = ({ ms }: Held): number => ms - Math.floor(ms / DAY_MS) * DAY_MS;
  for (const { id, no } of candidates) {
    const event = byId.get(id)!;
    places.timesOf(no, event).set(dayMsOf(event), 0);
  }
  await countTimes(work, projectId, [...places.all.values()]);
  // Of equal events of one person each is taken away once.
  for (const { id, no } of candidates) {
    const event = byId.get(id)!;
    const times = places.timesOf(no, event);
    const left = times.get(dayMsOf(event))!;
    if (left === 0 || holders.has(id)) continue;
    times.set(dayMsOf(event), left - 1);
    holders.set(id, no);
  }
  return holders;
};
