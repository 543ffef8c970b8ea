import type { Json } from "../../kernel/events/events.ts";
import type { RuleDocument } from "../../evaluation/language/document.ts";
import { directCauses } from "./causes.ts";

/** The small part of a rule's document that determines what triggers it and what it triggers. */
export type RuleLinks = {
  name: string;
  /** Patterns of event types that trigger it. */
  listensTo: readonly string[];
  /** The keys that it requires at its top level, for example when it reacts to a single badge. */
  subjects: readonly unknown[] | undefined;
  /** What its actions cause directly. */
  direct: readonly string[];
  /** Whether something keeps it from firing repeatedly. */
  isBounded: boolean;
};

export const linksOf = (rule: RuleDocument): RuleLinks => ({
  name: rule.name,
  listensTo: patternsOf(rule),
  subjects: subjectsOf(rule),
  direct: directCauses(rule),
  isBounded: isBounded(rule),
});

const isBounded = ({ limits, stopOnMatch }: RuleDocument): boolean => {
  if (stopOnMatch) return true;
  const {
    perPlayer = [],
    global = [],
    budgets = [],
    cooldownSeconds,
  } = (limits ?? {}) as {
    perPlayer?: unknown[];
    global?: unknown[];
    budgets?: unknown[];
    cooldownSeconds?: number;
  };
  return perPlayer.length + global.length + budgets.length > 0 || cooldownSeconds !== undefined;
};

/** A scheduled rule is triggered by no event. */
const patternsOf = ({ triggers }: RuleDocument): string[] => [
  ...new Set(triggers.flatMap((trigger) => ("eventTypes" in trigger ? trigger.eventTypes : []))),
];

/** Properties by which events of the service name their subject. */
const SUBJECTS: ReadonlySet<unknown> = new Set([
  "badgeKey",
  "currencyKey",
  "streakKey",
  "segmentKey",
  "rewardKey",
  "questKey",
  "adventureKey",
]);

const subjectsOf = ({ conditions }: RuleDocument): readonly unknown[] | undefined => {
  if (!("all" in conditions)) return undefined;
  for (const node of conditions.all as readonly Json[]) {
    const { type, path, op, value } = node;
    if (type !== "event_property" || !SUBJECTS.has(path)) continue;
    if (op === "eq" && typeof value === "string") return [value];
    if (op === "in" && Array.isArray(value)) return value;
  }
  return undefined;
};
