import { keepAmounts } from "../caps/caps.ts";
import type { Effects, ExecutionRow, RecordedScore } from "../effects.ts";
import { ACTION_STEPS } from "../event-cost.ts";
import { type CompiledBudget, markOf, type Refusal } from "./budgets.ts";
import type { CompiledRule, RuleSet } from "./compile.ts";
import type { RuleStep } from "../rule-event.ts";
import { type Outcome, RuleFailure, type RuleReason } from "./outcome.ts";
import { isFlooded, recordLoop, saveTurn, type Turn, write } from "../turn.ts";
import { firstOf } from "../../kernel/first.ts";
import { newId } from "../../kernel/ids.ts";
import { type ActionRecord, actionRecordOf, keyOf, type SentAction } from "../actions/action.ts";
import { kindOf } from "../actions/action-kinds.ts";

/** Event types that the service sends to itself: for another player, and for a later time. */
export const SPAWNED_TYPES: ReadonlySet<string> = new Set(["system.grant", "system.delayed_action"]);

/** Events that the service itself stores; these types are reserved. */
const sentOf = ({ event }: Turn): SentAction => event.properties as SentAction;

const recordOf = (turn: Turn, { rule, rootEventId, firing }: SentAction): ActionRecord => {
  const kind = turn.event.type === "system.grant" ? "tgt" : "dly";
  return actionRecordOf(turn, rule, { key: keyOf(`${kind}:${rootEventId}`, rule, firing), rootEventId });
};

/** Performs actions as effects of a rule. @returns why one has failed; then some may have been performed */
const actAs = (step: RuleStep, { root }: Turn, act: () => void): string | undefined => {
  root.acting = step;
  try {
    act();
    return undefined;
  } catch (error) {
    if (!(error instanceof RuleFailure)) throw error;
    return `${error.actionId}: ${error.message}`;
  } finally {
    root.acting = undefined;
  }
};

/**
 * Performs the action that a `system.grant` or `system.delayed_action` event carries, as resolved when the
 * rule fired. Neither conditions nor limits are checked again.
 * @returns a message when it cannot be performed; then nothing has changed
 */
export const runSpawned = (turn: Turn): string | undefined => {
  const sent = sentOf(turn);
  const { type, ...resolved } = sent.action;
  const kind = kindOf(type);
  if (!kind) return `there is no action ${type}`;
  const { ruleId, ruleKey } = sent.rule;
  return actAs({ ruleId, ruleKey }, turn, () => kind.perform(turn, resolved, recordOf(turn, sent)));
};

/** Maximum effects recorded of a firing in SHADOW. */
const EFFECTS_MAX = 50;

/** Records that a rule fired, or would have. */
const recordExecution = (
  turn: Turn,
  { id: ruleId, version }: Pick<CompiledRule, "id" | "version">,
  what: Pick<ExecutionRow, "mode" | "effects">,
): void => {
  const { event, player, root } = turn;
  write(turn, "executions", {
    projectId: player.projectId,
    ruleId,
    id: newId(),
    ruleVersion: version,
    playerId: player.id,
    eventId: root.id,
    depth: event.depth,
    ...what,
  });
};

/**
 * Returns the scores that a firing has submitted, to be recorded with it; null for a rule that submits none.
 */
const submitted = (
  { definition }: Pick<CompiledRule, "definition">,
  { scores }: Effects,
  from: { scores: number },
): { scores: RecordedScore[] } | null =>
  definition.actions.some(({ type }) => type === "submit_score")
    ? { scores: scores.slice(from.scores) }
    : null;

type From = { outbox: number; spawned: number };

/** Returns what a firing would have published and sent, to be recorded when it is rolled back. */
const rehearsed = ({ outbox, spawned }: Effects, from: From): { type: string; data: unknown }[] =>
  [
    ...outbox.slice(from.outbox).map(({ type, data }) => ({ type, data })),
    ...spawned.slice(from.spawned).map(({ eventType, externalUserId, properties }) => ({
      type: eventType,
      data: { externalUserId, ...properties },
    })),
  ].slice(0, EFFECTS_MAX);

/** Maximum firings of a reentrant rule for one root; any other fires once. */
export const REENTRANT_MAX = 10;

const MATCHED: Outcome = { fired: true, reason: "MATCHED" };
const NOT_MET: Outcome = { fired: false, reason: "CONDITIONS_NOT_MET" };
const NOT_ACTIVE_YET: Outcome = { fired: false, reason: "NOT_ACTIVE_YET" };
const EXPIRED: Outcome = { fired: false, reason: "EXPIRED" };
const EXCLUDED: Outcome = { fired: false, reason: "ROLLOUT_EXCLUDED" };
const HOLDOUT: Outcome = { fired: false, reason: "HOLDOUT" };
const OUT_OF_STEPS: Outcome = { fired: false, reason: "STEPS_EXHAUSTED" };
const INELIGIBLE: Outcome = { fired: false, reason: "PLAYER_INELIGIBLE" };

