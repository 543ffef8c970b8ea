import { throwUnlessOwn } from "../../kernel/outages.ts";
import { sql } from "kysely";
import { z } from "zod";
import { ADMINS } from "../../kernel/access.ts";
import { changePlayers } from "../../progression/change.ts";
import { fittingPlayers } from "../../progression/load-states.ts";
import type { Turn } from "../../evaluation/turn.ts";
import { jobKind, type JobInProgress, type Step } from "../../long-work/job-kind.ts";
import type { Work } from "../../kernel/work.ts";
import { savepoint } from "../../kernel/savepoint.ts";
import type { RewardBundle } from "../../evaluation/rewards/bundle.ts";
import { grantBundle } from "../../evaluation/rewards/grant-bundle.ts";

/** Number of players per step. */
const PAGE = 200;

const Params = z.object({
  segmentKey: z.string().optional(),
  playerIds: z.array(z.string()).optional(),
  /** Validated when the job was started: the schema may have changed since. */
  bundle: z.custom<RewardBundle>((given) => typeof given === "object" && given !== null),
  reason: z.string(),
});
type Params = z.output<typeof Params>;

/** Progress of the job; `offset` is into playerIds, `after` the last player of the segment. */
const State = z.object({
  offset: z.int().default(0),
  after: z.string().nullable().default(null),
  granted: z.int().default(0),
  skipped: z.int().default(0),
  failed: z.int().default(0),
});
type State = z.output<typeof State>;

const nextPage = async (
  { db }: Work,
  projectId: string,
  { segmentKey, playerIds }: Params,
  { offset, after }: State,
): Promise<string[]> => {
  if (playerIds) return playerIds.slice(offset, offset + PAGE);
  const found = await sql<{ player_id: string }>`
    select player_id from player_segments
    where project_id = ${projectId} and segment_key = ${segmentKey!}
      and (${after}::uuid is null or player_id > ${after}::uuid)
    order by player_id limit ${PAGE}`.execute(db);
  return found.rows.map(({ player_id }) => player_id);
};

/** @returns whether the grant was made: players who are not ACTIVE get none */
const give =
  ({ id, params: { bundle, reason }, createdBy }: JobInProgress<Params>) =>
  (turn: Turn): boolean => {
    if (turn.player.status !== "ACTIVE") return false;
    const cause = { kind: "API" as const, actor: createdBy, refId: id, note: reason };
    // The job's id prevents a second grant to a player, whatever happens to the job's state.
    grantBundle(turn, { bundle, cause, key: `bulk:${id}`, reason });
    return true;
  };

type Counts = Pick<State, "granted" | "skipped" | "failed">;

const givePage = async (
  work: Work,
  job: JobInProgress<Params>,
  playerIds: readonly string[],
): Promise<Counts> => {
  const { projectId, params } = job;
  const changed = await changePlayers(work, projectId, { playerIds, gives: [params.bundle] }, give(job));
  const granted = changed.filter(({ value }) => value).length;
  return { granted, skipped: playerIds.length - granted, failed: 0 };
};

/** One by one, so that a failing player does not keep the others from getting it. */
const giveEach = async (
  work: Work,
  job: JobInProgress<Params>,
  playerIds: readonly string[],
): Promise<Counts> => {
  const counts = { granted: 0, skipped: 0, failed: 0 };
  for (const playerId of playerIds) {
    try {
      const { granted, skipped } = await savepoint(work, () => givePage(work, job, [playerId]));
      counts.granted += granted;
      counts.skipped += skipped;
    } catch (error) {
      throwUnlessOwn(error);
      counts.failed++;
    }
  }
  return counts;
};

const step = async (work: Work, job: JobInProgress<Params>): Promise<Step> => {
  const state = State.parse(job.state);
  const { granted, skipped, failed } = state;
  const named = await nextPage(work, job.projectId, job.params, state);
  const page = await fittingPlayers(work, job.projectId, named);
  if (page.length === 0) return { result: { granted, skipped, failed } };
  const counts = await savepoint(work, () => givePage(work, job, page)).catch((error: unknown) => {
    throwUnlessOwn(error);
    return giveEach(work, job, page);
  });
  const offset = state.offset + page.length;
  const next: State = {
    offset,
    after: page.at(-1)!,
    granted: granted + counts.granted,
    skipped: skipped + counts.skipped,
    failed: failed + counts.failed,
  };
  const { playerIds } = job.params;
  return { state: next, progress: playerIds ? (100 * offset) / playerIds.length : 50 };
};

/** Grants a bundle to many players, page by page, exactly once each. */
export const bulkGrant = jobKind({
  kind: "BULK_GRANT",
  access: { scope: "players:write", roles: ADMINS },
  params: Params,
  step,
});
