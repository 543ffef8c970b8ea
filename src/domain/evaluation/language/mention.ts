import type { LOOP_ROLES } from "../causes.ts";
import { currencyOf } from "./references.ts";

/** The kinds of definitions that a rule can name by key. */
export type NamedKind = Exclude<keyof typeof LOOP_ROLES, "level" | "boost"> | "leaderboard";

/** A mention of another definition; `path` leads to it from the rule, such as `actions.0.currencyKey`. */
export type Mention = { kind: NamedKind; key: string; path: string };

/** Returns the mentions of one or several keys in the field `path`; none where the field is absent. */
export const mentionsAt = (
  path: string,
  kind: NamedKind,
  keys: string | readonly string[] | undefined,
): Mention[] => {
  const all = typeof keys === "string" ? [keys] : (keys ?? []);
  return all.map((key) => ({ kind, key, path }));
};

const ASSETS: Readonly<Record<string, NamedKind>> = {
  currency: "currency",
  score: "leaderboard",
  reward: "reward",
};

/** Returns the mention in `currency:coins` and the like, of boosts and budgets; none for `xp` and `lives`. */
export const assetMentions = (path: string, asset: string): Mention[] => {
  const [name = "", key = ""] = asset.split(":", 2);
  return Object.hasOwn(ASSETS, name) ? mentionsAt(path, ASSETS[name]!, key) : [];
};

/** Returns the mention in a player's field: the currency of `currencies.coins`. */
export const fieldMentions = (path: string, field: string): Mention[] =>
  mentionsAt(path, "currency", currencyOf(field));
