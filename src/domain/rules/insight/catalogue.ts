import { z } from "zod";
import type { Json } from "../../kernel/events/events.ts";
import { DERIVED_EVENT_TYPES, TRACKED_OWN_TYPES } from "../../kernel/events/event-types.ts";
import { AGGREGATES } from "../../evaluation/metrics/aggregates.ts";
import { ACTION_SUMMARIES, ActionSchema } from "../../evaluation/actions/action-kinds.ts";
import { CONDITION_SUMMARIES, ConditionSchema } from "../../evaluation/conditions/condition-kinds.ts";
import { describeReference } from "../../evaluation/language/references.ts";
import { LIST_MAX, OPERATOR_NAMES, type OperatorName } from "../../evaluation/language/operators.ts";

type Summaries = readonly (readonly [type: string, summary: string])[];

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
  /** JSON Schema (draft 2020-12) of the action; `$ref` refers to `definitions`. Null: not available yet. */
  schema: Json | null;
};

export type Catalogue = {
  conditions: CatalogueItem[];
  actions: CatalogueItem[];
  operators: { name: string; operand: OperandKind; isNumeric: boolean }[];
  /** Maximum number of members of a LIST operand. */
  listMax: number;
  aggregates: readonly string[];
  /** The service's own events that can trigger a rule. */
  eventTypes: string[];
  definitions: Json;
};

type Branch = Json & { properties: { type: { const: string } } };

/** Schemas shared by others are referenced as `#/definitions/…` of the catalogue. */
const toJsonSchema = () => {
  const both = z.object({ conditions: ConditionSchema, actions: ActionSchema });
  const schema = z.toJSONSchema(both, {
    io: "input",
    unrepresentable: "any",
    override: describeReference,
  });
  const text = JSON.stringify(schema).replaceAll('"#/$defs/', '"#/definitions/');
  return JSON.parse(text) as {
    properties: Record<"conditions" | "actions", { oneOf: Branch[] }>;
    $defs?: Json;
  };
};

const itemsOf = (summaries: Summaries, branches: readonly Branch[]): CatalogueItem[] => {
  const byType = new Map(branches.map((branch) => [branch.properties.type.const, branch]));
  return summaries.map(([type, summary]) => {
    const schema = byType.get(type) ?? null;
    return { type, summary, available: schema !== null, schema };
  });
};

let made: Catalogue | undefined;

/** Returns all building blocks of rules, for editors: the same for all projects. */
export const getCatalogue = (): Catalogue => {
  if (made) return made;
  const { properties, $defs = {} } = toJsonSchema();
  made = {
    conditions: itemsOf(CONDITION_SUMMARIES, properties.conditions.oneOf),
    actions: itemsOf(ACTION_SUMMARIES, properties.actions.oneOf),
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
