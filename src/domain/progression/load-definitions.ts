import { sql } from "kysely";
import type { Work } from "../kernel/work.ts";
import type { Defined, Pause, Phase, Stored } from "../evaluation/live.ts";
import { type LeftOut, STORED_MAX_BYTES, TOO_LARGE_TO_RUN } from "../evaluation/left-out.ts";

type Row = {
  id: string;
  kind: string;
  definition: Defined;
  version: number;
  phase?: Phase | null;
  endedMs?: number | null;
  pauses?: Pause[] | null;
  earlier?: { version: number; definition: Defined }[] | null;
};

/** Earlier versions of a definition that are kept for players who use them. */
const EARLIER_MAX = 5;

type ByKind = Map<string, Stored[]>;

const byKindOf = (projectId: string, rows: readonly Row[]): ByKind => {
  const byKind: ByKind = new Map();
  for (const { kind, ...row } of rows) {
    const stored: Stored = { ...row, projectId, status: "ACTIVE" };
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
      case when pg_column_size(definition) <= ${STORED_MAX_BYTES} then definition end as definition, phase,
      floor(extract(epoch from ended_at) * 1000)::float8 as "endedMs", pauses,
      case when phase is not null and version > 1 then (
        select json_agg(json_build_object('version', v.version, 'definition', v.definition)
          order by v.version)
        from definition_versions v
        where v.project_id = definitions.project_id and v.definition_id = definitions.id
          and v.version < definitions.version
          and v.version >= definitions.version - ${sql.lit(EARLIER_MAX)}) end as earlier
    from definitions
    where project_id = ${projectId} and status = 'ACTIVE' order by kind, key`.execute(db);
  const leftOut = found.rows
    .filter(({ definition }) => definition === null)
    .map(({ kind, id, key, version }) => ({ kind, id, key, version, why: TOO_LARGE_TO_RUN }));
  const rows = found.rows.filter(({ definition }) => definition !== null);
  const plain = rows.map(({ key: _key, ...row }) => row);
  return { definitions: byKindOf(projectId, plain), leftOut };
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
