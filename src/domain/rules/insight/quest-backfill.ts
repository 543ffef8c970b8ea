import { z } from "zod";
import { DESIGNERS } from "../../kernel/access.ts";
import type { Work } from "../../kernel/work.ts";
import type { ProjectPlan } from "../../evaluation/project-plan.ts";
import { advanceByCounts } from "../../evaluation/quests/advance.ts";
import { compileQuest, type CompiledQuest } from "../../evaluation/quests/compile.ts";
import type { Quest } from "../../evaluation/quests/quest.ts";
import { invalid } from "../../kernel/errors.ts";
import { locksOfQuest } from "../../economy/quests/change-quests.ts";
import type { Definition } from "../../economy/definitions/definition.ts";
import { jobKind } from "../../long-work/job-kind.ts";
import { queueJob } from "../../long-work/project-jobs.ts";
import { changePlayers } from "../../progression/change.ts";
import { loadPlans, projectPlans } from "../../progression/plan.ts";
import { recountNext } from "./recount-players.ts";

/**
 * Counts what players did before a quest was published, for its steps of LIFETIME and the counters of its
 * conditions, as `recountNext` does. Who has counted something begins it, if it starts by itself, and who has
 * reached a target has done the step: with rewards, once, as if the counters had known it when it started.
 */
export const questBackfill = jobKind({
  kind: "QUEST_BACKFILL",
  access: { scope: "quests:manage", roles: DESIGNERS },
  params: z.object({ questId: z.uuid() }),
  step: async (work, { projectId, params, state }) => {
    const plan = (await loadPlans(work, [projectId], projectPlans)).get(projectId);
    if (!plan) return { result: { note: "the project is gone" } };
    const quest = [...plan.quests.byKey.values()].find(({ id }) => id === params.questId);
    const isThere = quest !== undefined && quest.phase !== "ENDED";
    return recountNext(work, plan, {
      metrics: isThere ? quest.metrics : undefined,
      gone: "the quest does not run any more",
      follow: (playerIds) => advance(work, plan, { quest: quest!, playerIds }),
      state,
    });
  },
});

/**
 * Queues the backfill of a quest that has just been published. @returns the job's id
 * @throws DomainError VALIDATION_ERROR for a quest that reads no counter; CONFLICT JOB_LIMIT
 */
export const orderQuestBackfill = async (
  work: Work,
  { projectId, quest, createdBy }: { projectId: string; quest: Definition; createdBy: string },
): Promise<string> => {
  const { metrics } = compileQuest({ id: quest.id, definition: quest.definition as unknown as Quest });
  if (metrics.length === 0)
    throw invalid("backfill", "nothing to count: no step has a countFrom of LIFETIME, or reads a counter");
  const job = { kind: questBackfill, params: { questId: quest.id }, createdBy };
  return (await queueJob(work, projectId, job)).id;
};

const advance = async (
  work: Work,
  plan: ProjectPlan,
  { quest, playerIds }: { quest: CompiledQuest; playerIds: readonly string[] },
): Promise<void> => {
  const input = { playerIds, ...locksOfQuest(plan, quest) };
  await changePlayers(work, plan.projectId, input, (turn) => {
    const isAdvanced = advanceByCounts(turn, quest);
    // Nothing else has happened to the player.
    if (!isAdvanced) turn.root.isTimeOnly = true;
  });
};
