import type { Json } from "../../kernel/events/events.ts";
import type { RuleDocument } from "./document.ts";
import type { Mention } from "./mention.ts";
import { needsOf } from "./needs.ts";

/** Mentions outside of conditions and actions: in budgets, caps and triggers by time. */
const otherMentions = (rule: RuleDocument): Mention[] => {
  const { limits, triggers } = rule as unknown as { limits?: Json; triggers: readonly Json[] };
  const ofLimits = ["budgets", "caps"].flatMap((name) => {
    const assets = Array.isArray(limits?.[name]) ? (limits[name] as Json[]) : [];
    return assets.flatMap(({ asset }, i): Mention[] => {
      const [kind = "", key] = String(asset).split(":", 2);
      if (key === undefined || (kind !== "currency" && kind !== "reward")) return [];
      return [{ kind, key, path: `limits.${name}.${i}.asset` }];
    });
  });
  const ofTriggers = triggers.flatMap(({ segmentKey }, i): Mention[] =>
    typeof segmentKey === "string"
      ? [{ kind: "segment", key: segmentKey, path: `triggers.${i}.segmentKey` }]
      : [],
  );
  return [...ofLimits, ...ofTriggers];
};

/** Returns everything that a rule names, with paths. */
export const mentionsOf = (rule: RuleDocument): Mention[] => [
  ...needsOf(rule).mentions,
  ...otherMentions(rule),
];
