import type { z } from "zod";
import { notFound } from "../errors.ts";
import type { PlayerRef } from "../events.ts";
import { metricId } from "../metrics/metric.ts";
import { loadPlan, type ProjectPlan } from "../progression/plan.ts";
import type { Work } from "../work.ts";
import { LAST_PLAYER, lookAtPage, SEGMENT_PAGE } from "./pages.ts";
import { compileSegment, type CompiledSegment, type SegmentConditions } from "./segment.ts";

/** Players that a preview looks at: the ones made last. */
export const PREVIEW_PLAYERS_MAX = 5_000;
const SAMPLE_MAX = 20;

export type SegmentPreview = {
  /** Players who meet the definition, of those evaluated. */
  count: number;
  sample: PlayerRef[];
  /** Players who were looked at, the newest first. */
  evaluated: number;
  /** Whether these were all players of the project. */
  isComplete: boolean;
  warnings: string[];
};

/** Works out who would be in a segment with this definition, without writing and without locks. */
export const previewSegment = async (
  work: Work,
  projectId: string,
  definition: z.output<typeof SegmentConditions>,
): Promise<SegmentPreview> => {
  const plan = await loadPlan(work, projectId);
  if (!plan) throw notFound("project");
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
  let before = LAST_PLAYER;
  while (!preview.isComplete && preview.evaluated < PREVIEW_PLAYERS_MAX) {
    const turns = await lookAtPage(work, plan, { before });
    for (const turn of turns) {
      if (!segment.test!(turn)) continue;
      preview.count++;
      const { id: playerId, externalUserId } = turn.player;
      if (preview.sample.length < SAMPLE_MAX) preview.sample.push({ playerId, externalUserId });
    }
    preview.evaluated += turns.length;
    preview.isComplete = turns.length < SEGMENT_PAGE;
    before = turns.at(-1)?.player.id ?? before;
  }
  return preview;
};

/** A counter is kept from when something first asks for it. */
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
