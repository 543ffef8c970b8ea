import type { Metric } from "../metrics/metric.ts";
import { conditionMetrics } from "./condition-metrics.ts";
import type { RuleDocument } from "./document.ts";
import { currencyOf } from "./references.ts";

/** The kinds of definitions that a rule can name by key. */
export type NamedKind = "currency" | "streak" | "badge" | "leaderboard" | "segment" | "reward";

/** One mention of another definition; `path` leads to it from the rule, such as `actions.0.currencyKey`. */
export type Mention = { kind: NamedKind; key: string; path: string };

/** What a rule reads and changes besides the event and the player's own fields. */
export type RuleNeeds = {
  metrics: readonly Metric[];
  mentions: readonly Mention[];
};

const KEY_FIELDS: Readonly<Record<string, NamedKind>> = {
  currencyKey: "currency",
  streakKey: "streak",
  badgeKey: "badge",
  leaderboardKey: "leaderboard",
  rewardKey: "reward",
  segmentKey: "segment",
  segmentKeys: "segment",
  addToSegments: "segment",
  removeFromSegments: "segment",
};
/** `currency:coins` and the like, of boosts and budgets. */
const ASSETS: Readonly<Record<string, NamedKind>> = {
  currency: "currency",
  score: "leaderboard",
  reward: "reward",
};
/** Fields that hold the integrator's own data: only a `$ref` in them names anything. */
const OWN_DATA: ReadonlySet<string> = new Set(["set", "increment", "properties", "meta", "value"]);
const PLAYER = "player.";

type Named = Pick<Mention, "kind" | "key">;

const namedBy = (owner: object, name: string, value: string): Named | undefined => {
  const kind = KEY_FIELDS[name];
  if (kind) return { kind, key: value };
  if (name === "applies" || name === "asset") return namedByAsset(value);
  if (name === "field") return namedByField(value);
  const isBadge = name === "key" && "entity" in owner && owner.entity === "badge";
  return isBadge ? { kind: "badge", key: value } : undefined;
};

const namedByAsset = (text: string): Named | undefined => {
  const [asset = "", key = ""] = text.split(":", 2);
  return Object.hasOwn(ASSETS, asset) ? { kind: ASSETS[asset]!, key } : undefined;
};

const namedByField = (field: string): Named | undefined => {
  const key = currencyOf(field);
  return key === undefined ? undefined : { kind: "currency", key };
};

const namedByReference = ($ref: string): Named | undefined =>
  $ref.startsWith(PLAYER) ? namedByField($ref.slice(PLAYER.length)) : undefined;

const textsOf = (value: unknown): string[] =>
  (Array.isArray(value) ? value : [value]).filter((one) => typeof one === "string");

/** Everything that a rule names, each mention with its place, for checks before it is published. */
export const needsOf = (rule: Pick<RuleDocument, "conditions" | "actions">): RuleNeeds => {
  const mentions: Mention[] = [];
  const look = (owner: object, [name, value]: [string, unknown], path: string, isOwn: boolean): void => {
    for (const text of textsOf(value)) {
      const plain = isOwn ? undefined : namedBy(owner, name, text);
      const named = name === "$ref" ? namedByReference(text) : plain;
      if (named) mentions.push({ ...named, path });
    }
  };
  const visit = (value: unknown, path: string, isOwn: boolean): void => {
    if (value === null || typeof value !== "object") return;
    for (const [name, inner] of Object.entries(value)) {
      const at = `${path}.${name}`;
      look(value, [name, inner], at, isOwn);
      visit(inner, at, isOwn || OWN_DATA.has(name));
    }
  };
  visit(rule.conditions, "conditions", false);
  visit(rule.actions, "actions", false);
  return { metrics: conditionMetrics(rule.conditions), mentions };
};
