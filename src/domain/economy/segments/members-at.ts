import { type RawBuilder, sql } from "kysely";
import { invalid } from "../../kernel/errors.ts";
import type { Work } from "../../kernel/work.ts";

/** How long it is kept that a player was in a segment, after leaving it. */
export const SPELLS_KEPT_MS = 400 * 86_400_000;

type Of = { projectId: string; key: string; at: Date };

/** @throws DomainError VALIDATION_ERROR */
const checkKnown = async ({ db, now }: Work, { projectId, at }: Of): Promise<void> => {
  if (at > now) throw invalid("at", "must not be in the future");
  const found = await sql<{ since: Date | string | null }>`
    select spells_since as since from projects where id = ${projectId}`.execute(db);
  const sinceMs = new Date(found.rows[0]?.since ?? 0).getTime();
  const fromMs = Math.max(sinceMs, now.getTime() - SPELLS_KEPT_MS);
  if (at.getTime() < fromMs)
    throw invalid("at", `memberships are known since ${new Date(fromMs).toISOString()}`);
};

/**
 * Returns the members of a segment at a past moment as rows like those of `player_segments`: who is in it
 * since then or earlier, and who was in it. Of players that were merged, the one that is left.
 * @throws DomainError VALIDATION_ERROR for a moment of which they are not known
 */
export const membersAt = async (work: Work, of: Of): Promise<RawBuilder<unknown>> => {
  await checkKnown(work, of);
  const { projectId, key, at } = of;
  const moment = sql`${at.toISOString()}::timestamptz`;
  const isOf = sql`m.project_id = ${projectId} and m.segment_key = ${key} and m.entered_at <= ${moment}`;
  return sql`(
    select ${projectId}::uuid as project_id, ${key}::text as segment_key, player_id,
      min(entered_at) as entered_at
    from (
      select m.player_id, m.entered_at from player_segments m where ${isOf}
      union all
      select coalesce(p.merged_into, p.id), m.entered_at from segment_spells m
      join players p on p.project_id = m.project_id and p.id = m.player_id and p.status <> 'ERASED'
      where ${isOf} and m.left_at > ${moment}) m
    group by player_id)`;
};
