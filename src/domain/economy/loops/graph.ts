import { z } from "zod";
import { sql } from "kysely";
import { createCauses, directCauses } from "./causes.ts";
import { ANY_KEY, partsOf } from "../../evaluation/causes.ts";
import type { RuleDocument } from "../../evaluation/language/document.ts";
import { patternsOf } from "../../evaluation/language/patterns.ts";
import type { Stored } from "../../evaluation/live.ts";
import { RULE_STATUSES, type RuleStatus } from "../../evaluation/running/outcome.ts";
import { isReservedType, RESERVED_EVENT_TYPES } from "../../kernel/events/event-types.ts";
import type { Json } from "../../kernel/events/events.ts";
import type { Work } from "../../kernel/work.ts";
import { loadDefinitions, loadVersions } from "../../progression/load-plan.ts";

/**
 * Finds the strongly connected components of a graph that contain a cycle, each a list of node numbers:
 * Tarjan 1972, without recursion so that a long chain cannot exhaust the stack. Time is linear in nodes and
 * edges.
 * @param edges for each node its successors
 */
export const cyclicComponents = (edges: readonly (readonly number[])[]): number[][] => {
  const index = new Int32Array(edges.length).fill(-1);
  const low = new Int32Array(edges.length);
  const isOpen = new Uint8Array(edges.length);
  const stack: number[] = [];
  const found: number[][] = [];
  let next = 0;

  const enter = (node: number): void => {
    index[node] = low[node] = next++;
    stack.push(node);
    isOpen[node] = 1;
  };
  const leave = (node: number): void => {
    if (low[node] !== index[node]) return;
    const component = stack.splice(stack.lastIndexOf(node));
    for (const member of component) isOpen[member] = 0;
    if (component.length > 1 || edges[node]!.includes(node)) found.push(component);
  };
  const visit = (start: number): void => {
    const path: [node: number, edge: number][] = [[start, 0]];
    enter(start);
    while (path.length > 0) {
      const top = path.at(-1)!;
      const [node, edge] = top;
      const target = edges[node]![edge];
      if (target === undefined) {
        path.pop();
        leave(node);
        const above = path.at(-1);
        if (above) low[above[0]] = Math.min(low[above[0]]!, low[node]!);
        continue;
      }
      top[1]++;
      if (index[target] === -1) {
        enter(target);
        path.push([target, 0]);
      } else if (isOpen[target] === 1) {
        low[node] = Math.min(low[node]!, index[target]!);
      }
    }
  };
  for (let node = 0; node < edges.length; node++) if (index[node] === -1) visit(node);
  return found;
};

/** Returns a shortest path from a node back to itself within `allowed` nodes; the node is at both ends. */
export const cycleThrough = (
  edges: readonly (readonly number[])[],
  start: number,
  allowed: ReadonlySet<number>,
): number[] => {
  const from = new Map<number, number>();
  const waiting = [start];
  for (let i = 0; i < waiting.length; i++) {
    const node = waiting[i]!;
    for (const target of edges[node]!) {
      if (target === start) return pathTo(from, node, start);
      if (!allowed.has(target) || from.has(target)) continue;
      from.set(target, node);
      waiting.push(target);
    }
  }
  return [];
};

const pathTo = (from: ReadonlyMap<number, number>, last: number, start: number): number[] => {
  const way = [start];
  for (let node = last; node !== start; node = from.get(node)!) way.unshift(node);
  return [start, ...way];
};

