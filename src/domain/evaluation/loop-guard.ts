import { outboxRow } from "../kernel/outbox-row.ts";
import { write } from "./event-steps.ts";
import type { RuleStep } from "./rule-event.ts";
import type { Turn } from "./turn.ts";

/** Maximum chain length from a tracked event to a derived event. */
export const DEPTH_MAX = 5;
/** Maximum events derived from one tracked event. */
export const DERIVED_MAX = 100;

/**
 * Approximate maximum of outbox rows of one tracked event, which are saved as one statement, before
 * derivation stops.
 */
export const PUBLISHED_MAX = 10_000;

/** Returns whether the event has published so much that it may cause no more. */
export const isFlooded = ({ root, effects }: Turn): boolean =>
  effects.outbox.length - root.outboxBefore >= PUBLISHED_MAX;

/** Returns whether the next derived event would exceed a limit; the remaining ones are then dropped. */
export const isGuarded = (turn: Turn): boolean => {
  const { root } = turn;
  const next = root.derived[root.taken]!;
  if (next.depth <= DEPTH_MAX && root.taken < DERIVED_MAX && !isFlooded(turn)) return false;
  root.guarded.push(...new Set(root.derived.slice(root.taken).map(({ type }) => type)));
  recordLoop(turn, next.via ?? []);
  return true;
};

/** Records once per root that the rule at the end of `chain` was held. */
export const recordLoop = ({ root, project }: Turn, chain: readonly RuleStep[]): void => {
  if (chain.length > 0) root.loop ??= { projectId: project.projectId, rootEventId: root.id, chain };
};

/** Reports the loop that was held, if any. */
export const reportLoop = (turn: Turn): void => {
  const { root } = turn;
  if (!root.loop) return;
  const { projectId, rootEventId, chain } = root.loop;
  const { ruleId, ruleKey } = chain.at(-1)!;
  const keys = chain.map((step) => step.ruleKey);
  const data = { ruleKey, ruleId, rootEventId, chain: keys, paused: false };
  const options = root.isTracked ? { eventId: root.id } : {};
  write(turn, "outbox", outboxRow(projectId, "rule.loop_detected", data, options));
};
