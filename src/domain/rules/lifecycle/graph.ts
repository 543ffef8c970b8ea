import { sql } from "kysely";
import type { Stored } from "../../definitions/kind.ts";
import { loadDefinitions } from "../../definitions/load.ts";
import { isReservedType, type Json } from "../../events.ts";
import type { Work } from "../../work.ts";
import { ANY_KEY, createCauses, partsOf } from "./causes.ts";
import { cycleThrough, cyclicComponents } from "./components.ts";
import type { RuleDocument } from "../language/document.ts";
import { patternsOf } from "../language/patterns.ts";
import type { RuleStatus } from "../rule.ts";

/** Edges of one answer. */
export const GRAPH_EDGES_MAX = 5_000;

export type GraphRule = { id: string; key: string; status: RuleStatus; definition: RuleDocument };

export type GraphNode = {
  ruleId: string;
  key: string;
  name: string;
  status: RuleStatus;
  /** Patterns of event types that set it off. */
  listensTo: string[];
  /** Event types that it can bring about, also through rewards, badges and streaks. */
  causes: string[];
};
/** `from` brings about each type of `via`, which sets off `to`. Both are ids of rules. */
export type GraphEdge = { from: string; to: string; via: string[] };

/** Rules that can set one another off in a circle. */
export type Cycle = {
  rules: { ruleId: string; key: string }[];
  /** One way round: rules and the event types between them, by turns. */
  path: string[];
  /** A limit, cooldown, budget or `stopOnMatch` of a rule on it ends it. */
  isBounded: boolean;
};

export type RuleGraph = { nodes: GraphNode[]; edges: GraphEdge[]; cycles: Cycle[]; truncated: boolean };

/** Whether a rule cannot fire again and again. */
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

