import type { Problem } from "./groups.ts";

/**
 * What the rule format has names for and this version does not do. Said in so many words, at the path,
 * because "unknown key" would send the reader looking for a typing error. A thing that becomes available
 * leaves this file.
 */
const CONDITION_TYPES = new Set([
  "event_aggregate",
  "streak",
  "progress_state",
  "leaderboard_rank",
  "segment",
]);
const ACTION_TYPES = new Set([
  "adjust_currency",
  "adjust_lives",
  "update_badge",
  "update_quest",
  "grant_reward",
  "apply_boost",
  "emit_event",
]);
const RULE_KEYS = ["rollout", "reentrant"];
const LIMIT_KEYS = ["global", "budgets"];
const ACTION_KEYS: ReadonlyMap<unknown, readonly string[]> = new Map([
  ["grant_xp", ["boostable"]],
  ["submit_score", ["meta"]],
  ["update_player", ["addToSegments", "removeFromSegments"]],
]);
const COMMON_ACTION_KEYS = ["delaySeconds"];
const PLAYER_VALUE = /^(player\.)?(lives$|currencies\.)/;

type Fields = Record<string, unknown>;

const fieldsOf = (value: unknown): Fields =>
  value !== null && typeof value === "object" && !Array.isArray(value) ? (value as Fields) : {};

const itemsOf = (value: unknown): unknown[] => (Array.isArray(value) ? value : []);

/** Finds every use of something that is not available yet; `document` is whatever a caller sent. */
export const unavailableProblems = (document: unknown): Problem[] => {
  const problems: Problem[] = [];
  const refuse = (path: PropertyKey[], what: string): void =>
    void problems.push({ path, message: `${what} is not available yet` });
  const refuseKeys = (fields: Fields, keys: readonly string[], path: PropertyKey[]): void => {
    for (const key of keys) if (Object.hasOwn(fields, key)) refuse([...path, key], key);
  };

  const rule = fieldsOf(document);
  refuseKeys(rule, RULE_KEYS, []);
  refuseKeys(fieldsOf(rule["limits"]), LIMIT_KEYS, ["limits"]);
  itemsOf(rule["triggers"]).forEach((trigger, i) => {
    if (fieldsOf(trigger)["kind"] === "SCHEDULE") refuse(["triggers", i, "kind"], "SCHEDULE");
  });
  itemsOf(rule["actions"]).forEach((action, i) => {
    const fields = fieldsOf(action);
    const { type } = fields;
    if (typeof type === "string" && ACTION_TYPES.has(type)) return refuse(["actions", i, "type"], type);
    const target = fields["target"] ?? "PLAYER";
    if (target !== "PLAYER") refuse(["actions", i, "target"], "a target other than PLAYER");
    refuseKeys(fields, [...COMMON_ACTION_KEYS, ...(ACTION_KEYS.get(type) ?? [])], ["actions", i]);
  });
  visit(document, [], (fields, path) => {
    const { type, field, $ref } = fields;
    if (typeof type === "string" && path[0] === "conditions" && CONDITION_TYPES.has(type))
      refuse([...path, "type"], type);
    if (typeof field === "string" && PLAYER_VALUE.test(field)) refuse([...path, "field"], field);
    if (typeof $ref === "string" && $ref.startsWith("player.") && PLAYER_VALUE.test($ref))
      refuse([...path, "$ref"], $ref);
  });
  return problems;
};

/** Deeper values cannot be part of a rule; the schemas refuse them. */
const VISIT_MAX_DEPTH = 32;

const visit = (
  value: unknown,
  path: PropertyKey[],
  look: (fields: Fields, path: PropertyKey[]) => void,
): void => {
  if (value === null || typeof value !== "object" || path.length > VISIT_MAX_DEPTH) return;
  if (!Array.isArray(value)) look(value as Fields, path);
  for (const [key, inner] of Object.entries(value))
    visit(inner, [...path, Array.isArray(value) ? Number(key) : key], look);
};
