import { invalid } from "../kernel/errors.ts";
import type { Breakdown, PropertyFilter } from "./event-series.ts";
import { METRIC_NAMES, type MetricName } from "./metrics.ts";

/** What a series counts. */
export type TrendMetric =
  | { kind: "overview"; name: MetricName }
  | { kind: "currency"; key: string }
  | { kind: "event"; eventType: string }
  | { kind: "sum"; eventType: string; path: readonly string[] };

const KNOWN = METRIC_NAMES.join(", ");

const PATH_MAX = 8;
const VALUES_MAX = 50;

const isMetricName = (text: string): text is MetricName => (METRIC_NAMES as readonly string[]).includes(text);

/** @throws DomainError VALIDATION_ERROR for a path that is too deep or has an empty part */
export const readPath = (field: string, text: string): string[] => {
  const path = text.split(".");
  if (path.length > PATH_MAX) throw invalid(field, `a path has at most ${PATH_MAX} parts`);
  if (path.some((part) => part === "")) throw invalid(field, "a path is made of names, such as match.score");
  return path;
};

/** `sum:quiz.score` sums the property score of quiz; `sum:quiz.done:score` is for other types with a dot. */
const readSum = (text: string): TrendMetric => {
  const at = text.includes(":") ? text.lastIndexOf(":") : text.indexOf(".");
  if (at < 1 || at === text.length - 1)
    throw invalid("metric", "must be sum:<eventType>.<property>, or sum:<eventType>:<property>");
  return { kind: "sum", eventType: text.slice(0, at), path: readPath("metric", text.slice(at + 1)) };
};

/** @throws DomainError VALIDATION_ERROR for a metric that is none */
export const readMetric = (text: string): TrendMetric => {
  if (isMetricName(text)) return { kind: "overview", name: text };
  const [kind, rest] = [text.slice(0, text.indexOf(":")), text.slice(text.indexOf(":") + 1)];
  if (rest !== "" && kind === "event") return { kind, eventType: rest };
  if (rest !== "" && kind === "currencyGranted") return { kind: "currency", key: rest };
  if (rest !== "" && kind === "sum") return readSum(rest);
  throw invalid(
    "metric",
    `must be currencyGranted:<key>, event:<eventType>, sum:<eventType>.<property>, or one of ${KNOWN}`,
  );
};

/** @throws DomainError VALIDATION_ERROR for a breakdown that is none */
export const readBreakdown = (text: string | undefined): Breakdown | undefined => {
  if (text === undefined) return undefined;
  if (text === "eventType" || text === "segment") return { by: text };
  if (text.startsWith("property:") && text.length > "property:".length)
    return { by: "property", path: readPath("breakdown", text.slice("property:".length)) };
  throw invalid("breakdown", "must be eventType, segment or property:<path>");
};

const FILTER = /^filter\[(eventType|properties\.(.+))\]$/;

/** Whether a name is that of a filter: `filter[eventType]`, `filter[properties.team]`. */
export const isFilterName = (name: string): boolean => FILTER.test(name);

const valuesOf = (name: string, given: unknown): string[] => {
  const values = typeof given === "string" ? given.split(",") : [];
  if (values.length === 0 || values.length > VALUES_MAX)
    throw invalid(name, `must have 1 to ${VALUES_MAX} values, separated by commas`);
  return values;
};

/** Reads the parameters of a query that are filters. @throws DomainError VALIDATION_ERROR */
export const readFilters = (
  query: Readonly<Record<string, unknown>>,
): { types?: string[]; filters: PropertyFilter[] } => {
  const filters: PropertyFilter[] = [];
  let types: string[] | undefined;
  for (const [name, given] of Object.entries(query)) {
    const match = FILTER.exec(name);
    if (!match) continue;
    const values = valuesOf(name, given);
    if (match[2] === undefined) types = values;
    else filters.push({ path: readPath(name, match[2]), values });
  }
  if (filters.length > PATH_MAX) throw invalid("filter", `at most ${PATH_MAX} properties are filtered`);
  return { ...(types ? { types } : {}), filters };
};
