import { sql } from "kysely";
import type { Work } from "../work.ts";
import type { Defined, Stored } from "./kind.ts";

type Row = { id: string; kind: string; definition: Defined; version: number };

/** The definitions of a project that are not archived, by kind: one statement. */
export const loadDefinitions = async ({ db }: Work, projectId: string): Promise<Map<string, Stored[]>> => {
  const found = await sql<Row>`
    select id, kind, definition, version from definitions
    where project_id = ${projectId} and status = 'ACTIVE' order by kind, key`.execute(db);
  const byKind = new Map<string, Stored[]>();
  for (const { id, kind, definition, version } of found.rows) {
    const stored: Stored = { id, projectId, definition, version, status: "ACTIVE" };
    const known = byKind.get(kind);
    if (known) known.push(stored);
    else byKind.set(kind, [stored]);
  }
  return byKind;
};
