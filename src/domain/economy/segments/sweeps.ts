import { type RawBuilder, sql } from "kysely";
import { z } from "zod";
import { DESIGNERS } from "../../kernel/caller.ts";
import { DomainError, notFound } from "../../kernel/errors.ts";
import { countRows, projectTime, type Work } from "../../kernel/work.ts";
import { jobKind, queueJob } from "../../long-work/project-jobs.ts";
import { changeEvent, noEffects, openTurn } from "../../evaluation/evaluate.ts";
import { metricId } from "../../evaluation/metrics/compile.ts";
import type { PlayerState } from "../../evaluation/player-state.ts";
import type { ProjectPlan } from "../../evaluation/project-plan.ts";
import {
  type CompiledSegment,
  compileSegment,
  refreshAllSegments,
  type SegmentConditions,
} from "../../evaluation/segments/membership.ts";
import { createSharedCounters } from "../../evaluation/shared-counters.ts";
import type { Turn } from "../../evaluation/turn.ts";
import type { PlayerRef } from "../../kernel/events/events.ts";
import { newId, NIL_ID } from "../../kernel/ids.ts";
import { Pace } from "../../kernel/slices.ts";
import { openGroupChange } from "../../progression/group-change.ts";
import { loadPage } from "../../progression/load-states.ts";
import { lockPlayersById, type PlayersFrom, readPlayersPage } from "../../progression/load.ts";
import { loadPlans, projectPlans, readPlan } from "../../progression/plan.ts";

/** Maximum number of players per transaction. */
const SEGMENT_PAGE = 500;
/** Sorts before every id. */
export const FIRST_PLAYER = NIL_ID;
/** Sorts after every id. */
const LAST_PLAYER = "ffffffff-ffff-ffff-ffff-ffffffffffff";

export type Evaluated = {
  /** Players who were evaluated, and those of them who entered or left a segment. */
  evaluated: number;
  moved: number;
  /** Start of the next page; undefined after the last one. */
  next: string | undefined;
};

/** Returns the plan shared by sweeps and changes by REST; undefined when the project is deleted. */
export const planOf = async (work: Work, projectId: string): Promise<ProjectPlan | undefined> =>
  (await loadPlans(work, [projectId], projectPlans)).get(projectId);

/** Time after which a page ends, in ms: as much again may follow for those who enter or leave. */
const PAGE_MS = 500;

/** Opens a turn that is never saved, to evaluate a player. */
const scratchTurn = (plan: ProjectPlan, player: PlayerState, nowMs: number): Turn =>
  openTurn({
    plan,
    player,
    event: changeEvent(newId(), nowMs),
    nowMs,
    effects: noEffects(),
    shared: createSharedCounters("REFUSED"),
  });

/** `isLast`: whether there are no further players. */
type Page = { players: PlayerState[]; isLast: boolean };

/** Reads a page of players with their state, without locks; fewer where they have much. */
const readPage = async (work: Work, plan: ProjectPlan, from: PlayersFrom): Promise<Page> => {
  const found = await readPlayersPage(work, plan.projectId, from, SEGMENT_PAGE);
  const players = await loadPage(work, found, plan);
  return { players, isLast: players.length === found.length && found.length < SEGMENT_PAGE };
};

/**
 * Refreshes the segments of a page of players: all of them, or only those that change with time. All players
 * are evaluated without locks, and only those who enter or leave are locked, evaluated again and written. A
 * page ends early where segments are expensive.
 */