/**
 * Runs the rules that listen to the turn's event on the turn's player, in order, each seeing the effects of
 * those before. A rule whose action fails has no effect at all. Rules do not fire for players who are not
 * ACTIVE.
 */
export const runRules = (ruleSet: RuleSet, turn: Turn): void => {
  const candidates = findCandidates(ruleSet, turn);
  if (candidates.length === 0) return;
  const stops = createStops();
  for (const rule of candidates) {
    const stoppedBy = stops.stoppedBy(rule);
    if (stoppedBy !== undefined) turn.root.observe?.(rule, { fired: false, reason: "STOPPED", stoppedBy });
    else if (considerRule(rule, turn).fired) stops.fired(rule);
  }
};

/** Returns the rules to be considered; none once the event has spent its steps. */
export const findCandidates = (ruleSet: RuleSet, { event, root }: Turn): readonly CompiledRule[] =>
  root.cost.isSpent ? NO_RULES : ruleSet.candidates(event);

const NO_RULES: readonly CompiledRule[] = [];

/**
 * Tracks which rules a rule with `stopOnMatch` has stopped for this event: those of its group, or all when it
 * has none. One in SHADOW stops nothing.
 */
type Stops = { fired(rule: CompiledRule): void; stoppedBy(rule: CompiledRule): string | undefined };

export const createStops = (): Stops => {
  let groups: Map<string, string> | undefined;
  let all: string | undefined;
  return {
    fired: ({ stopOnMatch, isShadow, exclusiveGroup, key }) => {
      if (!stopOnMatch || isShadow) return;
      if (exclusiveGroup === undefined) all = key;
      else (groups ??= new Map()).set(exclusiveGroup, key);
    },
    stoppedBy: ({ exclusiveGroup }) =>
      all ?? (exclusiveGroup === undefined ? undefined : groups?.get(exclusiveGroup)),
  };
};

export type ConsiderOptions = { ignoreLimits?: boolean };

/**
 * Runs one rule: schedule, rollout, conditions, limits, loop guard, actions, in that order. A rule whose
 * conditions exceed the event's steps does not fire, nor does any after it; actions that have begun are
 * completed, all of them.
 */
export const considerRule = (rule: CompiledRule, turn: Turn, options?: ConsiderOptions): Outcome => {
  const { steps, written, isSpent } = turn.root.cost;
  const [stepsBefore, writtenBefore] = [steps.spent, written.spent];
  const outcome = isSpent ? OUT_OF_STEPS : decide(rule, turn, options?.ignoreLimits === true);
  steps.record(rule.spender, stepsBefore);
  written.record(rule.spender, writtenBefore);
  turn.root.observe?.(rule, outcome);
  return outcome;
};

const decide = (rule: CompiledRule, turn: Turn, ignoreLimits: boolean): Outcome => {
  if (turn.player.status !== "ACTIVE") return INELIGIBLE;
  const inactive = outsideSchedule(rule, turn);
  if (inactive) return inactive;
  const bucket = rule.rollout?.(turn.player.id);
  if (bucket === "OUT") return EXCLUDED;
  const unmet = testConditions(rule, turn);
  if (unmet) return unmet;
  const isHeld = bucket === "HELD";
  const refusal = (ignoreLimits ? undefined : refusalOf(rule, turn, isHeld)) ?? loopRefusal(rule, turn);
  if (refusal) return { fired: false, ...refusal };
  return isHeld ? hold(rule, turn, ignoreLimits) : fire(rule, turn, ignoreLimits);
};

/** Returns why the rule's conditions prevent it from firing; undefined when they hold. */
const testConditions = (rule: CompiledRule, turn: Turn): Outcome | undefined => {
  if (turn.root.cost.take(rule.steps)) return OUT_OF_STEPS;
  return rule.test(turn) ? undefined : NOT_MET;
};

/** By the event's time; undefined inside the schedule. */
const outsideSchedule = (
  { activeFromMs, activeUntilMs }: CompiledRule,
  { event }: Turn,
): Outcome | undefined => {
  if (event.at < activeFromMs) return NOT_ACTIVE_YET;
  return event.at >= activeUntilMs ? EXPIRED : undefined;
};

/** Returns the first limit that prevents a firing. A held rule consumes none of the remaining limits. */
const refusalOf = (rule: CompiledRule, turn: Turn, isHeld: boolean): Refusal | undefined => {
  const refusal = rule.limits?.check(turn);
  return refusal || isHeld ? refusal : firstOf(rule.globalLimits, (limit) => limit.check(turn));
};

/**
 * Refuses repeated firings: a rule fires once for a root, a reentrant one REENTRANT_MAX times. A rule
 * triggered by its own effects is a loop, which is reported; being triggered twice is not.
 */
