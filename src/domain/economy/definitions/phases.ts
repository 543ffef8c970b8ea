import { type RawBuilder, sql } from "kysely";
import { PAUSES_MAX, type Phase } from "../../evaluation/live.ts";
import { newId } from "../../kernel/ids.ts";
import type { Work } from "../../kernel/work.ts";

/** `pauses` of a row of `definitions` of which none lasts. */
const closed = (): RawBuilder<unknown> => sql`
  case when pauses -> -1 -> 'until' = 'null'
    then jsonb_set(pauses, '{-1,until}', to_jsonb(${newId()}::text))
  else pauses end`;

/** `pauses` with one more, which lasts. */
const lasting = (pauses: RawBuilder<unknown>): RawBuilder<unknown> => sql`
  (case when jsonb_array_length(${pauses}) >= ${sql.lit(PAUSES_MAX)} then ${pauses} - 0
    else coalesce(${pauses}, '[]') end
  || jsonb_build_object('from', ${newId()}::text, 'until', null))`;

/**
 * `pauses` of rows of `definitions` that an import archives: what ran is paused until it is restored. To be
 * called once batches wait, as all of these.
 */
export const pausesOfArchived = (): RawBuilder<unknown> =>
  sql`case when phase = 'RUNNING' then ${lasting(sql`pauses`)} else pauses end`;

/** `pauses` of rows of `definitions` that an import restores or changes: what was archived runs again. */
export const pausesOfRestored = (): RawBuilder<unknown> =>
  sql`case when phase = 'RUNNING' then ${closed()} else pauses end`;

/** A published quest or adventure, and whether it is to run. */
export type Phased = { kind: string; key: string; phase: Phase };

/** Makes published definitions run, pause or end. @returns those that did something else before */
export const movePhases = async (
  { db, now }: Work,
  projectId: string,
  wanted: readonly Phased[],
): Promise<(Phased & { id: string })[]> => {
  if (wanted.length === 0) return [];
  const at = sql`${now.toISOString()}::timestamptz`;
  const { rows } = await sql<Phased & { id: string }>`
    update definitions d set phase = r.phase, updated_at = ${at},
      ended_at = case when r.phase = 'ENDED' then ${at} end,
      pauses = case r.phase when 'RUNNING' then ${closed()} when 'PAUSED' then ${lasting(closed())}
        else jsonb_set(${lasting(closed())}, '{-1,isEnd}', 'true') end
    from json_to_recordset(${JSON.stringify(wanted)}::json) as r(kind text, key text, phase text)
    where d.project_id = ${projectId} and d.kind = r.kind and d.key = r.key and d.status = 'ACTIVE'
      and d.phase <> r.phase
    returning d.id, d.kind, d.key, d.phase`.execute(db);
  return rows;
};
