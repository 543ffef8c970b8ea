import { DomainError, type FieldProblem } from "../../kernel/errors.ts";
import { Metric } from "../../evaluation/metrics/compile.ts";
import { PROBLEMS_MAX, RULE_MAX_BYTES } from "../../kernel/limits.ts";
import { bytesOf } from "../../kernel/hostile-json.ts";
import type { Work } from "../../kernel/work.ts";
import { identifyActions, mentionsOf, needsOf, RuleDocument } from "../../evaluation/language/document.ts";
import { cyclesWith, cycleText, LOOP_ADVICE } from "../../economy/loops/loops.ts";
import type { GraphRule } from "../../economy/loops/graph.ts";
import { namedProblems } from "../named.ts";
import { Rule } from "../rules.ts";
import { visitLeaves } from "../../evaluation/language/trees.ts";
import { z } from "zod";
import type { Json } from "../../kernel/events/events.ts";
import { isJsonObject } from "../../kernel/json.ts";

const keys = z.array(z.string());
const Problem = z.object({
  field: z.string().meta({ example: "actions.0.currencyKey" }),
  message: z.string(),
});

export const Validation = z
  .object({
    valid: z.boolean().meta({ description: "It could be saved; see `warnings` for publishing" }),
    errors: z.array(Problem),
    warnings: z.array(
      Problem.extend({
        blocksPublish: z.boolean().meta({ description: "It can be saved, and not be published" }),
      }),
    ),
    needs: z
      .object({
        metrics: z.array(Metric),
        currencies: keys,
        streaks: keys,
        badges: keys,
        leaderboards: keys,
        segments: keys,
        rewards: keys,
        quests: keys,
        adventures: keys,
      })
      .nullable()
      .meta({ description: "Everything that it reads and changes, by key; null while there are errors" }),
    estimatedCost: z
      .object({
        conditions: z.int(),
        actions: z.int(),
        counters: z.int().meta({ description: "Kept for each player; equal ones of other rules are shared" }),
        sharedCounters: z.int().meta({
          description: "Over all players: events of different players wait for one another",
        }),
        isIndexed: z.boolean().meta({
          description: "A property decides at once which events it can match; the others cost nothing",
        }),
        level: z.enum(["LOW", "MEDIUM", "HIGH"]),
      })
      .nullable(),
  })
  .meta({ id: "RuleValidation" });
export type Validation = z.output<typeof Validation>;

/** Builds a 400 that names every problem. */
export const refusal = (details: FieldProblem[], reason?: string): DomainError => {
  const [first] = details;
  const more = details.length > 1 ? ` (and ${details.length - 1} more)` : "";
  const text = first ? `${first.field}: ${first.message}${more}` : "the rule is not valid";
  const parts = { details: details.slice(0, PROBLEMS_MAX), ...(reason === undefined ? {} : { reason }) };
  return new DomainError("VALIDATION_ERROR", text, parts);
};

/**
 * Checks a rule against a project, without saving anything: problems of the document, unknown names, and
 * cycles in which it would trigger itself.
 * @param document any value sent by a caller
 */
export const validateRule = async (work: Work, projectId: string, document: unknown): Promise<Validation> => {
  const { errors, rule } = readMended(document);
  if (!rule) return withErrors(errors);
  const named = (await namedProblems(work, projectId, rule)).map((problem) => ({
    ...problem,
    blocksPublish: true,
  }));
  if (errors.length > 0) return { ...withErrors(errors), warnings: named };
  const bytes = bytesOf({ ...rule, actions: identifyActions(rule.actions) });
  if (bytes > RULE_MAX_BYTES)
    return withErrors([{ field: "rule", message: `must be at most ${RULE_MAX_BYTES} bytes of JSON` }]);
  const { key } = rule;
  const existing = await work.em.findOne(Rule, { projectId, key });
  const own: GraphRule = { id: existing?.id ?? "", key, status: "DRAFT", definition: rule };
  const cycles = await cyclesWith(work, projectId, own);
  const warnings: Validation["warnings"] = [
    ...named,
    ...cycles.map((cycle) => ({
      field: "triggers",
      message: cycle.isBounded ? cycleText(cycle) : `${cycleText(cycle)}: ${LOOP_ADVICE}`,
      blocksPublish: !cycle.isBounded,
    })),
  ];
  return { valid: true, errors: [], warnings, needs: showNeeds(rule), estimatedCost: estimate(rule) };
};

const withErrors = (errors: FieldProblem[]): Validation => ({
  valid: false,
  errors,
  warnings: [],
  needs: null,
  estimatedCost: null,
});

const showNeeds = (rule: RuleDocument): Validation["needs"] => {
  const mentions = mentionsOf(rule);
  const keysOf = (wanted: string): string[] => [
    ...new Set(mentions.flatMap(({ kind, key }) => (kind === wanted ? [key] : []))),
  ];
  return {
    metrics: [...needsOf(rule).metrics],
    currencies: keysOf("currency"),
    streaks: keysOf("streak"),
    badges: keysOf("badge"),
    leaderboards: keysOf("leaderboard"),
    segments: keysOf("segment"),
    rewards: keysOf("reward"),
    quests: keysOf("quest"),
    adventures: keysOf("adventure"),
  };
};

/** Number of conditions and actions above which a rule is of medium cost, and above which it is expensive. */
const MEDIUM = 10;

const HIGH = 30;

