import type { z } from "zod";
import type { PlayerRef } from "../../kernel/events/events.ts";
import { PacedBudget } from "../../kernel/pace.ts";
import { metricId } from "../../evaluation/metrics/metric-id.ts";
import { projectPlans, readPlan } from "../../progression/plan.ts";
import type { ProjectPlan } from "../../evaluation/project-plan.ts";
import type { Turn } from "../../evaluation/turn.ts";
import type { Work } from "../../kernel/work.ts";
import { LAST_PLAYER, readPage, scratchTurn } from "./pages.ts";
import {
  compileSegment,
  type CompiledSegment,
  type SegmentConditions,
} from "../../evaluation/segments/segment.ts";

/**
 * Maximum number of players that a preview evaluates, the most recently created ones; fewer if each takes
 * long.
 */
export const PREVIEW_PLAYERS_MAX = 5_000;
const SAMPLE_MAX = 20;
/** Steps after which a preview stops: about 1 s of CPU. */
const PREVIEW_STEPS_MAX = 10_000_000;

export type SegmentPreview = {
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
  const steps = new PacedBudget(PREVIEW_STEPS_MAX);
  let before = LAST_PLAYER;
  while (!preview.isComplete && preview.evaluated < PREVIEW_PLAYERS_MAX && !steps.isSpent) {
    const page = await readPage(work, plan, { before });
    for (const player of page.players) {
      if (steps.isSpent) break;
      const turn = scratchTurn(plan, player, { nowMs: work.now.getTime(), steps });
      if (await isMember(segment, turn, steps)) {
        preview.count++;
        const { id: playerId, externalUserId } = player;
        if (preview.sample.length < SAMPLE_MAX) preview.sample.push({ playerId, externalUserId });
      }
      preview.evaluated++;
      before = player.id;
    }
    preview.isComplete = page.isLast && !steps.isSpent;
  }
  return preview;
};

/** Evaluates one player, and yields to other work in between. */
const isMember = async (segment: CompiledSegment, turn: Turn, steps: PacedBudget): Promise<boolean> => {
  const { root } = turn;
  const isIn = segment.test!(turn);
  steps.spend(segment.steps + root.steps.spent);
  await steps.pause();
  return isIn;
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
