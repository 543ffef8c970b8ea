import assert from "node:assert/strict";
import { compileRollout } from "../../src/domain/evaluation/running/limits.ts";
import { studentT95 } from "../../src/domain/kernel/intervals.ts";
import { anAsker, type Asker, type Past } from "../support/analytics/histories.ts";
import { startApp } from "../support/app/app.ts";
import { exported } from "../support/data/data.ts";
import { pastMidnight } from "../support/eventually.ts";
import { assertError } from "../support/http/assert-error.ts";
import { rulesOf } from "../support/rules/rules-api.ts";
import { madeOnce } from "../support/made.ts";
import { pluck } from "../support/pluck.ts";

const RANGE = { from: "2026-05-01", to: "2026-05-10", asOf: "2026-06-01T00:00:00Z", timezone: "UTC" };
const PLAYERS = 90;

/** What happened, made by plain arithmetic: some never come in the range, some score often. */
const pastOf = (i: number): Past[] => {
  const user = `user-${i}`;
  const day = (n: number) => `2026-05-${String(1 + (n % 10)).padStart(2, "0")}T10:00:00Z`;
  const first: Past = [user, "seen", i % 3 === 0 ? "2026-04-20T10:00:00Z" : day(i)];
  const scores = Array.from({ length: (i * 7) % 5 }, (_, n): Past => [
    user,
    "scored",
    day(i + n),
    { points: ((i * 13 + n * 5) % 17) + 0.25 },
  ]);
  return i % 4 === 0 ? [first] : [first, ...scores];
};

type Difference = { value: number; low: number; high: number };
type Compared = {
  metric: string;
  method: string;
  treated: { players: number; value: number };
  control: { players: number; value: number };
  difference: Difference;
};

const round = (x: number): number => Math.round(x * 1e6) / 1e6;
const meanOf = (those: readonly number[]): number => those.reduce((sum, x) => sum + x, 0) / those.length;

/** Welch's interval, as its paper has it, in two passes. */
const welch = (a: readonly number[], b: readonly number[]): Difference => {
  const varianceOf = (those: readonly number[]): number =>
    those.reduce((sum, x) => sum + (x - meanOf(those)) ** 2, 0) / (those.length - 1);
  const [va, vb] = [varianceOf(a) / a.length, varianceOf(b) / b.length];
  const degrees = (va + vb) ** 2 / (va ** 2 / (a.length - 1) + vb ** 2 / (b.length - 1));
  const spread = studentT95(degrees) * Math.sqrt(va + vb);
  const value = meanOf(a) - meanOf(b);
  return { value: round(value), low: round(value - spread), high: round(value + spread) };
};

/** Newcombe's interval from the roots of |share - p| = z sqrt(p (1 - p) / n), found by bisection. */
const newcombe = (a: readonly number[], b: readonly number[]): Difference => {
  const bound = (those: readonly number[], side: 0 | 1): number => {
    const share = meanOf(those);
    const isBeyond = (p: number): boolean =>
      Math.abs(share - p) > 1.959964 * Math.sqrt((p * (1 - p)) / those.length);
    let [inner, outer]: [number, number] = [share, side];
    if (!isBeyond(outer)) return outer;
    for (let i = 0; i < 100; i++) {
      const middle = (inner + outer) / 2;
      if (isBeyond(middle)) outer = middle;
      else inner = middle;
    }
    return inner;
  };
  const value = meanOf(a) - meanOf(b);
  const low = value - Math.hypot(meanOf(a) - bound(a, 0), bound(b, 1) - meanOf(b));
  const high = value + Math.hypot(bound(a, 1) - meanOf(a), meanOf(b) - bound(b, 0));
  return { value: round(value), low: round(low), high: round(high) };
};

const isNear = (actual: Difference, expected: Difference, text: string): void => {
  for (const name of ["value", "low", "high"] as const)
    assert.ok(
      Math.abs(actual[name] - expected[name]) <= 1.5e-6,
      `${text} ${JSON.stringify([actual, expected])}`,
    );
};

