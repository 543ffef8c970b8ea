import { type RawBuilder, sql } from "kysely";
import { z } from "zod";
import { ACTION_SUMMARIES, ActionSchema } from "../../evaluation/actions/action-kinds.ts";
import { CONDITION_SUMMARIES, ConditionSchema } from "../../evaluation/conditions/condition-kinds.ts";
import { StoredRule } from "../../evaluation/language/document.ts";
import { LIST_MAX, OPERATOR_NAMES, type OperatorName } from "../../evaluation/language/operators.ts";
import { describeReference } from "../../evaluation/language/syntax.ts";
import { AGGREGATES } from "../../evaluation/metrics/aggregates.ts";
import { invalid } from "../../kernel/errors.ts";
import { DERIVED_EVENT_TYPES, TRACKED_OWN_TYPES } from "../../kernel/events/event-types.ts";
import type { Json } from "../../kernel/events/events.ts";
import { isId } from "../../kernel/ids.ts";
import { type RowOf, shownRow } from "../../kernel/json.ts";
import { PAGE_BYTES_MAX } from "../../kernel/paging.ts";
import type { Work } from "../../kernel/work.ts";
import { getPlayer } from "../../progression/players/players.ts";
import { findRule } from "../rules.ts";
import { withFormHints } from "./form-hints.ts";
import { Data } from "../../kernel/events/shapes.ts";

type Summaries = readonly (readonly [type: string, summary: string])[];

const NUMBERS: readonly OperatorName[] = ["eq", "neq", "gt", "gte", "lt", "lte", "between"];
const LISTS: readonly OperatorName[] = ["in", "not_in", "contains_any", "contains_all"];

/** The form of an operator's `value`. */
type OperandKind = "NONE" | "RANGE" | "LIST" | "DURATION" | "SCALAR";

const operandOf = (name: OperatorName): OperandKind => {
  if (name === "exists" || name === "not_exists") return "NONE";
  if (name === "between") return "RANGE";
  if (name === "within_last" || name === "older_than") return "DURATION";
  return LISTS.includes(name) ? "LIST" : "SCALAR";
};

const SCALARS = ["string", "number", "boolean", "null"] as const;
const ORDERED = ["string", "number"] as const;
/** Types of values that rules compare; a time is a string. */
export const VALUE_TYPES = [...SCALARS, "list", "time"] as const;
type ValueType = (typeof VALUE_TYPES)[number];

/** The types of values about which an operator says something. */
const VALUE_TYPES_OF: Readonly<Record<OperatorName, readonly ValueType[]>> = {
  eq: SCALARS,
  neq: SCALARS,
  gt: ORDERED,
  gte: ORDERED,
  lt: ORDERED,
  lte: ORDERED,
  between: ORDERED,
  in: SCALARS,
  not_in: SCALARS,
  contains: ["string", "list"],
  not_contains: ["string", "list"],
  contains_any: ["list"],
  contains_all: ["list"],
  starts_with: ["string"],
  ends_with: ["string"],
  glob: ["string"],
  exists: VALUE_TYPES,
  not_exists: VALUE_TYPES,
  before: ["time"],
  after: ["time"],
  within_last: ["time"],
  older_than: ["time"],
};

const CatalogueItem = z.object({
  type: z.string().meta({ example: "event_property" }),
  summary: z.string(),
  available: z.boolean(),
  schema: Data.nullable().meta({ description: "JSON Schema; null: not available yet" }),
});
type CatalogueItem = z.output<typeof CatalogueItem>;

export const Catalogue = z
  .object({
    conditions: z.array(CatalogueItem),
    actions: z.array(CatalogueItem),
    triggers: z.array(CatalogueItem),
    limits: Data.meta({ description: "JSON Schema of the limits of a rule" }),
    operators: z.array(
      z.object({
        name: z.string(),
        operand: z.enum(["NONE", "RANGE", "LIST", "DURATION", "SCALAR"]),
        isNumeric: z.boolean().meta({ description: "Also for conditions on numbers alone" }),
        valueTypes: z
          .array(z.enum(VALUE_TYPES))
          .meta({ description: "Types of values that it can say something about" }),
      }),
    ),
    listMax: z.int(),
    aggregates: z.array(z.string()),
    eventTypes: z.array(z.string()),
    definitions: Data.meta({ description: "Definitions that `$ref` of the schemas refers to" }),
  })
  .meta({ id: "RuleCatalogue" });
