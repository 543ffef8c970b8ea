import { sql } from "kysely";
import { tableTexts } from "../../kernel/json-text.ts";
import { inSlices, mapInSlices } from "../../kernel/slices.ts";
import type { Work } from "../../kernel/work.ts";
import {
  type Change,
  CHUNK_BITS,
  CHUNK_PLAYERS,
  DAY_MS,
  editedActivity,
  editedTimes,
  STATEMENT_LENGTH,
} from "./documents.ts";

/** Documents that are changed at once. */
const DOCUMENTS_AT_ONCE = 2_000;
/** Bytes of a document: what one type of event of some thousand players takes on one day, by far. */
const DOCUMENT_MAX_BYTES = 4 * 1024 * 1024;

/** Of a project with more on a day than rollups are made for: its questions read events. */
export class TooLarge extends Error {}

/** An event of a type, at a time, that is there or is not any more. */
export type Counted = { type: string; ms: number; by: 1 | -1 };

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
  for (let at = 0; at < edits.length; at += DOCUMENTS_AT_ONCE) {
    const some = edits.slice(at, at + DOCUMENTS_AT_ONCE);
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
    for (const text of await inSlices(tableTexts(written, STATEMENT_LENGTH)))
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
