import { sql } from "kysely";
import { z } from "zod";
import { type Project, settingsOf } from "../../accounts/projects/project.ts";
import { getProject, type ProjectChange, updateProject } from "../../accounts/projects/projects.ts";
import type { Turn } from "../../evaluation/turn.ts";
import { levelOf } from "../../evaluation/xp/levels.ts";
import { grantLevelRewards } from "../../evaluation/xp/xp.ts";
import { DESIGNERS } from "../../kernel/caller.ts";
import type { Cause } from "../../kernel/events/events.ts";
import { countRows, type Work } from "../../kernel/work.ts";
import {
  type JobInProgress,
  jobKind,
  type ProjectJob,
  queueJob,
  type Step,
} from "../../long-work/project-jobs.ts";
import { changePlayers } from "../../progression/change.ts";
import { type CurvePut, getCurve, putCurve, type SavedCurve } from "../../progression/level-curves.ts";
import { fittingPlayers } from "../../progression/load-states.ts";

/** Number of players per step. */
const PAGE = 500;

/**
 * Sets the player's level according to the project's curve: `player.level_up` and the levels' rewards for a
 * rise, `player.updated` for a fall, which happens only where the project allows it. Players who are not
 * ACTIVE get no rewards.
 * @returns the number of levels gained or lost
 */
const relevel = (turn: Turn, cause: Cause): number => {
  const { player, project } = turn;
  const { xp, level: previousLevel, id: playerId, externalUserId } = player;
  const reached = levelOf(project.curve, xp);
  const newLevel = project.settings.allowLevelDown ? reached : Math.max(previousLevel, reached);
  player.level = newLevel;
  if (newLevel > previousLevel) {
    turn.emit("player.level_up", { playerId, externalUserId, previousLevel, newLevel, xp });
    if (player.status === "ACTIVE") grantLevelRewards(turn, previousLevel, newLevel);
  }
  if (newLevel < previousLevel) {
    const [before, after] = [{ level: previousLevel }, { level: newLevel }];
    turn.emit("player.updated", { playerId, externalUserId, changed: ["level"], before, after, cause });
  }
  return newLevel - previousLevel;
};

const Params = z.object({});
const State = z.object({
  after: z.uuid().nullable().default(null),
  seen: z.int().default(0),
  total: z.int().nullable().default(null),
  raised: z.int().default(0),
  lowered: z.int().default(0),
});

type Candidate = { id: string; differs: boolean };

const nextPage = async (work: Work, projectId: string, after: string | null): Promise<Candidate[]> => {
  const { thresholds } = await getCurve(work, projectId);
  const found = await sql<Candidate>`
    select id, level <> width_bucket(xp, ${`{${thresholds.join(",")}}`}::bigint[]) as differs from players
    where project_id = ${projectId} and status not in ('MERGED', 'ERASED')
      and (${after}::uuid is null or id > ${after}::uuid)
    order by id limit ${PAGE}`.execute(work.db);
  return found.rows;
};

const step = async (work: Work, { projectId, createdBy, ...job }: JobInProgress<object>): Promise<Step> => {
  const state = State.parse(job.state);
  const { raised, lowered } = state;
  const found = await nextPage(work, projectId, state.after);
  if (found.length === 0) return { result: { raised, lowered } };
  const differing = found.filter(({ differs }) => differs).map(({ id }) => id);
  const playerIds = await fittingPlayers(work, projectId, differing);
  const firstLeft = differing[playerIds.length];
  const page =
    firstLeft === undefined
      ? found
      : found.slice(
          0,
          found.findIndex(({ id }) => id === firstLeft),
        );
  const cause: Cause = { kind: "LEVEL", actor: createdBy };
  const changed = await changePlayers(work, projectId, playerIds, (turn) => relevel(turn, cause));
  const { total } =
    state.total === null ? await countRows(work, sql`players where project_id = ${projectId}`) : state;
  const seen = state.seen + page.length;
  const next = {
    after: page.at(-1)!.id,
    seen,
    total,
    raised: raised + changed.filter(({ value }) => value > 0).length,
    lowered: lowered + changed.filter(({ value }) => value < 0).length,
  };
  return { state: next, progress: (100 * seen) / Math.max(1, total ?? 0) };
};

/** Moves all players of a project to the levels of its curve, with events and rewards. */
export const levelRecalculation = jobKind({
  kind: "LEVEL_RECALC",
  access: { scope: "config:manage", roles: DESIGNERS },
  params: Params,
  step,
});

/**
 * Changes a project. Where levels may fall from now on (`allowLevelDown`), those that are above the curve's are
 * lowered by a job.
 * @param change changes this very entity
 * @throws DomainError CONFLICT JOB_LIMIT
 */
export const lettingLevelsFall = async (
  work: Work,
  { project, actor }: { project: Project; actor: string },
  change: () => Promise<unknown>,
): Promise<Project> => {
  const { allowLevelDown: couldFall } = settingsOf(project);
  await change();
  if (!couldFall && settingsOf(project).allowLevelDown) {
    await work.em.flush();
    await queueJob(work, project.id, { kind: levelRecalculation, params: {}, createdBy: actor });
  }
  return project;
};

/**
 * Changes a project as `updateProject` does, and lets levels fall.
 * @throws DomainError NOT_FOUND; CONFLICT JOB_LIMIT
 */
export const changeProject = async (
  work: Work,
  { tenantId, projectId, actor }: { tenantId: string; projectId: string; actor: string },
  change: ProjectChange,
): Promise<Project> => {
  const project = await getProject(work, tenantId, projectId);
  return lettingLevelsFall(work, { project, actor }, () => updateProject(work, tenantId, projectId, change));
};

/**
 * WITH_EVENTS: a job gives every player the new level, emits `player.level_up` and grants levels' rewards.
 */
type CurveSave = Omit<CurvePut, "recalculate"> & {
  recalculate: CurvePut["recalculate"] | "WITH_EVENTS";
};

/**
 * Saves a new version of the project's curve, and starts the job that applies it to players.
 * @throws DomainError VALIDATION_ERROR for a curve that does not rise; CONFLICT JOB_LIMIT
 */
export const saveCurve = async (
  work: Work,
  projectId: string,
  { recalculate, ...put }: CurveSave,
): Promise<{ curve: SavedCurve; job: ProjectJob | null }> => {
  const withEvents = recalculate === "WITH_EVENTS";
  const curve = await putCurve(work, projectId, { ...put, recalculate: withEvents ? "NONE" : recalculate });
  if (!withEvents) return { curve, job: null };
  const job = { kind: levelRecalculation, params: {}, createdBy: put.actor };
  return { curve, job: await queueJob(work, projectId, job) };
};
