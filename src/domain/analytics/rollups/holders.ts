import { sql } from "kysely";
import {
  type Change,
  CHUNK_BITS,
  CHUNK_PLAYERS,
  DAY_MS,
  eachQuarter,
  eachTime,
  editedActivity,
  editedTimes,
  readFirsts,
  STATEMENT_LENGTH,
  writeFirsts,
} from "./documents.ts";
import { tableTexts } from "../../kernel/json.ts";
import { mapInSlices } from "../../kernel/slices.ts";
import type { Work } from "../../kernel/work.ts";

/** An event of a player, by number, that is there or is not any more. */
export type FirstChange = { no: number; ms: number; by: 1 | -1 };

/** Days that are read at once. */
const DAYS_AT_ONCE = 100;

/**
 * Finds when players of a chunk had their first event from a day on, in their documents. Those who had none
 * are left out.
 */
const findFirsts = async (
  { db }: Work,
  projectId: string,
  { chunk, players, fromDay }: { chunk: number; players: ReadonlySet<number>; fromDay: number },
): Promise<Map<number, number>> => {
  const found = new Map<number, number>();
  const missing = new Set(players);
  for (let after = fromDay - 1; missing.size > 0;) {
    const { rows } = await sql<{ day: number; document: Uint8Array }>`
      select day, document from analytics_days where project_id = ${projectId}::uuid
        and chunk = ${chunk}::int and day > ${after}::int and event_type = ''
      order by day limit ${sql.lit(DAYS_AT_ONCE)}`.execute(db);
    for (const { day, document } of rows) {
      const here = new Set<number>();
      eachQuarter(document, (player) => {
        if (missing.delete(player)) here.add(player);
      });
      if (here.size === 0) continue;
      const { rows: times } = await sql<{ document: Uint8Array }>`
        select document from analytics_days where project_id = ${projectId}::uuid
          and chunk = ${chunk}::int and day = ${day}::int and event_type <> ''`.execute(db);
      for (const one of times)
        eachTime(one.document, (player, ms) => {
          const at = day * DAY_MS + ms;
          if (here.has(player) && at < (found.get(player) ?? Infinity)) found.set(player, at);
        });
    }
    if (rows.length < DAYS_AT_ONCE) break;
    after = rows.at(-1)!.day;
  }
  return found;
};

/** Applies changes to the first times of a chunk. Returns the players whose first event is gone. */
const applyTo = (
  firsts: Float64Array,
  changes: readonly FirstChange[],
): { lost: Set<number>; isChanged: boolean } => {
  const lost = new Set<number>();
  let isChanged = false;
  for (const { no, ms, by } of changes) {
    const player = no & (CHUNK_PLAYERS - 1);
    const first = firsts[player]!;
    if (by === -1 && ms === first) lost.add(player);
    if (by === -1 || ms >= first) continue;
    firsts[player] = ms;
    isChanged = true;
  }
  return { lost, isChanged };
};

const findLost = async (
  work: Work,
  projectId: string,
  { chunk, firsts, lost }: { chunk: number; firsts: Float64Array; lost: ReadonlySet<number> },
): Promise<void> => {
  const fromDay = Math.floor(Math.min(...[...lost].map((player) => firsts[player]!)) / DAY_MS);
  const found = await findFirsts(work, projectId, { chunk, players: lost, fromDay });
  for (const player of lost) firsts[player] = found.get(player) ?? Number.NaN;
};

/** Brings the first times of players up to date, after their documents. */
export const writeFirstTimes = async (
  work: Work,
  projectId: string,
  changes: readonly FirstChange[],
): Promise<void> => {
  if (changes.length === 0) return;
  const { db } = work;
  const byChunk = Map.groupBy(changes, ({ no }) => no >> CHUNK_BITS);
  const { rows } = await sql<{ chunk: number; firsts: Uint8Array }>`
    select chunk, firsts from analytics_firsts where project_id = ${projectId}::uuid
      and chunk = any(${`{${[...byChunk.keys()].join(",")}}`}::int[])`.execute(db);
  const known = new Map(rows.map(({ chunk, firsts }) => [chunk, firsts]));
  const written: { c: number; b: string }[] = [];
  for (const [chunk, those] of byChunk) {
    const firsts = readFirsts(known.get(chunk));
    const { lost, isChanged } = applyTo(firsts, those);
    if (lost.size > 0) await findLost(work, projectId, { chunk, firsts, lost });
    if (isChanged || lost.size > 0)
      written.push({ c: chunk, b: Buffer.from(writeFirsts(firsts)).toString("base64") });
  }
  for (const text of tableTexts(written, STATEMENT_LENGTH))
    await sql`
      insert into analytics_firsts (project_id, chunk, firsts)
      select ${projectId}::uuid, c, decode(b, 'base64')
      from json_to_recordset(${text}::json) as x(c int, b text)
      on conflict (project_id, chunk) do update set firsts = excluded.firsts`.execute(db);
};

