import { hash } from "node:crypto";
import type { Metric } from "./metric.ts";

const isPart = (value: unknown): value is object => value !== null && typeof value === "object";

/**
 * Returns the JSON text of a value with sorted keys, so that the order of keys in a document does not matter.
 * Lists of literals, which make up large filters, are serialised in one go.
 */
const canonical = (value: object): string => {
  if (Array.isArray(value))
    return value.some(isPart) ? `[${value.map(canonicalItem).join(",")}]` : JSON.stringify(value);
  const fields = Object.entries(value).filter(([, inner]) => inner !== undefined);
  const sorted = fields.toSorted(([a], [b]) => (a < b ? -1 : 1));
  return `{${sorted.map(([name, inner]) => `${JSON.stringify(name)}:${canonicalItem(inner)}`).join(",")}}`;
};

const canonicalItem = (value: unknown): string => (isPart(value) ? canonical(value) : JSON.stringify(value));

const METRIC_ID_LENGTH = 11;

const metricIds = new WeakMap<Metric, string>();

/** Returns a short id that is equal for metrics that count the same. Computed once for each. */
export const metricId = (metric: Metric): string => {
  const known = metricIds.get(metric);
  if (known !== undefined) return known;
  const id = workOutId(metric);
  metricIds.set(metric, id);
  return id;
};

const workOutId = (metric: Metric): string => {
  const { eventTypes, window, ...rest } = metric;
  const sinceMs = window.type === "SINCE" ? { at: Date.parse(window.at) } : {};
  const types = [...new Set(eventTypes)].toSorted((a, b) => (a < b ? -1 : 1));
  const text = canonical({ ...rest, eventTypes: types, window: { ...window, ...sinceMs } });
  return hash("sha256", text, "base64url").slice(0, METRIC_ID_LENGTH);
};
