import { outboxRow } from "../kernel/outbox-row.ts";
import { write } from "./event-steps.ts";
import type { RuleStep } from "./rule-event.ts";
import type { Turn } from "./turn.ts";

/** Steps from a tracked event to the last event it may bring about. */
export const DEPTH_MAX = 5;
/** Events that one tracked event may bring about. */
export const DERIVED_MAX = 100;

/** What one tracked event may tell, about, before it brings about no more: it is saved as one statement. */
export const TOLD_MAX = 10_000;

/** Whether the event has told so much that it may bring about no more. */
export const isFlooded = ({ root, effects }: Turn): boolean =>
  effects.outbox.length - root.toldBefore >= TOLD_MAX;

/** Whether what comes next would be one event too many; what is left is then cut. */
export const isGuarded = (turn: Turn): boolean => {
  const { root } = turn;
  const next = root.derived[root.taken]!;
  if (next.depth <= DEPTH_MAX && root.taken < DERIVED_MAX && !isFlooded(turn)) return false;
  root.guarded.push(...new Set(root.derived.slice(root.taken).map(({ type }) => type)));
  noteLoop(turn, next.via ?? []);
  return true;
};

/** Notes that the rule at the end of `chain` was held, once for each root. */
export const noteLoop = ({ root, project }: Turn, chain: readonly RuleStep[]): void => {
  if (chain.length > 0) root.loop ??= { projectId: project.projectId, rootEventId: root.id, chain };
};

/** Tells of the loop that was held, when there was one. */
export const tellLoop = (turn: Turn): void => {
  const { root } = turn;
  if (!root.loop) return;
  const { projectId, rootEventId, chain } = root.loop;
  const { ruleId, ruleKey } = chain.at(-1)!;
  const keys = chain.map((step) => step.ruleKey);
  const data = { ruleKey, ruleId, rootEventId, chain: keys, paused: false };
  const options = root.isTracked ? { eventId: root.id } : {};
  write(turn, "outbox", outboxRow(projectId, "rule.loop_detected", data, options));
};
