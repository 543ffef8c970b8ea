import type { Answer } from "../app/app.ts";
import type { Past } from "./questions.ts";

/** A saved question: its kind, its parameters, and what the query of its own operation is. */
export type Saved = {
  report: string;
  parameters: Record<string, unknown>;
  /** What comes after /analytics/ to ask the same by GET. */
  path: string;
  query: Record<string, string>;
};

const RANGE = { from: "2026-03-02", to: "2026-03-15", timezone: "Europe/Berlin" };
const AS_OF = "2026-04-01T00:00:00Z";

const day = (n: number, hour = 12): string => new Date(Date.UTC(2026, 2, n, hour)).toISOString();

/** What some players do in two weeks of March 2026. */
export const MARCH: readonly Past[] = Array.from({ length: 24 }, (_, i) => i).flatMap((i): Past[] => [
  [`user-${i % 8}`, "seen", day(1 + i, 23), { map: i % 2 ? "ice" : "fire" }],
  ...(i % 3 === 0 ? ([[`user-${i % 8}`, "scored", day(1 + i, 23), { points: i }]] as const) : []),
]);

/** A question of each kind; `ruleKey`: of a published rule that a part of the players have. */
export const savedOfEachKind = (ruleKey: string): Saved[] => {
  const query = { ...RANGE, asOf: AS_OF };
  const same = (report: string, more: Record<string, string>): Saved => ({
    report,
    parameters: { ...query, ...more },
    path: report,
    query: { ...query, ...more },
  });
  const { from: _, to: __, ...noRange } = query;
  return [
    same("overview", { compare: "previous_week", activeEvents: "seen,scored" }),
    {
      ...same("trends", {}),
      parameters: { ...query, metric: ["events", "sum:scored.points"], limit: 3, cumulative: true },
      query: { ...query, metric: "events,sum:scored.points", limit: "3", cumulative: "true" },
    },
    same("trends", { metric: "events", breakdown: "property:map", "filter[properties.map]": "ice,fire" }),
    {
      report: "segments",
      parameters: { ...noRange, group: "lifecycle" },
      path: "segments",
      query: { ...noRange, group: "lifecycle" },
    },
    same("retention", { unit: "week", offsets: "0,1", breakdown: "map", limit: "2" }),
    same("cohorts", { unit: "week", periods: "3", metric: "sum:scored.points", cumulative: "true" }),
    same("cohorts", { unit: "week", periods: "2", segmentBy: "property", property: "map" }),
    same("funnels", { steps: "seen,scored", window: "2d", order: "any", breakdown: "map" }),
    {
      report: "experiments",
      parameters: { ...query, ruleId: ruleKey, metric: ["events", "activePlayers"], population: "new" },
      path: `experiments/${ruleKey}`,
      query: { ...query, metric: "events,activePlayers", population: "new" },
    },
  ];
};

/** A funnel with filters, as a body. */
export const FUNNEL_BODY = {
  ...RANGE,
  asOf: AS_OF,
  window: "3d",
  steps: [
    { eventType: "seen", where: { "properties.map": "ice" }, label: "On ice" },
    { eventType: "scored", where: { path: "points", op: "gte", value: 3 } },
  ],
  exclude: [{ eventType: "left" }],
  breakdown: { property: "map", limit: 2 },
};

/** An answer without what differs from one to the next. */
export const lasting = (body: Answer["body"]): unknown => {
  const { generatedAt: _, cache: __, ...rest } = body;
  return rest;
};