export const refreshPage = async (
  work: Work,
  plan: ProjectPlan,
  { after, which }: { after: string; which: "ALL" | "TIMED" },
): Promise<Evaluated> => {
  const page = await readPage(work, plan, { after });
  const nowMs = projectTime(work, plan).getTime();
  const pace = new Pace(PAGE_MS);
  const scanned: PlayerState[] = [];
  for (const player of page.players) {
    if (scanned.length > 0 && pace.isOver) break;
    refreshAllSegments(plan.segmentIndex, scratchTurn(plan, player, nowMs), which);
    scanned.push(player);
    await pace.pause();
  }
  const moving = scanned.filter(({ dirty }) => dirty.segments.size > 0).map(({ id }) => id);
  if (moving.length > 0) await refreshPlayers(work, plan.projectId, { playerIds: moving, which });
  const isLast = page.isLast && scanned.length === page.players.length;
  return {
    evaluated: scanned.length,
    moved: moving.length,
    next: isLast ? undefined : scanned.at(-1)!.id,
  };
};

const refreshPlayers = async (
  work: Work,
  projectId: string,
  { playerIds, which }: { playerIds: readonly string[]; which: "ALL" | "TIMED" },
): Promise<void> => {
  let players: PlayerState[] = [];
  const { plan, open, settle, save } = await openGroupChange(work, {
    projectId,
    lock: async () => (players = [...(await lockPlayersById(work, projectId, playerIds)).values()]),
  });
  for (const player of new Set(players)) {
    const turn = open(player);
    refreshAllSegments(plan.segmentIndex, turn, which);
    await settle(turn);
  }
  await save();
};

/**
 * Maximum number of players that a preview evaluates, the most recently created ones; fewer if each takes
 * long.
 */
export const PREVIEW_PLAYERS_MAX = 5_000;
const SAMPLE_MAX = 20;
/** Time after which a preview stops, in ms. */
const PREVIEW_MS = 2_000;

type SegmentPreview = {
  /** Players who match the definition, among those evaluated. */
  count: number;
  sample: PlayerRef[];
  /** Number of evaluated players, newest first. */
  evaluated: number;
  /** Whether these were all players of the project. */
  isComplete: boolean;
  warnings: string[];
};

/** Computes who would be in a segment with this definition, without writing and without locks. */
export const previewSegment = async (
  work: Work,
  projectId: string,
  definition: z.output<typeof SegmentConditions>,
): Promise<SegmentPreview> => {
  const plan = await readPlan(work, projectId, projectPlans);
  const segment = compileSegment({
    id: "",
    definition: { key: "preview", name: "Preview", kind: "DYNAMIC", definition },
  });
  const preview: SegmentPreview = {
    count: 0,
    sample: [],
    evaluated: 0,
    isComplete: false,
    warnings: warningsOf(plan, segment),
  };
  const pace = new Pace(PREVIEW_MS);
  let before = LAST_PLAYER;
  while (!preview.isComplete && preview.evaluated < PREVIEW_PLAYERS_MAX && !pace.isOver) {
    const page = await readPage(work, plan, { before });
    for (const player of page.players) {
      if (pace.isOver) break;
      await pace.pause();
      if (segment.test!(scratchTurn(plan, player, work.now.getTime()))) {
        preview.count++;
        const { id: playerId, externalUserId } = player;
        if (preview.sample.length < SAMPLE_MAX) preview.sample.push({ playerId, externalUserId });
      }
      preview.evaluated++;
      before = player.id;
    }
    preview.isComplete = page.isLast && (page.players.length === 0 || before === page.players.at(-1)!.id);
  }
  return preview;
};

/** Returns warnings: a counter is only maintained once something uses it. */
const warningsOf = (plan: ProjectPlan, { metrics, inputs }: CompiledSegment): string[] => {
  const isCounted = (metric: CompiledSegment["metrics"][number]): boolean => {
    const id = metricId(metric);
    return metric.eventTypes.some((type) => plan.metrics.forEvent(type).some((known) => known.id === id));
  };
  const uncounted = metrics
    .filter((metric) => !isCounted(metric))
    .map(
      ({ aggregate, property, eventTypes }) =>
        `${aggregate}(${property ?? eventTypes.join(", ")}) is not counted yet: it begins when this is saved`,
    );
  const unknown = inputs.segmentKeys
    .filter((key) => !plan.segments.has(key))
    .map((key) => `there is no segment ${key}`);
  return [...uncounted, ...unknown];
};

