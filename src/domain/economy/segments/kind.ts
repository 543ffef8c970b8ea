import { sql } from "kysely";
import { z } from "zod";
import { TOTAL_EXACT_MAX } from "../../kernel/counting.ts";
import { sharedDefinitions } from "../definitions/project-definitions.ts";
import { definitionKind } from "../definitions/kind.ts";
import { conflict, invalid } from "../../kernel/errors.ts";
import type { Work } from "../../kernel/work.ts";
import { inputsOf } from "../../evaluation/segments/inputs.ts";
import { countMembers } from "./member-counts.ts";
import { orderSegments, Segment, segmentShape, SEGMENTS_MAX } from "../../evaluation/segments/segment.ts";

const readSegments = async (work: Work, projectId: string): Promise<Segment[]> => {
  const definitions = sharedDefinitions(work, projectId);
  if (definitions) return definitions.all("segment").map(({ definition }) => definition as Segment);
  const found = await sql<{ definition: Segment }>`
    select definition from definitions
    where project_id = ${projectId} and kind = 'segment' and status = 'ACTIVE'`.execute(work.db);
  return found.rows.map(({ definition }) => definition);
};

const readBy = new WeakMap<Segment, readonly string[]>();

/** Returns the keys of the segments that a segment's conditions read. */
const segmentsReadBy = (segment: Segment): readonly string[] => {
  const known = readBy.get(segment) ?? inputsOf(segment.definition ?? { all: [] }).segmentKeys;
  readBy.set(segment, known);
  return known;
};

const check = async (
  work: Work,
  projectId: string,
  definition: Segment,
  before: Segment | undefined,
): Promise<void> => {
  if (before && before.kind !== definition.kind)
    throw invalid("kind", "cannot change: create another segment");
  if (!definition.definition) return;
  const known = await readSegments(work, projectId);
  const all = [...known.filter(({ key }) => key !== definition.key), definition];
  const order = orderSegments(all.map((one) => ({ key: one.key, segmentKeys: segmentsReadBy(one) })));
  if ("ring" in order)
    throw conflict("SEGMENT_CYCLE", `segments read one another: ${order.ring.join(" → ")}`);
};

export const segmentKind = definitionKind<Segment>({
  kind: "segment",
  plural: "segments",
  tag: "Segments",
  schema: Segment,
  shape: segmentShape,
  max: SEGMENTS_MAX,
  check,
  extra: {
    shape: { memberCount: z.int().describe(`Counted up to ${TOTAL_EXACT_MAX}`) },
    read: async (work, projectId, keys) => {
      const counts = await countMembers(work, projectId, keys);
      return new Map(keys.map((key) => [key, { memberCount: counts.get(key) ?? 0 }]));
    },
  },
});
