import type { LoopHit } from "../../progression/turn.ts";
import type { Work } from "../../work.ts";
import { pauseByEngine } from "../lifecycle/publishing.ts";

/** Loops of one rule within LOOPS_SPAN_MS after which a process pauses it. */
export const LOOPS_MAX = 100;
export const LOOPS_SPAN_MS = 10 * 60_000;
/** Rules whose loops a process remembers; the one that looped first is forgotten. */
const RULES_REMEMBERED_MAX = 1_000;

/** Counts the loops that the guard has cut in one process. */
export type LoopWatch = {
  /** @returns whether the rule has looped so often that it is to be paused; then it counts from nothing */
  hit(hit: LoopHit, nowMs: number): boolean;
};

export const createLoopWatch = (): LoopWatch => {
  const times = new Map<string, number[]>();
  return {
    hit: ({ chain }, nowMs) => {
      const { ruleId } = chain.at(-1)!;
      const recent = (times.get(ruleId) ?? []).filter((ms) => ms > nowMs - LOOPS_SPAN_MS);
      recent.push(nowMs);
      if (recent.length >= LOOPS_MAX) {
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
 * Pauses the rule at the end of a loop, and tells it. In a transaction of its own: a batch holds the
 * definitions as they are.
 */
export const pauseLoopingRule = async (work: Work, hit: LoopHit): Promise<void> => {
  const { projectId, rootEventId, chain } = hit;
  const { ruleId, ruleKey } = chain.at(-1)!;
  if (!(await pauseByEngine(work, projectId, ruleId, "LOOP_GUARD"))) return;
  const keys = chain.map((step) => step.ruleKey);
  work.emit(projectId, "rule.loop_detected", { ruleKey, ruleId, rootEventId, chain: keys, paused: true });
};
