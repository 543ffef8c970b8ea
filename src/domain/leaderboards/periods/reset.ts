import { sql } from "kysely";
import { audit } from "../../accounts/audit/audit.ts";
import { changeConfig } from "../../kernel/config-lock.ts";
import { tenantOf } from "../../kernel/caller.ts";
import { conflict } from "../../kernel/errors.ts";
import type { Json } from "../../kernel/events/events.ts";
import { newId } from "../../kernel/ids.ts";
import type { Work } from "../../kernel/work.ts";
import type { Leaderboard } from "../../progression/leaderboard.ts";
import { isPlain } from "../../evaluation/boards/lists.ts";
import { getLeaderboard } from "../leaderboards.ts";
import { windowAt } from "../../evaluation/boards/windows.ts";
import { openBoard } from "./open.ts";

export type Reset = {
  leaderboard: Leaderboard;
  /** Number of lists that it closes, one for each value of the breakdown. */
  closing: number;
};

/** A board of total XP: its scores are the players' XP, before a reset as after it. */
const showsTotals = ({ definition: { metric, period } }: Leaderboard): boolean =>
  metric.source === "XP" && period.kind === "ALL_TIME";

/**
 * Closes a board's open lists and starts over at once: the previous lists close with their final order, with
 * prizes on request, and scores from before count as late from now on. No batch evaluates meanwhile, and
 * resets run one after another, each completely.
 * @throws DomainError NOT_FOUND; CONFLICT: LEADERBOARD_ARCHIVED, SHOWS_TOTALS
 */
export const resetLeaderboard = async (
  work: Work,
  projectId: string,
  { ref, awardPrizes, reason }: { ref: string; awardPrizes: boolean; reason?: string | undefined },
): Promise<Reset> => {
  await changeConfig(work, projectId);
  const leaderboard = await getLeaderboard(work, projectId, ref);
  if (leaderboard.status === "ARCHIVED")
    throw conflict("LEADERBOARD_ARCHIVED", "the leaderboard is archived");
  if (showsTotals(leaderboard))
    throw conflict(
      "SHOWS_TOTALS",
      "it shows the XP that players have in total, which a reset would not change",
    );
  const closing = await endLists(work, leaderboard, awardPrizes);
  leaderboard.periodId = newId();
  leaderboard.resets++;
  leaderboard.resetAt = work.now;
  leaderboard.version++;
  leaderboard.updatedAt = work.now;
  await openBoard(work, leaderboard);
  await auditReset(work, leaderboard, { awardPrizes, ...(reason === undefined ? {} : { reason }) });
  return { leaderboard, closing };
};

const auditReset = async (work: Work, { projectId, id, key }: Leaderboard, data: Json): Promise<void> => {
  // The server's own actions have no actor.
  if (!work.by) return;
  await audit(work, {
    action: "leaderboard.reset",
    target: { type: "leaderboard", id },
    tenantId: tenantOf(work.by.caller),
    data: { projectId, key, ...data },
  });
};

/** The only list of an ALL_TIME board has no row before it closes, unless the sweep has created one. */
const endLists = async (
  { db, now }: Work,
  { projectId, id, definition, periodId, resets, resetAt, createdAt }: Leaderboard,
  awardPrizes: boolean,
): Promise<number> => {
  const time = sql`${now.toISOString()}::timestamptz`;
  const since = sql`${(resetAt ?? createdAt).toISOString()}::timestamptz`;
  const { key } = windowAt({ period: definition.period, resets }, now.getTime()) ?? {};
  if (isPlain(definition))
    await sql`
      insert into leaderboard_periods
        (project_id, id, leaderboard_id, period_key, is_told, created_at, written_at)
      values (${projectId}, ${periodId}, ${id}, ${key!}, true, ${time}, ${time})
      on conflict (project_id, leaderboard_id, period_key, board) do update set id = excluded.id`.execute(db);
  const closed = await sql`
    update leaderboard_periods set status = 'CLOSING', close_at = ${time},
      starts_at = coalesce(starts_at, ${since}), ends_at = least(coalesce(ends_at, ${time}), ${time}),
      grants_prizes = grants_prizes and ${awardPrizes}
    where project_id = ${projectId} and leaderboard_id = ${id} and status = 'OPEN' returning 1`.execute(db);
  return closed.rows.length;
};
