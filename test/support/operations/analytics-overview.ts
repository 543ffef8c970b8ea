import type { Known } from "./operations.ts";

export const analyticsOverviewOperations: Record<string, Known> = {
  getAnalyticsOverview: {
    call: () => ({
      path:
        "/analytics/overview?from=2026-01-01&to=2026-01-02&timezone=UTC&weekStart=sunday" +
        "&compare=custom&compareFrom=2025-12-01&compareTo=2025-12-31&activeEvents=swept",
    }),
  },
  getAnalyticsTrends: {
    call: () => ({
      path:
        "/analytics/trends?period=7d&metric=events,sum:swept.v&interval=day&breakdown=property:a.b&limit=5" +
        "&cumulative=true",
    }),
  },
  listAnalyticsSegmentPlayers: {
    call: () => ({ path: "/analytics/segments/lifecycle/new/players?timezone=UTC&page=1&limit=5" }),
  },
  getAnalyticsSegments: { call: () => ({ path: "/analytics/segments?group=lifecycle&timezone=UTC" }) },
};
