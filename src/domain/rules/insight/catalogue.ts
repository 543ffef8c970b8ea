import { z } from "zod";
import { DERIVED_EVENT_TYPES, type Json, TRACKED_OWN_TYPES } from "../../kernel/events/events.ts";
import { AGGREGATES } from "../../evaluation/metrics/aggregates.ts";
import { ActionSchema } from "../../evaluation/actions/action-kinds.ts";
import { ConditionSchema } from "../../evaluation/conditions/condition-kinds.ts";
import { LIST_MAX, OPERATOR_NAMES, type OperatorName } from "../../evaluation/language/operators.ts";

/** What every kind of condition is for, those that are not available included. */
const CONDITIONS: Readonly<Record<string, string>> = {
  event_property: "A property of the event",
  player_property: "A field of the player as it is now",
  event_aggregate: "What the player's events add up to, this one included",
  streak: "The length of a streak, or the freezes held",
  progress_state: "Whether the player holds a badge; quests and adventures are not available yet",
  leaderboard_rank: "The player's standing on a leaderboard",
  segment: "The segments that the player is in",
  time_window: "Local days, dates and times of day",
};

const ACTIONS: Readonly<Record<string, string>> = {
  grant_xp: "Gives XP",
  adjust_currency: "Gives a currency, or takes it",
  adjust_lives: "Gives lives, takes them, refills them or makes them unlimited for a time",
  update_badge: "Awards a badge, adds progress to it or takes it away",
  update_quest: "Moves a quest or an adventure on",
  submit_score: "Submits a score to a leaderboard of CUSTOM",
  update_player: "Changes attributes, tags and membership in STATIC segments",
  grant_reward: "Gives a reward of the catalogue",
  apply_boost: "Multiplies what is granted later",
  emit_event: "Brings about an event of your own, for other rules, webhooks, the live stream or the inbox",
};

const NUMBERS: readonly OperatorName[] = ["eq", "neq", "gt", "gte", "lt", "lte", "between"];
const LISTS: readonly OperatorName[] = ["in", "not_in", "contains_any", "contains_all"];

/** The form of an operator's `value`. */
export type OperandKind = "NONE" | "RANGE" | "LIST" | "DURATION" | "SCALAR";

const operandOf = (name: OperatorName): OperandKind => {
  if (name === "exists" || name === "not_exists") return "NONE";
  if (name === "between") return "RANGE";
  if (name === "within_last" || name === "older_than") return "DURATION";
  return LISTS.includes(name) ? "LIST" : "SCALAR";
};

export type CatalogueItem = {
  type: string;
  summary: string;
  available: boolean;
  /** JSON Schema (draft 2020-12) as it is sent; `$ref` leads into `definitions`. Null: not available yet. */
  schema: Json | null;
};

export type Catalogue = {
  conditions: CatalogueItem[];
  actions: CatalogueItem[];
  operators: { name: string; operand: OperandKind; isNumeric: boolean }[];
  /** Members of a LIST operand. */
  listMax: number;
  aggregates: readonly string[];
  /** The service's own events that a rule can hear. */
  eventTypes: string[];
  definitions: Json;
};

type Branch = Json & { properties: { type: { const: string } } };

/** Schemas that share others refer to them as `#/definitions/…` of the catalogue. */
const toJsonSchema = () => {
  const both = z.object({ conditions: ConditionSchema, actions: ActionSchema });
  const schema = z.toJSONSchema(both, { io: "input", unrepresentable: "any" });
  const text = JSON.stringify(schema).replaceAll('"#/$defs/', '"#/definitions/');
  return JSON.parse(text) as {
    properties: Record<"conditions" | "actions", { oneOf: Branch[] }>;
    $defs?: Json;
  };
};

const itemsOf = (texts: Readonly<Record<string, string>>, branches: readonly Branch[]): CatalogueItem[] => {
  const byType = new Map(branches.map((branch) => [branch.properties.type.const, branch]));
  return Object.entries(texts).map(([type, summary]) => {
    const schema = byType.get(type) ?? null;
    return { type, summary, available: schema !== null, schema };
  });
};

let made: Catalogue | undefined;

/** Everything that rules are made of, for editors: the same for all projects. */
export const getCatalogue = (): Catalogue => {
  if (made) return made;
  const { properties, $defs = {} } = toJsonSchema();
  made = {
    conditions: itemsOf(CONDITIONS, properties.conditions.oneOf),
    actions: itemsOf(ACTIONS, properties.actions.oneOf),
    operators: OPERATOR_NAMES.map((name) => ({
      name,
      operand: operandOf(name),
      isNumeric: NUMBERS.includes(name),
    })),
    listMax: LIST_MAX,
    aggregates: AGGREGATES,
    eventTypes: [...DERIVED_EVENT_TYPES, ...TRACKED_OWN_TYPES].toSorted(),
    definitions: $defs,
  };
  return made;
};