const State = z.object({
  after: z.string().default(FIRST_PLAYER),
  evaluated: z.number().default(0),
  moved: z.number().default(0),
  /** Number of players at the start, for the progress; counted up to a bound. */
  total: z.number().optional(),
});

/** Evaluates every player of a project after its dynamic segments have changed. */
export const segmentRefresh = jobKind({
  kind: "SEGMENT_REFRESH",
  access: { scope: "config:manage", roles: DESIGNERS },
  params: z.object({}),
  step: async (work, { projectId, state }) => {
    const { after, ...sums } = State.parse(state);
    const plan = await planOf(work, projectId);
    if (!plan) throw notFound("project");
    const total = sums.total ?? (await countRows(work, sql`players where project_id = ${projectId}`)).total;
    const page = await refreshPage(work, plan, { after, which: "ALL" });
    const evaluated = sums.evaluated + page.evaluated;
    const moved = sums.moved + page.moved;
    if (page.next === undefined) return { result: { evaluated, moved } };
    return {
      state: { after: page.next, evaluated, moved, total },
      progress: (100 * evaluated) / Math.max(total, evaluated),
    };
  },
});

/** Interval at which time-dependent segments are evaluated, in ms. */
const SWEEP_EVERY_MS = 15 * 60_000;
/** Maximum number of noted changes, and so of projects, per transaction. */
export const CHANGES_AT_ONCE = 100;
/** When projects without segments that depend on time are swept. */
const NEVER = "infinity";
/** Instead of a digest, where a job could not be queued; and when that is tried again, in ms. */
const UNQUEUED = "";
const RETRY_MS = 5_000;

/** Digest of a project's dynamic segments: another one after each change that concerns players. */
const DIGEST = sql`md5(string_agg(id::text || ':' || version, ',' order by id))`;

/**
 * Whether segments have changed or a project's players are due. Both are look-ups in an index, whatever the
 * number of projects.
 */
export const areSegmentsDue = (at: Date): RawBuilder<unknown> => sql`(
  exists (select from segment_changes) or
  exists (select from segment_sweeps where due_at <= ${at.toISOString()}::timestamptz))`;

/**
 * Takes noted changes of segments: whatever made them (an operation, an import, a copy into a sandbox), a
 * trigger noted them in its commit. Queues a SEGMENT_REFRESH for each project whose dynamic segments differ
 * from those with which its players were last evaluated. Works over all projects.
 * @returns the number of changes taken: with CHANGES_AT_ONCE there may be more
 */
export const queueSegmentRefreshes = async (work: Work): Promise<number> => {
  // The digests are read by a later statement: it sees every change whose note this one has taken.
  const taken = await sql<{ project_id: string }>`
    with taken as materialized (
      select project_id, seq from segment_changes
      order by project_id, seq limit ${CHANGES_AT_ONCE} for update skip locked)
    delete from segment_changes c using taken t
    where c.project_id = t.project_id and c.seq = t.seq returning c.project_id`.execute(work.db);
  const ids = [...new Set(taken.rows.map((row) => row.project_id))];
  if (ids.length === 0) return 0;
  const found = await sql<{ project_id: string; digest: string }>`
    with d as (
      select project_id, ${DIGEST} as digest
      from definitions where project_id = any(${`{${ids.join(",")}}`}::uuid[])
        and kind = 'segment' and status = 'ACTIVE' and definition->>'kind' = 'DYNAMIC'
      group by project_id)
    select d.project_id, d.digest from d
    join projects p on p.id = d.project_id and p.deleted_at is null
    left join segment_sweeps s on s.project_id = d.project_id
    where s.definitions is distinct from d.digest
    order by d.project_id`.execute(work.db);
  for (const { project_id: projectId, digest } of found.rows) await queueRefresh(work, projectId, digest);
  return taken.rows.length;
};

