import type { Json } from "../kernel/events/events.ts";

/**
 * An event as rules see it; `at` is its timestamp in ms, never later than now. A derived event carries the id
 * of its root: their effects count as those of one event.
 */
export type RuleEvent = {
  id: string;
  type: string;
  at: number;
  properties: Json;
  /** 0 for the tracked event itself; +1 for each level of derivation. */
  depth: number;
  /** Set on `system.schedule`: the one rule that it is for. */
  ruleId?: string;
  /** The rules that led to a derived event, from the root on. */
  via?: readonly RuleStep[];
};

/** A rule that led to an event. */
export type RuleStep = { ruleId: string; ruleKey: string };

/** A loop cut off by the loop guard: the rules that led to it, the held one last. */
export type LoopHit = { projectId: string; rootEventId: string; chain: readonly RuleStep[] };

/** An event to be evaluated. */
export type EventContext = { event: RuleEvent };

/** Builds a past event for evaluation. */
export const pastEvent = (event: Omit<RuleEvent, "depth">): EventContext => ({
  event: { ...event, depth: 0 },
});
