import type { Json } from "../kernel/events/events.ts";
import { StepBudget } from "../kernel/step-budget.ts";

/**
 * The event as rules see it; `at` is its timestamp in ms, never later than now. A derived event carries the
 * id of its root: what they cause is one event's effect.
 */
export type RuleEvent = {
  id: string;
  type: string;
  at: number;
  properties: Json;
  /** 0 for the tracked event itself; +1 for each event that an effect of another brought about. */
  depth: number;
  /** Set on `system.schedule`: the one rule that it is for. */
  ruleId?: string;
  /** The rules that led to a derived event, from the root on. */
  via?: readonly RuleStep[];
};

/** A rule that acted on the way to an event. */
export type RuleStep = { ruleId: string; ruleKey: string };

/** Where the loop guard stepped in: the rules on the way, the one that was held at the end. */
export type LoopHit = { projectId: string; rootEventId: string; chain: readonly RuleStep[] };

/** An event that something asks about, and the budget that pays for the answer. */
export type Heard = { event: RuleEvent; root: { steps: StepBudget } };

/** An event of the past as definitions look at it; what they take is charged to `steps`. */
export const pastEvent = (event: Omit<RuleEvent, "depth">, steps = new StepBudget(Infinity)): Heard => ({
  event: { ...event, depth: 0 },
  root: { steps },
});
