import { saveTurn } from "../progression/snapshot.ts";
import type { Turn } from "../progression/turn.ts";
import type { CompiledRule, RuleSet } from "./compile.ts";
import { RuleFailure } from "./failures.ts";

/** Why a rule fired or did not. */
export type RuleReason =
  | "MATCHED"
  | "CONDITIONS_NOT_MET"
  | "NOT_ACTIVE_YET"
  | "EXPIRED"
  | "LIMIT_REACHED"
  | "COOLDOWN"
  | "STOPPED"
  | "ACTION_FAILED"
  | "PLAYER_INELIGIBLE";

export type Outcome = {
  fired: boolean;
  reason: RuleReason;
  detail?: string;
  /** When the limit that refused lets the rule fire again, in ms. */
  nextEligibleMs?: number;
  stoppedBy?: string;
};

const MATCHED: Outcome = { fired: true, reason: "MATCHED" };
const NOT_MET: Outcome = { fired: false, reason: "CONDITIONS_NOT_MET" };
const NOT_ACTIVE_YET: Outcome = { fired: false, reason: "NOT_ACTIVE_YET" };
const EXPIRED: Outcome = { fired: false, reason: "EXPIRED" };
const INELIGIBLE: Outcome = { fired: false, reason: "PLAYER_INELIGIBLE" };

/**
 * Runs the rules that listen to the turn's event on the turn's player, in order, each seeing what those
 * before it did. A rule whose action fails has no effect at all. Players who are not ACTIVE get nothing.
 */
export const runRules = (ruleSet: RuleSet, turn: Turn): void => {
  const candidates = ruleSet.candidates(turn.event);
  if (candidates.length === 0) return;
  const stops = createStops();
  for (const rule of candidates) {
    if (stops.stoppedBy(rule) !== undefined) continue;
    if (considerRule(rule, turn).fired) stops.fired(rule);
  }
};

/**
 * Which rules a rule with `stopOnMatch` has ended for this event: those of its group, or all when it has
 * none.
 */
export type Stops = { fired(rule: CompiledRule): void; stoppedBy(rule: CompiledRule): string | undefined };

export const createStops = (): Stops => {
  let groups: Map<string, string> | undefined;
  let all: string | undefined;
  return {
    fired: ({ stopOnMatch, exclusiveGroup, key }) => {
      if (!stopOnMatch) return;
      if (exclusiveGroup === undefined) all = key;
      else (groups ??= new Map()).set(exclusiveGroup, key);
    },
    stoppedBy: ({ exclusiveGroup }) =>
      all ?? (exclusiveGroup === undefined ? undefined : groups?.get(exclusiveGroup)),
  };
};

export type ConsiderOptions = { ignoreLimits?: boolean };

/** Runs one rule: schedule, conditions, limits, actions, in that order. */
export const considerRule = (rule: CompiledRule, turn: Turn, options?: ConsiderOptions): Outcome => {
  if (turn.player.status !== "ACTIVE") return INELIGIBLE;
  const inactive = outsideSchedule(rule, turn);
  if (inactive) return inactive;
  if (!rule.test(turn)) return NOT_MET;
  const limits = options?.ignoreLimits === true ? undefined : rule.limits;
  const refusal = limits?.check(turn);
  if (refusal) return { fired: false, ...refusal };
  const failure = act(rule, turn);
  if (failure) return { fired: false, reason: "ACTION_FAILED", detail: failure };
  limits?.record(turn);
  return MATCHED;
};

/** By the event's time; undefined inside the schedule. */
const outsideSchedule = (
  { activeFromMs, activeUntilMs }: CompiledRule,
  { event }: Turn,
): Outcome | undefined => {
  if (event.at < activeFromMs) return NOT_ACTIVE_YET;
  return event.at >= activeUntilMs ? EXPIRED : undefined;
};

/** Does all actions of a rule, or none: then it answers why. */
const act = (rule: CompiledRule, turn: Turn): string | undefined => {
  try {
    if (rule.needsUndo) actOrUndo(rule, turn);
    else for (const action of rule.actions) action(turn);
    return undefined;
  } catch (error) {
    if (!(error instanceof RuleFailure)) throw error;
    return `${error.actionId}: ${error.message}`;
  }
};

const actOrUndo = ({ actions }: CompiledRule, turn: Turn): void => {
  const restore = saveTurn(turn);
  try {
    for (const action of actions) action(turn);
  } catch (error) {
    restore();
    throw error;
  }
};
