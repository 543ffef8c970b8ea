import type { Side } from "../app/sides.ts";
import { smallRule, unique } from "./bodies.ts";
import type { Known } from "./operations.ts";

const RANGE = "from=2026-01-01&to=2026-01-31&timezone=UTC&weekStart=sunday";

const funnel = () => ({
  from: "2026-01-01",
  to: "2026-01-31",
  timezone: "UTC",
  weekStart: "monday",
  window: "7d",
  order: "ordered",
  steps: [
    { eventType: "swept", label: "Begun" },
    { eventType: "swept", where: { all: [{ path: "v", op: "gte", value: 1 }] } },
    { eventType: "done" },
  ],
  exclude: [{ eventType: "left", where: { path: "a.b", op: "exists" }, fromStep: 1, toStep: 2 }],
  breakdown: { property: "a.b", attribution: "first_touch", limit: 5 },
});

const shortFunnel = () => ({
  period: "7d",
  asOf: "2026-02-01T00:00:00Z",
  steps: [{ eventType: "swept", where: { "properties.v": { gte: 1 } } }, { eventType: "done" }],
});

const split = new WeakMap<Side, Promise<string>>();

/** The id of a published rule that half of the players have: one serves all. */
const splitRule = (side: Side): Promise<string> => {
  const made = split.get(side) ?? publishSplit(side);
  split.set(side, made);
  return made;
};

const publishSplit = async (side: Side): Promise<string> => {
  const rollout = { percent: 100, holdoutPercent: 50 };
  const { id } = (await side.send("post", "/rules", { ...smallRule(), rollout })).body;
  await side.send("post", `/rules/${id}/publish`, {});
  return id;
};

export const analyticsOperations: Record<string, Known> = {
  getAnalyticsRetention: {
    call: () => ({
      path:
        `/analytics/retention?${RANGE}&unit=day&type=within&offsets=0,1,7&startEvent=swept` +
        "&returnEvent=swept,done&entry=recurring&clock=24h&breakdown=a.b&limit=5",
    }),
  },
  getAnalyticsCohorts: {
    call: () => ({
      path:
        `/analytics/cohorts?${RANGE}&unit=week&periods=4&metric=sum:swept.v&cumulative=true` +
        "&segmentBy=property&property=a.b&limit=5",
    }),
  },
  getAnalyticsFunnel: {
    call: () => ({
      path: `/analytics/funnels?${RANGE}&steps=swept,done&window=7d&order=strict&breakdown=a.b&limit=5`,
    }),
  },
  listAnalyticsPlayers: {
    call: () => ({
      path:
        `/analytics/players?of=funnels&${RANGE}&steps=swept,done&window=7d&order=strict&breakdown=a.b` +
        "&valuesLimit=5&step=1&state=dropped&value=x&limit=5",
    }),
  },
  getAnalyticsExperiment: {
    call: async (side) => ({
      path: `/analytics/experiments/${await splitRule(side)}?${RANGE}&metric=events&population=new`,
    }),
  },
  queryAnalyticsPlayers: {
    call: () => ({
      path: "/analytics/players",
      body: { funnel: { ...funnel(), step: 1, state: "completed", value: "x" }, limit: 5 },
    }),
    also: [() => ({ funnel: { ...shortFunnel(), step: 2 } })],
  },
  createAnalyticsSegment: {
    call: () => ({
      path: "/analytics/players/segment",
      body: {
        key: unique("listed"),
        name: "Listed",
        description: "Those of a list",
        list: { of: "segments", segment: "lifecycle:new", asOf: "2026-02-01T00:00:00Z" },
      },
    }),
    also: [() => ({ key: unique("listed"), name: "Listed", funnel: { ...shortFunnel(), step: 1 } })],
  },
  queryAnalyticsFunnel: { call: () => ({ path: "/analytics/funnels", body: funnel() }), also: [shortFunnel] },
};
