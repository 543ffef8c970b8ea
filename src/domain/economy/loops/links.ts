import type { Json } from "../../kernel/events/events.ts";
import type { RuleDocument } from "../../evaluation/language/document.ts";
import { directCauses } from "./causes.ts";

/** What of a rule decides who can set it off, and whom it can: a small part of its document. */
export type RuleLinks = {
  name: string;
  /** Patterns of event types that set it off. */
  hears: readonly string[];
  /** The keys that it asks for at its top, where it reacts to one badge, say, and to no other. */
  subjects: readonly unknown[] | undefined;
  /** What its actions bring about by themselves. */
  direct: readonly string[];
  /** It cannot fire again and again. */
  isBounded: boolean;
};

export const linksOf = (rule: RuleDocument): RuleLinks => ({
  name: rule.name,
  hears: patternsHeard(rule),
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

/** A scheduled rule is set off by no event. */
const patternsHeard = ({ triggers }: RuleDocument): string[] => [
  ...new Set(triggers.flatMap((trigger) => ("eventTypes" in trigger ? trigger.eventTypes : []))),
];

/** Properties by which events of the service say what they are about. */
const SUBJECTS: ReadonlySet<unknown> = new Set([
  "badgeKey",
  "currencyKey",
  "streakKey",
  "segmentKey",
  "rewardKey",
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
