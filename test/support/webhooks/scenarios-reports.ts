import { sql } from "kysely";
import { must } from "../http/client.ts";
import type { Scenario } from "./stage.ts";

/** A report runs, and another one does not: its experiment has ended. */
const reports: Scenario = {
  tells: ["report.ready", "report.failed"],
  play: async ({ game, change, heard }) => {
    const made = async (body: object): Promise<string> =>
      must(await game.post("/analytics/reports", { ...body }), 201).id as string;
    const weekly = await made({
      name: "Players of the week",
      report: "overview",
      range: { last: 1, unit: "WEEK" },
    });
    must(await game.post(`/analytics/reports/${weekly}/runs`), 201);
    await heard("report.ready");
    await game.make("/rules", {
      key: "split",
      name: "Split",
      triggers: [{ kind: "EVENT", eventTypes: ["split"] }],
      rollout: { percent: 100, holdoutPercent: 50 },
      actions: [{ type: "grant_xp", amount: 1 }],
    });
    must(await game.post("/rules/split/publish"), 200);
    const helps = await made({
      name: "Does it help",
      report: "experiments",
      parameters: { ruleId: "split", metric: "events", period: "7d" },
    });
    await change(sql`
      update rules set published_version = null
      where project_id = ${game.tenant.projectId}::uuid and key = 'split'`);
    must(await game.post(`/analytics/reports/${helps}/runs`), 201);
    await heard("report.failed");
  },
};

/** Scenarios about saved reports. */
export const REPORT_SCENARIOS: readonly Scenario[] = [reports];
