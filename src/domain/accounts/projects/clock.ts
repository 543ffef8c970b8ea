import { sql } from "kysely";
import { atProjectTime, type ProjectClock, type Work } from "../../kernel/work.ts";
import { type Read, readWithin, statementOf } from "../../kernel/read.ts";

type Row = { ahead: string | number };

/** Returns the clock of a project as it is now; that of the server for one that is not there. */
export const readClock = async (read: Read, projectId: string): Promise<ProjectClock> => {
  const statement = sql`select clock_ahead_ms as ahead from projects where id = ${projectId}::uuid`;
  const [row] = await read<Row>(statementOf(statement));
  return { clockAheadMs: Number(row?.ahead ?? 0) };
};

/** Returns the same transaction at the time of a project. */
export const inProjectTime = async (work: Work, projectId: string): Promise<Work> =>
  atProjectTime(work, await readClock(readWithin(work), projectId));
