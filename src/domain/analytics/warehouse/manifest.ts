import { sql } from "kysely";
import type { Work } from "../../kernel/work.ts";

/** The version of the format of files; it rises with each change that a loader has to know. */
export const SCHEMA_VERSION = 1;
const ENTRIES_AT_ONCE = 100;
const SEQUENCE_DIGITS = 12;

type Row = {
  seq: string | number;
  kind: string;
  path: string;
  rows: number;
  bytes: string | number;
  sha256: string;
  from_id: string;
  to_id: string;
  created_at: Date | string;
  replaces: string | null;
};

/** A file of the manifest. */
export type Entry = { seq: number; path: string; body: Buffer };

const pathOf = (projectId: string, seq: number): string =>
  `manifest/project_id=${projectId}/${String(seq).padStart(SEQUENCE_DIGITS, "0")}.json`;

/** The path of the first entry of a project. */
export const firstEntryOf = (projectId: string): string => pathOf(projectId, 1);

const show = (projectId: string, row: Row): Entry => {
  const seq = Number(row.seq);
  const entry = {
    schemaVersion: SCHEMA_VERSION,
    projectId,
    sequence: seq,
    kind: row.kind,
    path: row.path,
    rows: row.rows,
    bytes: Number(row.bytes),
    sha256: row.sha256,
    fromId: row.from_id,
    toId: row.to_id,
    createdAt: new Date(row.created_at).toISOString(),
    replaces: row.replaces,
  };
  return {
    seq,
    path: pathOf(projectId, seq),
    body: Buffer.from(`${JSON.stringify(entry)}\n`),
  };
};

/** Reads a page of entries of the manifest after one; they never change. */
export const readEntries = async ({ db }: Work, projectId: string, after: number): Promise<Entry[]> => {
  const { rows } = await sql<Row>`
    select w.seq, w.kind, w.path, w.row_count as rows, w.byte_count as bytes, w.sha256, w.from_id::text,
      w.to_id::text, w.created_at, r.path as replaces
    from warehouse_parts w
    left join warehouse_parts r on r.project_id = w.project_id and r.seq = w.replaces
    where w.project_id = ${projectId}::uuid and w.seq > ${after}::bigint
    order by w.seq limit ${sql.lit(ENTRIES_AT_ONCE)}`.execute(db);
  return rows.map((row) => show(projectId, row));
};
