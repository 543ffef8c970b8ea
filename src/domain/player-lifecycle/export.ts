import { sql } from "kysely";
import { z } from "zod";
import { ADMINS } from "../kernel/access.ts";
import { auditDefinition } from "../accounts/audit/definitions.ts";
import { jobKind } from "../long-work/job-kind.ts";
import { type ProjectJob, queueJob } from "../long-work/project-jobs.ts";
import type { Work } from "../kernel/work.ts";
import type { PersonalTable } from "./personal-table.ts";
import { PERSONAL_TABLES } from "./personal-tables.ts";
import { findPerson, type Person } from "../players/person.ts";
import type { Player } from "../players/player.ts";

/**
 * Maximum number of rows of one table in an export; further rows are counted and can be read by the lists of
 * the API.
 */
export const EXPORT_ROWS_MAX = 20_000;
/** Maximum bytes of all rows of an export. */
export const EXPORT_BYTES_MAX = 16 * 1024 * 1024;

/** Copies all stored data of a player into the job's result. */
export const playerExport = jobKind({
  kind: "PLAYER_EXPORT",
  access: { scope: "players:write", roles: ADMINS },
  params: z.object({ playerId: z.uuid() }),
  step: async (work, { projectId, params: { playerId } }) => ({
    resultText: await readBundle(work, await findPerson(work, { projectId, playerId })),
  }),
});

/** Starts an export. @throws DomainError CONFLICT JOB_LIMIT */
export const startExport = async (
  work: Work,
  { projectId, id: playerId }: Player,
  createdBy: string,
): Promise<ProjectJob> => {
  const job = await queueJob(work, projectId, { kind: playerExport, params: { playerId }, createdBy });
  await auditDefinition(work, "player.export_started", { projectId, id: playerId });
  return job;
};

/**
 * Reads every row of the person, by table, without moderators' internal data. `incomplete` names the tables
 * that have more rows, with their total numbers. Rows stay text: parsed, they may take twenty times as much
 * memory.
 */
const readBundle = async (work: Work, person: Person): Promise<string> => {
  const tables: string[] = [];
  const incomplete: Record<string, number> = {};
  let room = EXPORT_BYTES_MAX;
  for (const one of PERSONAL_TABLES) {
    if (one.isNotExported) continue;
    const found = await readRows(work, person, { one, room });
    room -= found.bytes;
    tables.push(`${JSON.stringify(one.table)}:[${found.rows.join()}]`);
    if (found.isCut) incomplete[one.table] = await countPersonal(work, person, one);
  }
  const { playerId, names } = person;
  const head = { playerId, externalUserIds: names, exportedAt: work.now.toISOString(), incomplete };
  return `${JSON.stringify(head).slice(0, -1)},"tables":{${tables.join()}}}`;
};

type Read = { one: PersonalTable; room: number };
/** `rows`: each as JSON text. */
type Rows = { rows: string[]; bytes: number; isCut: boolean };

/** Reads rows up to `room` bytes, and whether there are more. */
const readRows = async ({ db }: Work, person: Person, { one, room }: Read): Promise<Rows> => {
  const found = await sql<{ r: string; upto: string | number; n: string | number }>`
    with first as (
      select (${one.exported ?? sql`to_jsonb(t)`} - 'project_id')::text as r,
        row_number() over (order by ${sql.raw(one.orderBy)}) as n
      from ${sql.table(one.table)} t where ${one.isOf(person)}
      order by n limit ${EXPORT_ROWS_MAX + 1}),
    summed as (select r, n, sum(octet_length(r)) over (order by n) as upto from first)
    select case when upto <= ${room} and n <= ${EXPORT_ROWS_MAX} then r end as r, n, upto from summed
    where n = 1 or (upto - octet_length(r) <= ${room} and n <= ${EXPORT_ROWS_MAX + 1})
    order by n`.execute(db);
  const fitting = found.rows.filter(({ r }) => r !== null);
  return {
    rows: fitting.map(({ r }) => r),
    bytes: Number(fitting.at(-1)?.upto ?? 0),
    isCut: fitting.length < found.rows.length,
  };
};

/** Returns the number of the person's rows in a table. */
export const countPersonal = async ({ db }: Work, person: Person, one: PersonalTable): Promise<number> => {
  const counted = await sql<{ n: string | number }>`
    select count(*) as n from ${sql.table(one.table)} t where ${one.isOf(person)}`.execute(db);
  return Number(counted.rows[0]!.n);
};