/** The small part of a rule's document that determines what triggers it and what it triggers. */
type RuleLinks = {
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

const linksOf = (rule: RuleDocument): RuleLinks => ({
  name: rule.name,
  listensTo: linkPatterns(rule),
  subjects: subjectsOf(rule),
  direct: directCauses(rule),
  isBounded: isRuleBounded(rule),
});

const isRuleBounded = ({ limits, stopOnMatch }: RuleDocument): boolean => {
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
const linkPatterns = ({ triggers }: RuleDocument): string[] => [
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

/** A rule with the properties that the graph needs. */
type LinkedRule = { id: string; key: string; status: RuleStatus; links: RuleLinks };

type Row = { id: string; key: string; status: RuleStatus; version: number };

/** Loads the published rules of a project with one of `statuses`, in order of creation. */
const loadLinkedRules = async (
  work: Work,
  projectId: string,
  statuses: readonly RuleStatus[],
): Promise<LinkedRule[]> => {
  const { rows } = await sql<Row>`
    select id, key, status, published_version as version from rules
    where project_id = ${projectId} and published_version is not null
      and status = any(${`{${statuses.join(",")}}`}::text[])
    order by created_at, id`.execute(work.db);
  const found = new Map<string, LinkedRule>();
  await loadVersions(work, rows, (row, definition) => found.set(row.id, linked({ ...row, definition })));
  return rows.map(({ id }) => found.get(id)!);
};

/** Maximum number of edges per response. */
export const GRAPH_EDGES_MAX = 5_000;

export type GraphRule = { id: string; key: string; status: RuleStatus; definition: RuleDocument };

export const RuleGraph = z
  .object({
    nodes: z.array(
      z.object({
        ruleId: z.uuid(),
        key: z.string(),
        name: z.string(),
        status: z.enum(RULE_STATUSES),
        listensTo: z.array(z.string()),
        causes: z.array(z.string()),
      }),
    ),
    edges: z.array(z.object({ from: z.uuid(), to: z.uuid(), via: z.array(z.string()) })),
    cycles: z.array(
      z.object({
        rules: z.array(z.object({ ruleId: z.uuid(), key: z.string() })),
        path: z.array(z.string()).meta({ description: "One way round: rules and event types by turns" }),
        isBounded: z.boolean().meta({ description: "A limit, cooldown, budget or stopOnMatch ends it" }),
      }),
    ),
    truncated: z.boolean(),
  })
  .meta({ id: "RuleGraph" });
export type RuleGraph = z.output<typeof RuleGraph>;
/** Rules that can trigger one another in a cycle: those on an endless one, or all on one that ends. */
export type Cycle = RuleGraph["cycles"][number];

/**
 * A graph whose nodes are rules, the events they cause and their subscriptions, so that its edges are as few
 * as the statements in the rules, not every pair of rules.
 */
type Net = { rules: readonly LinkedRule[]; names: string[]; edges: number[][]; causes: Set<string>[] };

/** Subscribers of a pattern: the node of rules without a key, and the rules that require one. */
type Subscribers = {
  isOfReserved: boolean;
  any: number | undefined;
  keyed: number[];
  /** Nodes of the rules that require a key, by key, as far as something has caused it. */
  byKey: Map<unknown, number | undefined>;
};

/** Whether a pattern matches types whose events name their subject. */
const matchesReserved = (pattern: string): boolean =>
  pattern.endsWith(".*")
    ? [...RESERVED_EVENT_TYPES].some((type) => type.startsWith(pattern.slice(0, -1)))
    : isReservedType(pattern);

const noSubscribers = (pattern: string): Subscribers => ({
  isOfReserved: matchesReserved(pattern),
  any: undefined,
  keyed: [],
  byKey: new Map(),
});

type Definitions = ReadonlyMap<string, readonly Stored[]>;

const netOf = (rules: readonly LinkedRule[], definitions: Definitions): Net => {
  const names = rules.map(({ key }) => key);
  const edges: number[][] = rules.map(() => []);
  const newNode = (name: string): number => {
    names.push(name);
    return edges.push([]) - 1;
  };
  const subscribers = new Map<string, Subscribers>();
  for (const [rule, { links }] of rules.entries()) {
    for (const pattern of links.listensTo) {
      const nodes = subscribers.get(pattern) ?? noSubscribers(pattern);
      subscribers.set(pattern, nodes);
      if (links.subjects && nodes.isOfReserved) nodes.keyed.push(rule);
      else edges[(nodes.any ??= newNode(""))]!.push(rule);
    }
  }
  const subjects = rules.map(({ links }) => links.subjects && new Set(links.subjects));
  const keyedNode = ({ keyed, byKey }: Subscribers, key: unknown): number | undefined => {
    if (byKey.has(key)) return byKey.get(key);
    const asking = key === ANY_KEY ? keyed : keyed.filter((rule) => subjects[rule]!.has(key));
    const node = asking.length === 0 ? undefined : newNode("");
    if (node !== undefined) edges[node] = asking;
    byKey.set(key, node);
    return node;
  };
  const subscribersOf = (cause: string): number[] => {
    const { type, key } = partsOf(cause);
    return patternsOf(type).flatMap((pattern) => {
      const nodes = subscribers.get(pattern);
      return nodes
        ? [nodes.any, keyedNode(nodes, isCustom(type) ? ANY_KEY : key)].filter((node) => node !== undefined)
        : [];
    });
  };
  const nodes = new Map<string, number>();
  const nodeOf = (cause: string): number => {
    const known = nodes.get(cause);
    if (known !== undefined) return known;
    const node = newNode(partsOf(cause).type);
    nodes.set(cause, node);
    edges[node] = subscribersOf(cause);
    return node;
  };
  const causesOf = createCauses(definitions);
  const causes: Set<string>[] = [];
  for (const [rule, { links }] of rules.entries()) {
    const found = causesOf(links.direct);
    causes.push(found);
    for (const cause of found) {
      edges[rule]!.push(nodeOf(cause));
    }
  }
  return { rules, names, edges, causes };
};

/** Properties of an integrator's own events are unknown. */
const isCustom = (type: string): boolean => !isReservedType(type);

const cyclesOf = ({ rules, names, edges }: Net): Cycle[] => {
  const without = edges.map((targets, node) => (rules[node]?.links.isBounded === true ? [] : targets));
  const toCycle = (component: number[], isBounded: boolean): Cycle => {
    const members = component.filter((node) => node < rules.length).toSorted((a, b) => a - b);
    const way = cycleThrough(isBounded ? edges : without, members[0]!, new Set(component));
    return {
      rules: members.map((node) => ({ ruleId: rules[node]!.id, key: rules[node]!.key })),
      path: way.map((node) => names[node]!).filter((name) => name !== ""),
      isBounded,
    };
  };
  const cycles: Cycle[] = [];
  const components = cyclicComponents(edges);
  if (components.length === 0) return cycles;
  // Without the rules that end every chain through them, all remaining cycles are endless.
  const endless = cyclicComponents(without);
  const isEndless = new Set(endless.flat());
  for (const component of endless) cycles.push(toCycle(component, false));
  for (const component of components) {
    if (component.some((node) => isEndless.has(node))) continue;
    cycles.push(toCycle(component, true));
  }
  return cycles;
};

const nodesOf = ({ rules, causes }: Net): RuleGraph["nodes"] =>
  rules.map(({ id, key, status, links }, i) => ({
    ruleId: id,
    key,
    name: links.name,
    status,
    listensTo: [...links.listensTo],
    causes: [...new Set(Array.from(causes[i]!, (cause) => partsOf(cause).type))].toSorted(),
  }));

const linked = ({ id, key, status, definition }: GraphRule): LinkedRule => ({
  id,
  key,
  status,
  links: linksOf(definition),
});

/**
 * Builds the graph of which rules trigger which. `truncated`: there are more edges than GRAPH_EDGES_MAX; the
 * cycles are complete.
 */
export const graphOf = (rules: readonly GraphRule[], definitions: Definitions): RuleGraph =>
  graphOfLinked({ rules: rules.map(linked), definitions });

/** Stops one past the limit, so that a project of a thousand rules on `*` costs no more. */
const edgesOf = ({ rules, edges, names }: Net): RuleGraph["edges"] => {
  const found: RuleGraph["edges"] = [];
  for (const [from, { id }] of rules.entries()) {
    const viaOf = new Map<number, Set<string>>();
    for (const type of edges[from]!) {
      for (const pattern of edges[type]!) {
        for (const to of edges[pattern]!) {
          const via = viaOf.get(to) ?? new Set();
          viaOf.set(to, via.add(names[type]!));
        }
      }
    }
    for (const [to, via] of viaOf) found.push({ from: id, to: rules[to]!.id, via: [...via] });
    if (found.length > GRAPH_EDGES_MAX) return found;
  }
  return found;
};

/** Rules of a project with the definitions through which one can trigger another. */
export type Linked = { rules: readonly LinkedRule[]; definitions: Definitions };

/** Loads the rules of a project with one of `statuses`; default: running ones. */
export const loadLinked = async (
  work: Work,
  projectId: string,
  statuses: readonly RuleStatus[] = ["ACTIVE", "SHADOW"],
): Promise<Linked> => ({
  rules: await loadLinkedRules(work, projectId, statuses),
  definitions: await loadDefinitions(work, projectId),
});

/** Loads the input of `graphOfLinked`: all published rules of a project, including paused ones. */
export const loadGraph = (work: Work, projectId: string): Promise<Linked> =>
  loadLinked(work, projectId, ["ACTIVE", "SHADOW", "PAUSED"]);

/** Finds the cycles of rules. */
export const cyclesIn = ({ rules, definitions }: Linked): Cycle[] => cyclesOf(netOf(rules, definitions));

/** Finds the cycles that would exist with `rule` among `others`; only those that include it. */
export const cyclesAmong = ({ rules, definitions }: Linked, rule: GraphRule): readonly Cycle[] => {
  const others = rules.filter(({ id, key }) => id !== rule.id && key !== rule.key);
  const cycles = cyclesIn({ rules: [...others, linked(rule)], definitions });
  return cycles.filter((cycle) => cycle.rules.some(({ ruleId }) => ruleId === rule.id));
};

/** Builds the graph from the result of `loadGraph`. */
export const graphOfLinked = ({ rules, definitions }: Linked): RuleGraph => {
  const net = netOf(rules, definitions);
  const nodes = nodesOf(net);
  const edges = edgesOf(net);
  const cycles = cyclesOf(net);
  return { nodes, edges: edges.slice(0, GRAPH_EDGES_MAX), cycles, truncated: edges.length > GRAPH_EDGES_MAX };
};
