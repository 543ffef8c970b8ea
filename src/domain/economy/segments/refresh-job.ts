import { sql } from "kysely";
import { z } from "zod";
import { DESIGNERS } from "../../kernel/access.ts";
import { countRows } from "../../kernel/counting.ts";
import { notFound } from "../../kernel/errors.ts";
import { jobKind } from "../../long-work/job-kind.ts";
import { FIRST_PLAYER, planOf, refreshPage } from "./pages.ts";

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