/** The patterns that a rule listens to; a scheduled one is set off by no event. */
export const patternsHeard = ({ triggers }: RuleDocument): string[] => [
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

/** The keys that a rule asks for at its top, where it reacts to one badge, say, and to no other. */
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

/**
 * Rules, what they cause and who hears it, as nodes of one graph: so its edges are as few as what is written
 * in the rules, not every pair of rules.
 */
type Net = { rules: readonly GraphRule[]; names: string[]; edges: number[][]; causes: Set<string>[] };

/** Nodes of rules that hear a pattern: of any key, and by the keys that they ask for. */
type Heard = { any: number | undefined; byKey: Map<unknown, number> };

const netOf = (rules: readonly GraphRule[], definitions: ReadonlyMap<string, readonly Stored[]>): Net => {
  const names = rules.map(({ key }) => key);
  const edges: number[][] = rules.map(() => []);
  const newNode = (name: string): number => {
    names.push(name);
    return edges.push([]) - 1;
  };
  const heard = new Map<string, Heard>();
  rules.forEach(({ definition }, rule) => {
    const keys = subjectsOf(definition);
    for (const pattern of patternsHeard(definition)) {
      const nodes = heard.get(pattern) ?? { any: undefined, byKey: new Map() };
      heard.set(pattern, nodes);
      if (!keys) edges[(nodes.any ??= newNode(""))]!.push(rule);
      for (const key of keys ?? []) {
        const node = nodes.byKey.get(key) ?? newNode("");
        nodes.byKey.set(key, node);
        edges[node]!.push(rule);
      }
    }
  });
  const nodes = new Map<string, number>();
  const nodeOf = (cause: string): number => {
    const known = nodes.get(cause);
    if (known !== undefined) return known;
    const node = newNode(partsOf(cause).type);
    nodes.set(cause, node);
    edges[node]!.push(...hearersOf(cause, heard));
    return node;
  };
  const causesOf = createCauses(definitions);
  const causes = rules.map(({ definition }) => causesOf(definition));
  causes.forEach((found, rule) => edges[rule]!.push(...[...found].map(nodeOf)));
  return { rules, names, edges, causes };
};

const hearersOf = (cause: string, heard: ReadonlyMap<string, Heard>): number[] => {
  const { type, key } = partsOf(cause);
  return patternsOf(type).flatMap((pattern) => {
    const nodes = heard.get(pattern);
    if (!nodes) return [];
    const keyed = key === ANY_KEY || isCustom(type) ? [...nodes.byKey.values()] : [nodes.byKey.get(key)];
    return [nodes.any, ...keyed].filter((node) => node !== undefined);
  });
};

/** Of an integrator's own event nobody knows what its properties hold. */
const isCustom = (type: string): boolean => !isReservedType(type);

const cyclesOf = ({ rules, names, edges }: Net): Cycle[] =>
  cyclicComponents(edges).map((component) => {
    const members = component.filter((node) => node < rules.length).toSorted((a, b) => a - b);
    const way = cycleThrough(edges, members[0]!, new Set(component));
    return {
      rules: members.map((node) => ({ ruleId: rules[node]!.id, key: rules[node]!.key })),
      path: way.map((node) => names[node]!).filter((name) => name !== ""),
      isBounded: members.some((node) => isBounded(rules[node]!.definition)),
    };
  });

/** Who can set off whom. `truncated`: there are more edges than GRAPH_EDGES_MAX; the cycles are all there. */
export const graphOf = (
  rules: readonly GraphRule[],
  definitions: ReadonlyMap<string, readonly Stored[]>,
): RuleGraph => {
  const net = netOf(rules, definitions);
  const nodes = rules.map(({ id, key, status, definition }, i) => ({
    ruleId: id,
    key,
    name: definition.name,
    status,
    listensTo: patternsHeard(definition),
    causes: [...new Set([...net.causes[i]!].map((cause) => partsOf(cause).type))].toSorted(),
  }));
  const edges = edgesOf(net);
  const truncated = edges.length > GRAPH_EDGES_MAX;
  return { nodes, edges: edges.slice(0, GRAPH_EDGES_MAX), cycles: cyclesOf(net), truncated };
};

/** Stops one past the limit, so that a project of a thousand rules on `*` costs no more. */
const edgesOf = ({ rules, edges, names }: Net): GraphEdge[] => {
  const found = new Map<string, GraphEdge>();
  for (const [from, { id }] of rules.entries()) {
    for (const type of edges[from]!) {
      for (const to of edges[type]!.flatMap((pattern) => edges[pattern]!)) {
        const key = `${from} ${to}`;
        const edge = found.get(key) ?? { from: id, to: rules[to]!.id, via: [] };
        found.set(key, edge);
        if (!edge.via.includes(names[type]!)) edge.via.push(names[type]!);
      }
      if (found.size > GRAPH_EDGES_MAX) return [...found.values()];
    }
  }
  return [...found.values()];
};

type Row = { id: string; key: string; status: RuleStatus; definition: RuleDocument };

const loadRules = async (
  { db }: Work,
  projectId: string,
  statuses: readonly RuleStatus[],
): Promise<Row[]> => {
  const found = await sql<Row>`
    select r.id, r.key, r.status, v.definition from rules r
    join rule_versions v on v.rule_id = r.id and v.version = r.published_version
    where r.project_id = ${projectId} and r.status = any(${`{${statuses.join(",")}}`}::text[])
    order by r.created_at, r.id`.execute(db);
  return found.rows;
};

/** The graph of a project's published rules, paused ones included. */
export const getGraph = async (work: Work, projectId: string): Promise<RuleGraph> =>
  graphOf(
    await loadRules(work, projectId, ["ACTIVE", "SHADOW", "PAUSED"]),
    await loadDefinitions(work, projectId),
  );

/** The cycles that a project would have with `rule` among those that run; only those it is part of. */
export const cyclesWith = async (work: Work, projectId: string, rule: GraphRule): Promise<Cycle[]> => {
  const running = await loadRules(work, projectId, ["ACTIVE", "SHADOW"]);
  const rules = [...running.filter(({ id, key }) => id !== rule.id && key !== rule.key), rule];
  const cycles = cyclesOf(netOf(rules, await loadDefinitions(work, projectId)));
  return cycles.filter((cycle) => cycle.rules.some(({ ruleId }) => ruleId === rule.id));
};
