import assert from "node:assert/strict";
import { LeaderboardPatch, NewLeaderboard } from "../../src/domain/evaluation/boards/definition.ts";

describe("leaderboard definitions", () => {
  const problems = (body: object): string[] => {
    const result = NewLeaderboard.safeParse({
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

  it("refuse an operator that contradicts the metric, and want one for CUSTOM", () => {
    assert.deepEqual(problems({ operator: "SUM" }), []);
    assert.match(problems({ operator: "BEST" })[0]!, /^operator: this metric is SUM/);
    assert.match(problems({ metric: { source: "CUSTOM" } })[0]!, /^operator: CUSTOM boards need/);
    assert.match(problems({ metric: { source: "CUSTOM" }, operator: "ADD" })[0]!, /^operator: must be BEST/);
    assert.deepEqual(problems({ metric: { source: "CUSTOM" }, operator: "DECR" }), []);
    const derived = { XP: "SUM", LEVEL: "LATEST", BADGE_POINTS: "LATEST" };
    for (const [source, operator] of Object.entries(derived))
      assert.deepEqual(problems({ metric: { source }, operator }), []);
    const currency = { source: "CURRENCY", currencyKey: "coins" };
    assert.deepEqual(problems({ metric: currency, operator: "LATEST" }), []);
    assert.deepEqual(problems({ metric: { ...currency, mode: "EARNED" }, operator: "SUM" }), []);
    assert.match(problems({ metric: { ...currency, mode: "EARNED" }, operator: "LATEST" })[0]!, /SUM/);
  });

  it("name the path of what is not supported", () => {
    assert.match(
      problems({ period: { kind: "HOURLY" } })[0]!,
      /^period(\.kind)?: must have a kind of ALL_TIME/,
    );
    assert.match(
      problems({ metric: { source: "QUESTS" } })[0]!,
      /^metric(\.source)?: must have a source of XP/,
    );
    assert.match(problems({ league: {} })[0]!, /league: leagues are not available yet/);
    assert.match(problems({ colour: 1, shape: 2 })[0]!, /colour, shape: not supported/);
    assert.match(problems({ metric: { source: "XP", mode: "EARNED" } })[0]!, /^metric: mode: not supported/);
    assert.match(problems({ authoritative: false })[0]!, /^authoritative: false is not available yet/);
    const prize = { from: 1, to: 3, rewards: { xp: 5 } };
    assert.match(
      problems({ prizes: [{ ...prize, tierKey: "gold" }] })[0]!,
      /^prizes\.0\.tierKey: leagues are not available yet/,
    );
  });

  it("cut time into windows of a zone", () => {
    const at = (period: object) => problems({ period });
    assert.deepEqual(at({ kind: "WEEKLY", weekStartsOn: 7, timezone: "Asia/Tokyo", keepPeriods: 4 }), []);
    assert.match(at({ kind: "WEEKLY", weekStartsOn: 2 })[0]!, /^period\.weekStartsOn/);
    assert.match(at({ kind: "DAILY", timezone: "Mars/Base" })[0]!, /^period\.timezone: must be an IANA/);
    assert.match(at({ kind: "CRON", cron: "* * * * *" })[0]!, /^period\.cron: must leave at least 15/);
    assert.match(at({ kind: "CRON", cron: "0 0 31 2 *" })[0]!, /^period\.cron: never falls due/);
    const [startsAt, endsAt] = ["2026-03-01T00:00:00Z", "2026-02-01T00:00:00Z"];
    assert.match(at({ kind: "FIXED", startsAt, endsAt })[0]!, /^period\.endsAt: must be after startsAt/);
    assert.match(at({ kind: "ALL_TIME", keepPeriods: 4 })[0]!, /^period: keepPeriods: not supported/);
  });

  it("refuse what makes no sense together", () => {
    assert.match(problems(event({ aggregate: "count" }))[0]!, /^metric\.property: count takes no property/);
    assert.match(problems(event({ property: undefined }))[0]!, /^metric\.property: sum needs a property/);
    assert.match(problems({ scoreDecimals: 2 })[0]!, /^scoreDecimals: XP is whole/);
    assert.match(problems({ bounds: { max: 5 } })[0]!, /^bounds: only for CUSTOM/);
    assert.match(problems({ maxSubmissionsPerPeriod: 5 })[0]!, /^maxSubmissionsPerPeriod: only for CUSTOM/);
    const custom = { metric: { source: "CUSTOM" }, operator: "SUM" };
    assert.match(problems({ ...custom, minScoreToEnter: 5 })[0]!, /^minScoreToEnter: not available yet/);
    assert.match(
      problems({ ...custom, bounds: { min: 5, max: 4 } })[0]!,
      /^bounds\.max: must be at least min/,
    );
    const prize = { from: 1, to: 3, rewards: { xp: 5 } };
    assert.match(problems({ prizes: [prize, prize] })[0]!, /^prizes\.1\.from: overlaps/);
    assert.match(problems({ prizes: [{ ...prize, from: 0 }] })[0]!, /^prizes\.0\.from: must be a rank/);
    assert.match(problems({ rankChange: { bands: [3, 3] } })[0]!, /^rankChange\.bands: must rise/);
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
