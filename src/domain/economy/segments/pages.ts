import { z } from "zod";
import { noEffects } from "../../evaluation/effects.ts";
import { changeEvent, openTurn } from "../../evaluation/evaluate.ts";
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
import { newId } from "../../kernel/ids.ts";
import { Pace } from "../../kernel/slices.ts";
import { projectTime, type Work } from "../../kernel/work.ts";
import { changePlayers } from "../../progression/change.ts";
import { loadPage } from "../../progression/load-states.ts";
import { type PlayersFrom, readPlayersPage } from "../../progression/load.ts";
import { projectPlans, readPlan } from "../../progression/plan.ts";

/** Maximum number of players per transaction. */
const SEGMENT_PAGE = 500;
/** Sorts after every id. */
const LAST_PLAYER = "ffffffff-ffff-ffff-ffff-ffffffffffff";

export type Evaluated = {
  /** Players who were evaluated, and those of them who entered or left a segment. */
  evaluated: number;
  moved: number;
  /** Start of the next page; undefined after the last one. */
  next: string | undefined;
};

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
  await changePlayers(work, plan.projectId, moving, (turn) =>
    refreshAllSegments(turn.project.segmentIndex, turn, which),
  );
  const isLast = page.isLast && scanned.length === page.players.length;
  return {
    evaluated: scanned.length,
    moved: moving.length,
    next: isLast ? undefined : scanned.at(-1)!.id,
  };
};

/**
 * Maximum number of players that a preview evaluates, the most recently created ones; fewer if each takes
 * long.
 */
export const PREVIEW_PLAYERS_MAX = 5_000;
const SAMPLE_MAX = 20;
/** Time after which a preview stops, in ms. */
const PREVIEW_MS = 2_000;

/** The newest players who would be in a segment, among those that were evaluated. */
export const SegmentPreview = z
  .object({
    count: z.int().meta({ description: "Of the players that were evaluated" }),
    sample: z.array(z.object({ playerId: z.uuid(), externalUserId: z.string() })),
    evaluated: z.int(),
    isComplete: z.boolean().meta({ description: "Whether all players were evaluated" }),
    warnings: z.array(z.string()),
  })
  .meta({ id: "SegmentPreview" });
type SegmentPreview = z.output<typeof SegmentPreview>;

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