export type Catalogue = z.output<typeof Catalogue>;

type Branch = Json & { properties: Partial<Record<"type" | "kind", { const: string }>> };

const TRIGGER_SUMMARIES: Summaries = [
  ["EVENT", "Events of some types"],
  ["SCHEDULE", "Times, for every active player or the members of a segment"],
];

/** Schemas shared by others are referenced as `#/definitions/…` of the catalogue. */
const toJsonSchema = () => {
  const { triggers, limits } = StoredRule.shape;
  const parts = { triggers: triggers.element, limits: limits.unwrap() };
  const all = z.object({ conditions: ConditionSchema, actions: ActionSchema, ...parts });
  const schema = z.toJSONSchema(all, {
    io: "input",
    unrepresentable: "any",
    override: describeReference,
  });
  const { properties, $defs = {} } = schema;
  const hinted = {
    properties: Object.fromEntries(
      Object.entries(properties!).map(([name, one]) => [name, withFormHints(one)]),
    ),
    $defs: Object.fromEntries(Object.entries($defs).map(([name, one]) => [name, withFormHints(one)])),
  };
  const text = JSON.stringify(hinted).replaceAll('"#/$defs/', '"#/definitions/');
  return JSON.parse(text) as {
    properties: Record<"conditions" | "actions" | "triggers", { oneOf: Branch[] }> & { limits: Json };
    $defs: Json;
  };
};

const itemsOf = (summaries: Summaries, branches: readonly Branch[]): CatalogueItem[] => {
  const byType = new Map(
    branches.map((branch) => [(branch.properties.type ?? branch.properties.kind)!.const, branch]),
  );
  return summaries.map(([type, summary]) => {
    const schema = byType.get(type) ?? null;
    return { type, summary, available: schema !== null, schema };
  });
};

let made: Catalogue | undefined;

/** Returns all building blocks of rules, for editors: the same for all projects. */
export const getCatalogue = (): Catalogue => {
  if (made) return made;
  const { properties, $defs } = toJsonSchema();
  made = {
    conditions: itemsOf(CONDITION_SUMMARIES, properties.conditions.oneOf),
    actions: itemsOf(ACTION_SUMMARIES, properties.actions.oneOf),
    triggers: itemsOf(TRIGGER_SUMMARIES, properties.triggers.oneOf),
    limits: properties.limits,
    operators: OPERATOR_NAMES.map((name) => ({
      name,
      operand: operandOf(name),
      isNumeric: NUMBERS.includes(name),
      valueTypes: [...VALUE_TYPES_OF[name]],
    })),
    listMax: LIST_MAX,
    aggregates: [...AGGREGATES],
    eventTypes: [...DERIVED_EVENT_TYPES, ...TRACKED_OWN_TYPES].toSorted(),
    definitions: $defs,
  };
  return made;
};

export const EXECUTION_MODES = ["LIVE", "SHADOW", "HOLDOUT"] as const;
type ExecutionMode = (typeof EXECUTION_MODES)[number];

/** Maximum number of effects shown per firing. */
const EFFECTS_MAX = 50;

/** One firing of a rule, or a simulated one in SHADOW or HOLDOUT. */
export const Execution = z
  .object({
    id: z.uuid(),
    ruleId: z.uuid(),
    ruleVersion: z.int(),
    playerId: z.uuid(),
    externalUserId: z.string().nullable(),
    eventId: z.uuid().meta({ description: "The tracked event; of a change by REST an id of its own" }),
    depth: z.int().meta({ description: "Steps from the tracked event: 0 if it triggered the rule directly" }),
    mode: z.enum(EXECUTION_MODES).meta({ description: "HOLDOUT: the player was held back" }),
    effects: z
      .array(z.object({ type: z.string(), data: Data }))
      .nullable()
      .meta({ description: "Its effects; for SHADOW the simulated ones; null for HOLDOUT" }),
    revertedAt: z.iso.datetime().nullable(),
    createdAt: z.iso.datetime(),
  })
  .meta({ id: "RuleExecution" });
