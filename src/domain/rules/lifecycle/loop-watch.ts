import { sql } from "kysely";
import { changeConfig, type Work } from "../../kernel/work.ts";
import type { LeftOut } from "../../evaluation/running/outcome.ts";
import type { StepsHit } from "../../evaluation/turn.ts";
import type { LoopHit } from "../../evaluation/rule-event.ts";
import { pauseByEngine, type PauseReason } from "./publishing.ts";
import { planAllSchedules } from "../schedules.ts";

/** Number of events within LOOPS_SPAN_MS whose steps one rule may exhaust before a process pauses it. */
export const STEPS_HITS_MAX = 100;
/** Number of loops within LOOPS_SPAN_MS that one rule may cause before a process pauses it. */
export const LOOPS_MAX = 100;
export const LOOPS_SPAN_MS = 10 * 60_000;
/** Maximum number of rules whose loops a process remembers; the oldest entry is evicted. */
const RULES_REMEMBERED_MAX = 1_000;

/** Counts, in one process, the events in which the engine had to hold a rule. */
export type RuleWatch = {
  /** @returns whether the limit is reached, so that the rule must be paused; then the count restarts */
  hit(ruleId: string, nowMs: number): boolean;
};

/** @param max hits within LOOPS_SPAN_MS that are too many */
export const createRuleWatch = (max: number): RuleWatch => {
  const times = new Map<string, number[]>();
  return {
    hit: (ruleId, nowMs) => {
      const recent = (times.get(ruleId) ?? []).filter((ms) => ms > nowMs - LOOPS_SPAN_MS);
      recent.push(nowMs);
      if (recent.length >= max) {
        times.delete(ruleId);
        return true;
      }
      if (!times.has(ruleId) && times.size >= RULES_REMEMBERED_MAX) times.delete(times.keys().next().value!);
      times.set(ruleId, recent);
      return false;
    },
  };
};

/**
 * Pauses a rule that exhausts the steps of one event after another, and reports it. In a transaction of its
 * own, as pauseLoopingRule.
 */
export const pauseExpensiveRule = async (
  work: Work,
  { projectId, rootEventId, spender }: StepsHit,
): Promise<void> => {
  if (!(await pauseByEngine(work, projectId, spender.id, "STEPS"))) return;
  work.emit(projectId, "event.steps_exhausted", { ...spender, rootEventId, paused: true });
};

/**
 * Pauses a rule that cannot be evaluated, without reading its documents: their size may be the problem. In a
 * transaction of its own, as pauseLoopingRule.
 */
export const pauseUnfitRule = async (
  work: Work,
  projectId: string,
  { id, version }: LeftOut,
): Promise<void> => {
  await changeConfig(work, projectId);
  const reason: PauseReason = "UNFIT";
  const { rows } = await sql<{ key: string }>`
    update rules set status = 'PAUSED', pause_reason = ${reason},
      updated_at = ${work.now.toISOString()}::timestamptz
    where project_id = ${projectId} and id = ${id} and published_version = ${version}
      and status in ('ACTIVE', 'SHADOW')
    returning key`.execute(work.db);
  if (rows.length > 0) await planAllSchedules(work, projectId, [{ id, running: undefined }]);
};

/**
 * Pauses the rule at the end of a loop, and reports it. In a transaction of its own: a batch keeps the
 * definitions locked as they are.
 */
export const pauseLoopingRule = async (work: Work, hit: LoopHit): Promise<void> => {
  const { projectId, rootEventId, chain } = hit;
  const { ruleId, ruleKey } = chain.at(-1)!;
  if (!(await pauseByEngine(work, projectId, ruleId, "LOOP_GUARD"))) return;
  const keys = chain.map((step) => step.ruleKey);
  work.emit(projectId, "rule.loop_detected", { ruleKey, ruleId, rootEventId, chain: keys, paused: true });
};