const queueRefresh = async (work: Work, projectId: string, digest: string): Promise<void> => {
  const dueAt = new Date(work.now.getTime() + SWEEP_EVERY_MS).toISOString();
  // The worker that makes this change queues the job: exactly one of several.
  const mine = await sql`
    insert into segment_sweeps as s (project_id, definitions, due_at)
    values (${projectId}, ${digest}, ${dueAt}::timestamptz)
    on conflict (project_id) do update set definitions = excluded.definitions, due_at = excluded.due_at,
      after_player = null
    where s.definitions <> excluded.definitions returning 1`.execute(work.db);
  if (mine.rows.length === 0) return;
  // A job that has not begun will use the latest segments.
  const waiting = await sql`
    select 1 from project_jobs where project_id = ${projectId} and kind = ${segmentRefresh.kind}
      and status = 'QUEUED' limit 1`.execute(work.db);
  if (waiting.rows.length > 0) return;
  try {
    await queueJob(work, projectId, { kind: segmentRefresh, params: {}, createdBy: "system" });
  } catch (error) {
    if (!(error instanceof DomainError)) throw error;
    // The project has reached its limit of jobs.
    const retryAt = new Date(work.now.getTime() + RETRY_MS).toISOString();
    await sql`
      update segment_sweeps set definitions = ${UNQUEUED}, due_at = ${retryAt}::timestamptz
      where project_id = ${projectId}`.execute(work.db);
  }
};

/** Has a project's players evaluated at once for time-dependent segments, if it has any. */
export const sweepSoon = async ({ db, serverNow }: Work, projectId: string): Promise<void> => {
  await sql`
    update segment_sweeps set due_at = ${serverNow.toISOString()}::timestamptz, after_player = null
    where project_id = ${projectId}::uuid and due_at < 'infinity'`.execute(db);
};

type DueRow = { project_id: string; definitions: string; after_player: string | null; is_there: boolean };

/**
 * Evaluates one page of players of the project that has waited longest, for time-dependent segments. Works
 * over all projects, and removes deleted ones.
 * @returns whether there was one
 */
export const sweepSegments = async (work: Work): Promise<boolean> => {
  const due = await sql<DueRow>`
    select project_id, definitions, after_player, exists (
        select 1 from projects p where p.id = project_id and p.deleted_at is null) as is_there
    from segment_sweeps where due_at <= ${work.now.toISOString()}::timestamptz
    order by due_at limit 1 for update skip locked`.execute(work.db);
  const [row] = due.rows;
  if (!row) return false;
  if (!row.is_there) {
    await sql`delete from segment_sweeps where project_id = ${row.project_id}`.execute(work.db);
    return true;
  }
  const { dueAt, after } = await sweepRow(work, row);
  await sql`
    update segment_sweeps set due_at = ${dueAt}::timestamptz, after_player = ${after}
    where project_id = ${row.project_id}`.execute(work.db);
  return true;
};

/** Does what is due for one project. @returns when it is due again, and where that begins */
const sweepRow = async (work: Work, row: DueRow): Promise<{ dueAt: string; after: string | null }> => {
  const at = (ms: number): string => new Date(work.now.getTime() + ms).toISOString();
  if (row.definitions === UNQUEUED) {
    await sql`insert into segment_changes (project_id) values (${row.project_id})`.execute(work.db);
    return { dueAt: NEVER, after: null };
  }
  const plan = await planOf(work, row.project_id);
  if (!plan?.segmentIndex.dynamic.some(({ isTimed }) => isTimed)) return { dueAt: NEVER, after: null };
  const { next } = await refreshPage(work, plan, { after: row.after_player ?? FIRST_PLAYER, which: "TIMED" });
  // Queued behind other due projects, so that projects alternate.
  return { dueAt: at(next === undefined ? SWEEP_EVERY_MS : 0), after: next ?? null };
};