describe("results of experiments", () => {
  let asker: Asker;
  const past = Array.from({ length: PLAYERS }, (_, i) => pastOf(i));
  const api = madeOnce(startApp);
  beforeEach(async () => {
    asker = await anAsker(api);
  });

  const publish = (rollout?: { percent: number; holdoutPercent: number; salt?: string }) =>
    rulesOf(api, asker.tenant).publish(rollout ? { rollout } : {});

  /** The numbers of players by group, each with those of their events that a metric is of. */
  const groupsOf = async (rollout: { percent: number; holdoutPercent: number }) => {
    const rows = await api.sql<{ id: string; user: string }>`
      select id::text as id, external_user_id as user from players
      where project_id = ${asker.tenant.projectId}::uuid`;
    const bucketOf = compileRollout("lesson", rollout)!;
    const found = { IN: [] as number[], OUT: [] as number[], HELD: [] as number[] };
    for (const { id, user } of rows) found[bucketOf(id)].push(Number(user.slice(5)));
    return found;
  };

  const inRange = (i: number): Past[] => past[i]!.filter(([, , at]) => at.startsWith("2026-05"));
  const PLAIN: Readonly<Record<string, { method: string; of: (i: number) => number | undefined }>> = {
    activePlayers: { method: "newcombe", of: (i) => Math.min(1, inRange(i).length) },
    newPlayers: { method: "newcombe", of: (i) => (i % 3 === 0 ? 0 : 1) },
    returningPlayers: { method: "newcombe", of: (i) => (i % 3 === 0 && inRange(i).length > 0 ? 1 : 0) },
    events: { method: "welch", of: (i) => inRange(i).length },
    "event:scored": { method: "welch", of: (i) => inRange(i).filter(([, type]) => type === "scored").length },
    "sum:scored.points": {
      method: "welch",
      of: (i) =>
        inRange(i).reduce((sum, [, , , what]) => sum + ((what as { points?: number })?.points ?? 0), 0),
    },
    eventsPerActivePlayer: { method: "welch", of: (i) => inRange(i).length || undefined },
    avgDau: { method: "welch", of: (i) => new Set(inRange(i).map(([, , at]) => at)).size / 10 },
  };

  const check = (
    found: readonly Compared[],
    treated: readonly number[],
    control: readonly number[],
  ): void => {
    for (const { metric, method, difference, ...groups } of found) {
      const { of, method: expected } = PLAIN[metric]!;
      const valuesOf = (those: readonly number[]) => those.map(of).filter((value) => value !== undefined);
      const [a, b] = [valuesOf(treated), valuesOf(control)];
      assert.equal(method, expected, metric);
      assert.deepEqual([groups.treated.players, groups.control.players], [a.length, b.length], metric);
      assert.ok(Math.abs(groups.treated.value - meanOf(a)) < 1e-6, metric);
      assert.ok(Math.abs(groups.control.value - meanOf(b)) < 1e-6, metric);
      isNear(difference, expected === "welch" ? welch(a, b) : newcombe(a, b), metric);
    }
  };

  it("are those of a plain computation, against the holdout and against those left out", async () => {
    const rollout = { percent: 70, holdoutPercent: 40 };
    await publish(rollout);
    await asker.store(past.flat());
    const { IN, OUT, HELD } = await groupsOf(rollout);
    assert.ok(IN.length > 5 && OUT.length > 5 && HELD.length > 5);
    const query = { ...RANGE, metric: Object.keys(PLAIN).join(",") };
    const held = await asker.ask("experiments/lesson", query);
    assert.deepEqual([held.against, held.treated, held.control], ["holdout", IN.length, HELD.length]);
    assert.equal(held.metrics.length, Object.keys(PLAIN).length);
    check(held.metrics, IN, HELD);
    const out = await asker.ask("experiments/lesson", { ...query, against: "excluded" });
    assert.deepEqual([out.against, out.treated, out.control], ["excluded", IN.length, OUT.length]);
    check(out.metrics, IN, OUT);
    const fresh = await asker.ask("experiments/lesson", { ...query, population: "new" });
    const isNew = (i: number): boolean => i % 3 !== 0;
    check(fresh.metrics, IN.filter(isNew), HELD.filter(isNew));
    const file = { ...RANGE, report: "experiments", ruleId: "lesson", metric: "events", format: "csv" };
    const [, row] = (await exported(api, asker.tenant, file)).split("\r\n");
    assert.deepEqual(row!.split(",").slice(0, 4), ["events", "mean", "welch", String(IN.length)]);
    const listed = async (more: Record<string, string>): Promise<number[]> => {
      const list = { ...RANGE, of: "experiments", ruleId: "lesson", limit: "100", ...more };
      const { data } = await asker.ask("players", list);
      return data.map((one: { externalUserId: string }) => Number(one.externalUserId.slice(5)));
    };
    const sorted = (those: readonly number[]): number[] => those.toSorted((a, b) => a - b);
    assert.deepEqual(sorted(await listed({ group: "treated" })), sorted(IN));
    assert.deepEqual(sorted(await listed({ group: "control", against: "excluded" })), sorted(OUT));
    const newHeld = await listed({ group: "control", population: "new" });
    assert.deepEqual(sorted(newHeld), sorted(HELD.filter(isNew)));
  });

  it("say of effects what the rule brought: only the treated gain by it", async () => {
    const { track } = rulesOf(api, asker.tenant);
    await rulesOf(api, asker.tenant).publish({
      rollout: { percent: 100, holdoutPercent: 50 },
      conditions: { all: [] },
      actions: [{ type: "grant_xp", amount: 10 }],
    });
    await pastMidnight();
    const rollout = { percent: 100, holdoutPercent: 50 };
    let { IN, HELD } = await groupsOf(rollout);
    // Chance decides who is held out: until somebody is in each group.
    for (let i = 0; i < 12 || IN.length === 0 || HELD.length === 0; i++) {
      await track(`user-${i}`, {});
      ({ IN, HELD } = await groupsOf(rollout));
    }
    const { metrics, notes } = await asker.ask("experiments/lesson", {
      period: "today",
      metric: "xpGranted,wau",
    });
    const [xp, wau] = metrics as Compared[];
    assert.deepEqual(pluck([xp!.treated, xp!.control], "value"), [10, 0]);
    assert.deepEqual([xp!.treated.players, xp!.control.players], [IN.length, HELD.length]);
    assert.deepEqual([wau!.treated.value, wau!.control.value], [1, 1]);
    assert.match(notes.join(), /fewer than 100/);
  });

  it("are refused for rules without groups, groups that are not there, and metrics of nobody", async () => {
    const ask = (query: Record<string, string>, rule = "lesson") =>
      asker.tryAsk(`experiments/${rule}`, query);
    await publish();
    assertError(await ask({ metric: "events" }), 409, "INVALID_STATE");
    assertError(await ask({ metric: "events" }, "unknown"), 404);
    const other = await anAsker(api);
    await rulesOf(api, other.tenant).publish({ rollout: { percent: 50, holdoutPercent: 0 } });
    asker = other;
    assert.equal((await ask({ metric: "events" })).status, 200);
    assertError(await ask({ metric: "events", against: "holdout" }), 400);
    for (const metric of ["totalPlayers", "webhookSuccessRate", "playersPerMatch", "x", undefined])
      assertError(await ask(metric === undefined ? {} : { metric }), 400);
  });
});