const loopRefusal = (
  { id, step, definition }: CompiledRule,
  turn: Turn,
): { reason: "LOOP_GUARD"; detail: string } | undefined => {
  const { root, event } = turn;
  if (isFlooded(turn)) {
    if (!root.guarded.includes(event.type)) root.guarded.push(event.type);
    return { reason: "LOOP_GUARD", detail: "the event has caused too many effects" };
  }
  const fired = root.firings.get(id) ?? 0;
  if (fired === 0 || (definition.reentrant && fired < REENTRANT_MAX)) return undefined;
  const via = event.via ?? [];
  if (via.some(({ ruleId }) => ruleId === id)) recordLoop(turn, [...via, step]);
  return { reason: "LOOP_GUARD", detail: `fired ${fired} times for this event` };
};

/** Records what a held player would have received. */
const hold = (rule: CompiledRule, turn: Turn, ignoreLimits: boolean): Outcome => {
  if (!ignoreLimits) rule.limits?.record(turn);
  if (!rule.isShadow) recordExecution(turn, rule, { mode: "HOLDOUT", effects: null });
  countFiring(rule, turn);
  return HOLDOUT;
};

const countFiring = ({ id }: CompiledRule, { root }: Turn): void =>
  void root.firings.set(id, (root.firings.get(id) ?? 0) + 1);

/** Performs all actions of a rule, or none; in SHADOW none, and records what they would have done. */
const fire = (rule: CompiledRule, turn: Turn, ignoreLimits: boolean): Outcome => {
  const budgets = ignoreLimits ? NO_BUDGETS : rule.budgets;
  const undo = mayBeUndone(rule, budgets) ? saveTurn(turn) : undefined;
  if (ignoreLimits) turn.root.ignoresCaps = true;
  const { gifts, effects, undone } = attempt(rule, turn, budgets);
  if (rule.isShadow && !undone) forget(rule, turn, undo);
  if (undone) {
    undo?.();
    return refused(rule, turn, undone);
  }
  if (!ignoreLimits) recordLimits(rule, turn, gifts);
  recordExecution(turn, rule, { mode: rule.isShadow ? "SHADOW" : "LIVE", effects });
  countFiring(rule, turn);
  return MATCHED;
};

/** Undoes what a rule in SHADOW has done, but for what its own caps have counted. */
const forget = ({ caps }: CompiledRule, turn: Turn, undo: (() => void) | undefined): void => {
  const keep = caps && keepAmounts(turn, caps);
  undo?.();
  keep?.();
};

const mayBeUndone = ({ isShadow, needsUndo }: CompiledRule, budgets: readonly CompiledBudget[]): boolean =>
  isShadow || needsUndo || budgets.length > 0;

type Attempt = { gifts: readonly number[]; effects: unknown; undone: RolledBack | undefined };

const attempt = (rule: CompiledRule, turn: Turn, budgets: readonly CompiledBudget[]): Attempt => {
  const mark = markOf(turn.effects);
  const failure = performActions(rule, turn);
  const gifts = budgets.map((budget) => budget.given(turn.effects, mark));
  const effects = rule.isShadow ? rehearsed(turn.effects, mark) : submitted(rule, turn.effects, mark);
  return { gifts, effects, undone: failure ?? exceededBy(budgets, turn, gifts) };
};

const NO_BUDGETS: readonly CompiledBudget[] = [];

/** Why a firing was rolled back; `budget` is the one that was insufficient. */
type RolledBack = { reason: RuleReason; detail: string; nextEligibleMs?: number; budget?: CompiledBudget };

const exceededBy = (
  budgets: readonly CompiledBudget[],
  turn: Turn,
  gifts: readonly number[],
): RolledBack | undefined =>
  firstOf(budgets.entries(), ([i, budget]) => {
    const refusal = budget.check(turn, gifts[i]!);
    return refusal && { ...refusal, budget };
  });

const refused = (rule: CompiledRule, turn: Turn, { budget, ...why }: RolledBack): Outcome => {
  if (budget && !rule.isShadow) budget.reportRefusal(turn, rule);
  return { fired: false, ...why };
};

const recordLimits = (rule: CompiledRule, turn: Turn, gifts: readonly number[]): void => {
  rule.limits?.record(turn);
  for (const limit of rule.globalLimits) limit.count(turn, 1);
  gifts.forEach((amount, i) => rule.budgets[i]!.add(turn, amount));
};

const performActions = ({ actions, step }: CompiledRule, turn: Turn): RolledBack | undefined => {
  turn.root.cost.take(ACTION_STEPS * actions.length);
  const detail = actAs(step, turn, () => {
    for (const action of actions) action(turn);
  });
  return detail === undefined ? undefined : { reason: "ACTION_FAILED", detail };
};
