import { type RawBuilder, sql } from "kysely";
import { PAUSES_MAX } from "../../evaluation/pauses.ts";
import { newId } from "../../kernel/ids.ts";

/**
 * `pauses` of rows of `definitions` that an import archives: what ran is paused until it is restored. To be
 * called once batches wait, as the next one.
 */
export const pausesOfArchived = (): RawBuilder<unknown> => sql`
  case when phase = 'RUNNING' then
    case when jsonb_array_length(pauses) >= ${sql.lit(PAUSES_MAX)} then pauses - 0
      else coalesce(pauses, '[]') end
    || jsonb_build_object('from', ${newId()}::text, 'until', null)
  else pauses end`;

/** `pauses` of rows of `definitions` that an import restores or changes: what was archived runs again. */
export const pausesOfRestored = (): RawBuilder<unknown> => sql`
  case when phase = 'RUNNING' and pauses -> -1 -> 'until' = 'null'
    then jsonb_set(pauses, '{-1,until}', to_jsonb(${newId()}::text))
  else pauses end`;
