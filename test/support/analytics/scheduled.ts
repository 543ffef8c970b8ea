import { sql } from "kysely";
import type { Answer, TestApp } from "../app/app.ts";
import { emitted } from "../app/outbox.ts";
import { eventually } from "../eventually.ts";
import { must } from "../http/client.ts";
import type { Asker, Past } from "./questions.ts";

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
export type Told = { reportId: string; runId: string; dueAt: string; error?: string; resultUrl?: string };

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
