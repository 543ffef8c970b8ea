import { sql } from "kysely";
import type { Work } from "../kernel/work.ts";
import type { Defined, Stored } from "../evaluation/live.ts";
import { type LeftOut, STORED_MAX_BYTES, TOO_LARGE_TO_RUN } from "../evaluation/left-out.ts";

type Row = { id: string; kind: string; definition: Defined; version: number };

type ByKind = Map<string, Stored[]>;

const byKindOf = (projectId: string, rows: readonly Row[]): ByKind => {
  const byKind: ByKind = new Map();
  for (const { id, kind, definition, version } of rows) {
    const stored: Stored = { id, projectId, definition, version, status: "ACTIVE" };
    const known = byKind.get(kind);
    if (known) known.push(stored);
    else byKind.set(kind, [stored]);
  }
  return byKind;
};

/** Loads the active definitions of a project by kind, in one statement. */
export const loadDefinitions = async ({ db }: Work, projectId: string): Promise<ByKind> => {
  const found = await sql<Row>`
    select id, kind, definition, version from definitions
    where project_id = ${projectId} and status = 'ACTIVE' order by kind, key`.execute(db);
  return byKindOf(projectId, found.rows);
};

/** As `loadDefinitions`, without those too large to be evaluated. */
export const loadRunning = async (
  { db }: Work,
  projectId: string,
): Promise<{ definitions: ByKind; leftOut: LeftOut[] }> => {
  const found = await sql<Row & { definition: Defined | null; key: string }>`
    select id, kind, key, version,
      case when pg_column_size(definition) <= ${STORED_MAX_BYTES} then definition end as definition
    from definitions
    where project_id = ${projectId} and status = 'ACTIVE' order by kind, key`.execute(db);
  const leftOut = found.rows
    .filter(({ definition }) => definition === null)
    .map(({ kind, id, key, version }) => ({ kind, id, key, version, why: TOO_LARGE_TO_RUN }));
  const rows = found.rows.filter(({ definition }) => definition !== null);
  return { definitions: byKindOf(projectId, rows), leftOut };
};

/** As `loadDefinitions`, only those with the given names. */
export const loadDefinitionsNamed = async (
  { db }: Work,
  projectId: string,
  names: readonly { kind: string; key: string }[],
): Promise<ByKind> => {
  const wanted = JSON.stringify(names.map(({ kind, key }) => ({ kind, key })));
  const found = await sql<Row>`
    select d.id, d.kind, d.definition, d.version
    from (select distinct kind, key from json_to_recordset(${wanted}::json) as r(kind text, key text)) n
    join definitions d on d.project_id = ${projectId} and d.kind = n.kind and d.key = n.key
    where d.status = 'ACTIVE'`.execute(db);
  return byKindOf(projectId, found.rows);
};