const estimate = (rule: RuleDocument): Validation["estimatedCost"] => {
  let conditions = 0;
  visitLeaves(rule.conditions, () => void conditions++);
  const { global = [], budgets = [] } = (rule.limits ?? {}) as { global?: unknown[]; budgets?: unknown[] };
  const sharedCounters = global.length + budgets.length;
  const counters = needsOf(rule).metrics.length;
  const parts = {
    conditions,
    actions: rule.actions.length,
    counters,
    sharedCounters,
    isIndexed: isIndexed(rule),
  };
  // A counter is read and written with the player, and one over all players makes batches wait.
  const sum = conditions + rule.actions.length + 2 * counters + 10 * sharedCounters;
  const level = sum >= HIGH ? "HIGH" : sum >= MEDIUM ? "MEDIUM" : "LOW";
  return { ...parts, level };
};

/** Whether the compiler can look the rule up by a property: see `compileRules`. */
const isIndexed = ({ conditions }: RuleDocument): boolean =>
  "all" in conditions &&
  conditions.all.some((node) => {
    if (!("type" in node) || node.type !== "event_property") return false;
    if (node.op === "in") return true;
    return node.op === "eq" && (node.value === null || typeof node.value !== "object");
  });

type Path = readonly PropertyKey[];

const fieldOf = (path: Path): string => (path.length === 0 ? "rule" : path.map(String).join("."));

/** Returns each problem with the dotted path of its field. */
export const problemsOf = (error: z.ZodError): FieldProblem[] =>
  error.issues
    .flatMap((issue) => {
      const message = issue.code === "unrecognized_keys" ? "there is no such field" : issue.message;
      return pathsOf(issue).map((path) => ({ field: fieldOf(path), message }));
    })
    .slice(0, PROBLEMS_MAX);

/** Harmless parts in place of those that are wrong, which name nothing. */
const ACTION = { type: "grant_xp", amount: 1 };
const TRIGGER = { kind: "EVENT", eventTypes: ["*"] };
const ALWAYS = { all: [] };
const PARTS: Readonly<Record<string, unknown>> = {
  key: "mended",
  name: "Mended",
  actions: [ACTION],
  triggers: [TRIGGER],
  conditions: ALWAYS,
};
const ITEMS: Readonly<Record<string, unknown>> = { actions: ACTION, triggers: TRIGGER };
/** Fields that parts need, whose names count although these are wrong. */
const FIELDS: Json = { amount: 1, op: "eq", score: 1, value: 0 };
const GROUPS: ReadonlySet<PropertyKey> = new Set(["all", "any", "none"]);

/** How often a rule is mended: a part of it, the whole action or condition, and what these have hidden. */
const TRIES = 6;

const begins = (path: Path, start: Path): boolean => start.every((name, i) => path[i] === name);

const holderOf = (document: Json, path: Path): unknown =>
  path.slice(0, -1).reduce<unknown>((at, name) => (at as Json | undefined)?.[name as string], document);

/** The action, trigger or condition that a path leads into, or the field of the rule. */
const partOf = (path: Path): { at: Path; by: unknown } => {
  const [field = "", index] = path;
  if (Object.hasOwn(ITEMS, field) && index !== undefined)
    return { at: path.slice(0, 2), by: ITEMS[field as string] };
  if (field !== "conditions") return { at: [field], by: PARTS[field as string] };
  const depth = path.findLastIndex((name, i) => typeof name === "number" && GROUPS.has(path[i - 1]!));
  return { at: path.slice(0, Math.max(1, depth + 1)), by: ALWAYS };
};

/** Puts a value where a path leads, or removes what is there. @returns whether there was something */
const put = (document: Json, path: Path, value: unknown): boolean => {
  const holder = holderOf(document, path);
  if (holder === null || typeof holder !== "object") return false;
  const name = path.at(-1) as string;
  const isThere = Object.hasOwn(holder, name);
  if (value === undefined) delete (holder as Json)[name];
  else (holder as Json)[name] = value;
  return isThere;
};

/** Mends the wrong value alone at first, and the part that it is in where that does not help. */
const mend = (document: Json, path: Path, mended: Path[]): void => {
  const isField = !Array.isArray(holderOf(document, path)) && path.length > 1;
  if (isField && !mended.some((start) => begins(path, start))) {
    const instead = FIELDS[String(path.at(-1))];
    if (put(document, path, instead) || instead !== undefined) return void mended.push(path);
  }
  const { at, by } = partOf(path);
  put(document, at, structuredClone(by));
  mended.push(at);
};

const pathsOf = (issue: z.core.$ZodIssue): Path[] =>
  issue.code === "unrecognized_keys" ? issue.keys.map((key) => [...issue.path, key]) : [issue.path];

/**
 * Reads a rule that may be wrong in parts, so that one mistake does not hide the others.
 * @returns all problems, and the rule without the parts that have them; undefined where too little is left
 */
const readMended = (given: unknown): { errors: FieldProblem[]; rule: RuleDocument | undefined } => {
  const document: unknown = structuredClone(given);
  const errors: FieldProblem[] = [];
  const mended: Path[] = [];
  for (let tries = 0; tries < TRIES; tries++) {
    const parsed = RuleDocument.safeParse(document);
    if (parsed.success) return { errors, rule: parsed.data };
    const { issues } = parsed.error;
    // What is found in a part that was mended may be the mending's fault.
    const found = issues.filter((issue) =>
      pathsOf(issue).every((path) => !mended.some((start) => begins(path, start) || begins(start, path))),
    );
    errors.push(...problemsOf({ issues: found } as z.ZodError));
    const paths = issues.flatMap(pathsOf);
    if (!isJsonObject(document) || paths.some((path) => path.length === 0)) break;
    for (const path of paths) mend(document, path, mended);
  }
  return { errors: errors.slice(0, PROBLEMS_MAX), rule: undefined };
};
