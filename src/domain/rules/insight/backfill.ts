import { z } from "zod";
import { DESIGNERS } from "../../kernel/access.ts";
import { needsOf } from "../../evaluation/language/needs.ts";
import { jobKind } from "../../long-work/job-kind.ts";
import { loadPlans, projectPlans } from "../../progression/plan.ts";
import { recountNext } from "./recount-players.ts";

/** Counts what players did before a rule was published: the counters that it reads. See `recountNext`. */
export const backfill = jobKind({
  kind: "BACKFILL",
  access: { scope: "rules:manage", roles: DESIGNERS },
  params: z.object({ ruleId: z.uuid() }),
  step: async (work, { projectId, params, state }) => {
    const plan = (await loadPlans(work, [projectId], projectPlans)).get(projectId);
    if (!plan) return { result: { note: "the project is gone" } };
    const rule = plan.rules.all.find(({ id }) => id === params.ruleId);
    const metrics = rule && needsOf(rule.definition).metrics;
    return recountNext(work, plan, { metrics, gone: "the rule does not run any more", state });
  },
});
