import assert from "node:assert/strict";
import { LeaderboardDefinition, LeaderboardPatch } from "../../src/domain/leaderboards/definition.ts";

describe("leaderboard definitions", () => {
  const problems = (body: object): string[] => {
    const result = LeaderboardDefinition.safeParse({
      key: "k",
      name: "n",
      metric: { source: "XP" },
      ...body,
    });
    return result.success
      ? []
      : result.error.issues.map(({ path, message }) => `${path.join(".")}: ${message}`);
  };
  const event = (part: object = {}) => ({
    metric: { source: "EVENT", event: { eventTypes: ["goal"] }, aggregate: "sum", property: "n", ...part },
  });

  it("derive the operator and fill the defaults in", () => {
    const operators = { sum: "SUM", max: "BEST", min: "BEST", latest: "LATEST" };
    for (const [aggregate, operator] of Object.entries(operators)) {
      assert.equal(
        LeaderboardDefinition.parse({ key: "k", name: "n", ...event({ aggregate }) }).operator,
        operator,
      );
    }
    assert.deepEqual(LeaderboardDefinition.parse({ key: "k", name: "n", metric: { source: "XP" } }), {
      key: "k",
      name: "n",
      metric: { source: "XP" },
      operator: "SUM",
      sort: "DESC",
      scoreDecimals: 0,
      period: { kind: "ALL_TIME", timezone: "UTC" },
      ties: "EARLIEST",
      authoritative: true,
      backfill: false,
    });
  });

  it("refuse an operator that contradicts the metric, and want one for CUSTOM", () => {
    assert.deepEqual(problems({ operator: "SUM" }), []);
    assert.match(problems({ operator: "BEST" })[0]!, /^operator: this metric is SUM/);
    assert.match(problems({ metric: { source: "CUSTOM" } })[0]!, /^operator: CUSTOM boards need/);
    assert.match(problems({ metric: { source: "CUSTOM" }, operator: "DECR" })[0]!, /^operator: must be BEST/);
  });

  it("name the path of what is not supported", () => {
    assert.match(problems({ period: { kind: "WEEKLY" } })[0]!, /^period\.kind: only ALL_TIME is supported/);
    assert.match(
      problems({ metric: { source: "STREAK" } })[0]!,
      /^metric(\.source)?: must have a source of XP/,
    );
    assert.match(problems({ league: {}, prizes: [] })[0]!, /league, prizes: not supported/);
    assert.match(problems({ metric: { source: "XP", mode: "EARNED" } })[0]!, /^metric: mode: not supported/);
    assert.match(problems({ authoritative: false })[0]!, /^authoritative: only true/);
  });

  it("refuse what makes no sense together", () => {
    assert.match(problems(event({ aggregate: "count" }))[0]!, /^metric\.property: count takes no property/);
    assert.match(problems(event({ property: undefined }))[0]!, /^metric\.property: sum needs a property/);
    assert.match(problems({ scoreDecimals: 2 })[0]!, /^scoreDecimals: XP is whole/);
    assert.match(problems({ backfill: true })[0]!, /^backfill: only for EVENT/);
    const filter = { path: "a", op: "gt", value: { $ref: "player.level" } };
    assert.match(
      problems(event({ event: { eventTypes: ["goal"], filter } }))[0]!,
      /^metric\.event\.filter\.value: must be a literal/,
    );
    assert.match(
      problems(event({ event: { eventTypes: ["goal"], filter: { path: "a", op: "gt", value: true } } }))[0]!,
      /filter\.value/,
    );
  });

  it("say in a patch which field cannot change", () => {
    const result = LeaderboardPatch.safeParse({ sort: "ASC", metric: { source: "XP" } });
    assert.match(result.error!.issues[0]!.message, /sort, metric: cannot change/);
  });
});