/** Documents that are changed at once. */
const WRITTEN_AT_ONCE = 2_000;
/** Bytes of a document: what one type of event of some thousand players takes on one day, by far. */
const DOCUMENT_MAX_BYTES = 4 * 1024 * 1024;

/** Of a project with more on a day than rollups are made for: its questions read events. */
export class TooLarge extends Error {}

/** An event of a type, at a time, that is there or is not any more. */
type Counted = { type: string; ms: number; by: 1 | -1 };

/** A document that changes: `type` is "" for activity. */
type Edit = { chunk: number; day: number; type: string; changes: Map<number, Change[]> };

/** Groups changes by the documents that they are in, and by player. */
export class Edits {
  readonly all = new Map<string, Edit>();

  add(no: number, { type, ms, by }: Counted): void {
    const day = Math.floor(ms / DAY_MS);
    const change = { ms: ms - day * DAY_MS, by };
    for (const name of ["", type]) this.#add({ chunk: no >> CHUNK_BITS, day, type: name }, no, change);
  }

  #add({ chunk, day, type }: Omit<Edit, "changes">, no: number, change: Change): void {
    const key = `${chunk} ${day} ${type}`;
    let edit = this.all.get(key);
    if (!edit) this.all.set(key, (edit = { chunk, day, type, changes: new Map() }));
    const player = no & (CHUNK_PLAYERS - 1);
    const changes = edit.changes.get(player);
    if (changes) changes.push(change);
    else edit.changes.set(player, [change]);
  }
}

type DocumentRow = { c: number; d: number; t: string; b: Uint8Array };

/** Applies edits to the documents of one table, a few at a time. */
export const writeDocuments = async (
  { db }: Work,
  projectId: string,
  edits: readonly Edit[],
): Promise<void> => {
  for (let at = 0; at < edits.length; at += WRITTEN_AT_ONCE) {
    const some = edits.slice(at, at + WRITTEN_AT_ONCE);
    const keys = JSON.stringify(some.map(({ chunk: c, day: d, type: t }) => ({ c, d, t })));
    const { rows } = await sql<DocumentRow>`
      select a.chunk as c, a.day as d, a.event_type as t, a.document as b from analytics_days a
      join json_to_recordset(${keys}::json) as k(c int, d int, t text)
        on a.chunk = k.c and a.day = k.d and a.event_type = k.t
      where a.project_id = ${projectId}::uuid`.execute(db);
    const found = new Map(rows.map(({ c, d, t, b }) => [`${c} ${d} ${t}`, b]));
    const written = await mapInSlices(some, ({ chunk: c, day: d, type: t, changes }) => {
      const old = found.get(`${c} ${d} ${t}`);
      const bytes = t === "" ? editedActivity(old, changes) : editedTimes(old, changes);
      if (bytes.length > DOCUMENT_MAX_BYTES) throw new TooLarge(`${t} of day ${d}: ${bytes.length} bytes`);
      return { c, d, t, b: Buffer.from(bytes).toString("base64") };
    });
    for (const text of tableTexts(written, STATEMENT_LENGTH))
      await sql`
        with x as materialized (
          select * from json_to_recordset(${text}::json) as x(c int, d int, t text, b text)),
        gone as (
          delete from analytics_days a using x where a.project_id = ${projectId}::uuid
            and a.chunk = x.c and a.day = x.d and a.event_type = x.t and x.b = '')
        insert into analytics_days (project_id, chunk, day, event_type, document)
        select ${projectId}::uuid, c, d, t, decode(b, 'base64') from x where b <> ''
        on conflict (project_id, chunk, day, event_type) do update set document = excluded.document`.execute(
        db,
      );
  }
};

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
