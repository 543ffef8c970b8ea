import { sql } from "kysely";
import type { Answer, TestApp } from "../app/app.ts";
import type { Asker, Past } from "./histories.ts";
import { emitted } from "../app/outbox.ts";
import { eventually } from "../eventually.ts";
import { must } from "../http/client.ts";

/** A saved question: its kind, its parameters, and what the query of its own operation is. */
type Saved = {
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

export const REPORTS = "/api/v1/analytics/reports";
export const DAILY = { every: "DAY", hour: 6 };
export const DAILY_EVENTS = {
  name: "Events",
  report: "trends",
  parameters: { metric: "events" },
  range: { last: 7, unit: "DAY" },
  schedule: DAILY,
};

const DAY_MS = 86_400_000;

/** What some players did in the days before now. */
export const lately = (): Past[] =>
  Array.from({ length: 20 }, (_, i): Past[] => {
    const at = new Date(Date.now() - (i + 1) * 0.7 * DAY_MS).toISOString();
    return [
      [`user-${i % 6}`, "seen", at, { map: i % 2 ? "ice" : "fire" }],
      [`user-${i % 6}`, "scored", at, { points: i }],
    ];
  }).flat();

/** What others were told of a run. */
type Told = { reportId: string; runId: string; dueAt: string; error?: string; resultUrl?: string };

/** What tests of scheduled reports do in one tenant. */
export const scheduledOf = (api: TestApp, { tenant: { key, projectId } }: Asker) => {
  const change = (statement: ReturnType<typeof sql>) =>
    api.app.transact(async ({ db }) => (await statement.execute(db)).rows);
  const runsOf = async (id: string): Promise<Answer["body"][]> =>
    must(await api.get(`${REPORTS}/${id}/runs`, { key }), 200).data;
  return {
    /** Runs a statement on the database. */
    change,
    runsOf,
    save: async (body: object): Promise<Answer["body"]> => must(await api.post(REPORTS, body, { key }), 201),
    get: async (id: string): Promise<Answer["body"]> => must(await api.get(`${REPORTS}/${id}`, { key }), 200),
    /** Makes a report due so many days ago, as if no worker had run since. */
    dueAgo: (id: string, days: number) =>
      change(sql`
        update analytics_reports set next_at = now() - make_interval(secs => ${days * 86_400}::int)
        where id = ${id}::uuid`),
    told: (type: "report.ready" | "report.failed") => emitted<Told>(api.app, projectId, type),
    /** The runs of a report, once so many were told of. */
    afterTold: async (id: string, count = 1): Promise<Answer["body"][]> => {
      const told = () =>
        change(sql`
          select from analytics_report_runs where report_id = ${id}::uuid and told_at is not null`);
      await eventually(async () => (await told()).length === count, {
        timeoutMs: 60_000,
        label: `${count} runs of ${id} are told of`,
      });
      return runsOf(id);
    },
  };
};