export type Execution = z.output<typeof Execution>;

type ListExecutions = {
  limit: number;
  /** Returns executions older than this one. */
  cursor?: string | undefined;
  /** UUID, or `ext:` and the external id. */
  playerId?: string | undefined;
  eventId?: string | undefined;
  mode?: ExecutionMode | undefined;
  from?: Date | undefined;
  to?: Date | undefined;
};

const filterOf = async (
  work: Work,
  projectId: string,
  { cursor, playerId, eventId, mode, from, to }: ListExecutions,
): Promise<RawBuilder<unknown>> => {
  const parts: RawBuilder<unknown>[] = [sql`true`];
  if (cursor !== undefined) parts.push(sql`x.id < ${cursor}::uuid`);
  if (mode !== undefined) parts.push(sql`x.mode = ${mode}`);
  if (from) parts.push(sql`x.created_at >= ${from.toISOString()}::timestamptz`);
  if (to) parts.push(sql`x.created_at < ${to.toISOString()}::timestamptz`);
  if (eventId !== undefined) {
    if (!isId(eventId)) throw invalid("eventId", "must be the id of an event");
    parts.push(sql`x.event_id = ${eventId}::uuid`);
  }
  if (playerId !== undefined) {
    const player = await getPlayer(work, projectId, playerId);
    parts.push(sql`x.player_id = ${player.id}::uuid`);
  }
  return sql.join(parts, sql` and `);
};

/**
 * Lists a rule's executions, newest first; a page ends at PAGE_BYTES_MAX of effects. The effects of a LIVE
 * one are read from the outbox, by its cause.
 * @throws DomainError NOT_FOUND: rule, player
 */
export const listExecutions = async (
  work: Work,
  projectId: string,
  ref: string,
  query: ListExecutions,
): Promise<{ executions: Execution[]; nextCursor: string | null }> => {
  const rule = await findRule(work, projectId, ref);
  const filter = await filterOf(work, projectId, query);
  const result = await sql<RowOf<Execution> & { found: number }>`
    with page as materialized (
    select x.*, p.external_user_id,
      case when x.mode = 'LIVE' then coalesce(o.effects, '[]') else x.effects end as shown
    from (
      select * from rule_executions x
      where x.project_id = ${projectId} and x.rule_id = ${rule.id} and ${filter}
      order by x.id desc limit ${query.limit + 1}) x
    left join players p on p.project_id = x.project_id and p.id = x.player_id
    left join lateral (
      select jsonb_agg(jsonb_build_object('type', e.type, 'data', e.data) order by e.player_seq) as effects
      from (
        select type, data, player_seq from outbox e
        where e.project_id = x.project_id and e.event_id = x.event_id and e.player_id = x.player_id
          and e.data->'cause'->>'ruleId' = ${rule.id}
        order by player_seq limit ${EFFECTS_MAX}) e) o on x.mode = 'LIVE'),
    sized as (select *, coalesce(octet_length(shown::text), 0) as bytes from page),
    summed as (select *, sum(bytes) over (order by id desc) as upto, count(*) over () as found,
      row_number() over (order by id desc) as nth from sized)
    select id, rule_id as "ruleId", rule_version as "ruleVersion", player_id as "playerId",
      external_user_id as "externalUserId", event_id as "eventId", depth, mode, shown as effects,
      reverted_at as "revertedAt", created_at as "createdAt", found
    from summed where upto <= ${PAGE_BYTES_MAX} or nth = 1 order by id desc`.execute(work.db);
  const rows = result.rows.slice(0, query.limit);
  const hasMore = (result.rows[0]?.found ?? 0) > rows.length;
  const nextCursor = hasMore ? rows.at(-1)!.id : null;
  return { executions: rows.map(({ found: _found, ...row }) => shownRow<Execution>(row)), nextCursor };
};
