import assert from "node:assert/strict";
import { startApp, type Tenant, type TestApp } from "../support/app/app.ts";
import { aTenantOfAllTime } from "../support/analytics/histories.ts";
import { hasTravelData, trackAll, travelLines } from "../support/data/data.ts";
import { readTruth } from "../support/data/truth.ts";
import { is, sorted, type Standing, topTwenty } from "../support/data/worldcup.ts";
import { eventuallyHolds } from "../support/eventually.ts";
import { must } from "../support/http/client.ts";

type Boards = Record<"answers" | "comments" | "badges" | "answerScoreSum", Standing[]>;

const XP: readonly (readonly [key: string, eventType: string, amount: number, tier?: string])[] = [
  ["question", "question_asked", 5],
  ["answer", "answer_posted", 10],
  ["comment", "comment_posted", 2],
  ["bronze", "badge_earned", 10, "bronze"],
  ["silver", "badge_earned", 30, "silver"],
  ["gold", "badge_earned", 100, "gold"],
];

const board = (key: string, eventType: string, aggregate: object = { aggregate: "count" }) => ({
  key,
  name: key,
  metric: { source: "EVENT", event: { eventTypes: [eventType] }, ...aggregate },
  ties: "SHARED",
});

describe("four years of travel.stackexchange.com, played", function () {
  this.timeout(900_000);
  let api: TestApp;
  let tenant: Tenant;
  const truth = hasTravelData
    ? (readTruth("travel-se-2011-2014") as unknown as {
        leaderboards: Boards & { xp: { top: Standing[]; totalXp: number } };
      })
    : undefined;

  before(async function () {
    if (!truth) this.skip();
    api = await startApp();
    tenant = await aTenantOfAllTime(api);
    const { key } = tenant;
    const sum = { aggregate: "sum", property: "score" };
    for (const one of [
      board("answers", "answer_posted"),
      board("comments", "comment_posted"),
      board("badges", "badge_earned"),
      board("answer-scores", "answer_posted", sum),
      { key: "xp", name: "XP", metric: { source: "XP" }, ties: "SHARED" },
    ])
      must(await api.post("/api/v1/leaderboards", one, { key }), 201);
    for (const [name, eventType, amount, tier] of XP) {
      const rule = {
        key: name,
        name,
        triggers: [{ kind: "EVENT", eventTypes: [eventType] }],
        conditions: { all: tier === undefined ? [] : [is("tier", tier)] },
        actions: [{ type: "grant_xp", amount }],
      };
      const { id } = must(await api.post("/api/v1/rules", rule, { key }), 201);
      must(await api.post(`/api/v1/rules/${id}/publish`, {}, { key }), 200);
    }
    await trackAll(api, tenant, await travelLines("9999"));
  });

  it("gives the true first twenty of answers, their scores, comments, badges and XP", async () => {
    const { xp, answerScoreSum, ...boards } = truth!.leaderboards;
    for (const [key, standings] of Object.entries({ ...boards, "answer-scores": answerScoreSum, xp: xp.top }))
      await eventuallyHolds(async () => {
        const found = await topTwenty(api, tenant.key, key);
        assert.deepEqual(sorted(found), sorted(standings), key);
      });
  });

  it("grants the true sum of XP, as analytics count it by the times of the events", async () => {
    const query = "metric=xpGranted&from=2011-06-01&to=2015-01-31&interval=month";
    const { series } = must(await api.get(`/api/v1/analytics/trends?${query}`, { key: tenant.key }), 200);
    assert.equal(series[0].total, truth!.leaderboards.xp.totalXp);
  });
});
