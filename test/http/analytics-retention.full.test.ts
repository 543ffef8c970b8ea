import assert from "node:assert/strict";
import fc from "fast-check";
import { dateOfDay, dayOfDate, localDay } from "../../src/domain/analytics/range.ts";
import { askBothWays, assertHeld, rollUpAll } from "../support/analytics/both-ways.ts";
import { aChange, apply, aQuestion, START_MS, whenOf } from "../support/analytics/changes.ts";
import { type Cohort, type Happening, historiesAskedBy } from "../support/analytics/histories.ts";
import {
  type NaiveQuestion,
  type NaiveVisit,
  daysIn,
  naiveRetention,
  periodOfDay,
} from "../support/analytics/naive-retention.ts";
import { anAsker } from "../support/analytics/questions.ts";
import { type Answer, startApp } from "../support/app/app.ts";
import { eventuallyHolds } from "../support/eventually.ts";
import { assertError } from "../support/http/assert-error.ts";
import { must } from "../support/http/client.ts";
import { madeOnce } from "../support/made.ts";
import { cases } from "../support/properties.ts";

describe("retention of a random history", () => {
  const { given, ask } = historiesAskedBy("retention");
  it("is what plain loops count, for any question in any zone", async () => {
    const zones = [
      "UTC",
      "America/New_York",
      "Europe/London",
      "Australia/Lord_Howe",
      "Asia/Kathmandu",
      "Africa/Cairo",
    ];
    // Around changes of the clocks in New York, London and Cairo, in quarter hours: times are equal often.
    const firstMs = Date.parse("2014-10-20T00:00:00Z");
    const history: NaiveVisit[] = fc.sample(
      fc.record({
        user: fc.integer({ min: 0, max: 40 }).map((i) => `p${i}`),
        type: fc.constantFrom("a", "b", "c"),
        at: fc.integer({ min: 0, max: 25 * 96 }).map((quarter) => firstMs + quarter * 900_000),
      }),
      { numRuns: cases(400), seed: 7 },
    );
    await given(...history.map(({ user, type, at }): Happening => [user, type, at]));
    const Question = fc.record({
      zone: fc.constantFrom(...zones),
      weekStart: fc.constantFrom("monday" as const, "sunday" as const),
      unit: fc.constantFrom("day" as const, "week" as const, "month" as const),
      type: fc.constantFrom("nday" as const, "unbounded" as const, "within" as const),
      entry: fc.constantFrom("first_time" as const, "recurring" as const),
      clock: fc.constantFrom("calendar" as const, "24h" as const),
      offsets: fc
        .uniqueArray(fc.integer({ min: 0, max: 12 }), { minLength: 1, maxLength: 5 })
        .map((all) => all.toSorted((a, b) => a - b)),
      startEvent: fc.constantFrom(undefined, "a", "b"),
      returnEvent: fc.constantFrom(undefined, "a", "c"),
      from: fc.integer({ min: -2, max: 12 }),
      length: fc.integer({ min: 0, max: 14 }),
    });
    await fc.assert(
      fc.asyncProperty(Question, async ({ from, length, clock, ...asked }) => {
        const firstDay = localDay(daysIn("UTC"), firstMs) + from;
        const question: NaiveQuestion = {
          ...asked,
          clock: asked.unit === "day" ? clock : "calendar",
          firstDay,
          lastDay: firstDay + length,
        };
        const { zone, offsets, startEvent, returnEvent, unit, weekStart, type, entry } = question;
        const query = new URLSearchParams({
          from: dateOfDay(question.firstDay),
          to: dateOfDay(question.lastDay),
          timezone: zone,
          offsets: offsets.join(),
          clock: question.clock,
          unit,
          weekStart,
          type,
          entry,
          ...(startEvent && { startEvent }),
          ...(returnEvent && { returnEvent }),
        });
        const body = await ask(query.toString());
        const naive = naiveRetention(history, question);
        for (const { period, size, cells } of body.cohorts as Cohort[]) {
          const wanted = naive.get(periodOfDay(question, dayOfDate(period)!)) ?? [0, ...offsets.map(() => 0)];
          assert.deepEqual([size, ...cells.map(({ players }) => players)], wanted, period);
          naive.delete(periodOfDay(question, dayOfDate(period)!));
        }
        assert.equal(naive.size, 0);
      }),
      { numRuns: cases(150) },
    );
  });
});

describe("retention", () => {
  const { api, tenant, given, get, ask } = historiesAskedBy("retention");
  /** By cohort: its size, and the players of each cell. */
  const counts = (body: Answer["body"]): number[][] =>
    body.cohorts.map(({ size, cells }: Cohort) => [size, ...cells.map(({ players }) => players)]);

  const days: Happening[] = [
    ["ada", "joined", "2024-03-01T10:00:00Z"],
    ["ada", "seen", "2024-03-02T09:00:00Z"],
    ["ada", "seen", "2024-03-04T23:59:59.999Z"],
    ["bob", "joined", "2024-03-01T23:00:00Z"],
    ["bob", "seen", "2024-03-03T00:00:00Z"],
    ["cleo", "joined", "2024-03-02T12:00:00Z"],
  ];
  const march = "from=2024-03-01&to=2024-03-02&asOf=2024-03-05T00:00:00Z&offsets=0,1,2,3";

  it("counts who came back on the very day, with rates, complete cells and both means", async () => {
    await given(...days);
    const { range, timezone, asOf, generatedAt, cache, players: link, ...body } = await ask(march);
    assert.ok(range && timezone && asOf && generatedAt && cache);
    assert.deepEqual(link.and, ["cohort", "offset", "returned"]);
    const cell = (offset: number, players: number, rate: number, complete = true) => ({
      offset,
      players,
      rate,
      complete,
    });
    assert.deepEqual(body, {
      type: "nday",
      unit: "day",
      entry: "first_time",
      clock: "calendar",
      cohorts: [
        {
          period: "2024-03-01",
          size: 2,
          cells: [cell(0, 2, 1), cell(1, 1, 0.5), cell(2, 1, 0.5), cell(3, 1, 0.5)],
        },
        {
          period: "2024-03-02",
          size: 1,
          cells: [cell(0, 1, 1), cell(1, 0, 0), cell(2, 0, 0), cell(3, 0, 0, false)],
        },
      ],
      overall: [
        { offset: 0, eligible: 3, players: 3, rate: 1, meanRate: 1 },
        { offset: 1, eligible: 3, players: 1, rate: 0.333333, meanRate: 0.25 },
        { offset: 2, eligible: 3, players: 1, rate: 0.333333, meanRate: 0.25 },
        { offset: 3, eligible: 2, players: 1, rate: 0.5, meanRate: 0.5 },
      ],
    });
  });

  it("divides players by a property of the event that starts", async () => {
    await given(
      ["ada", "joined", "2024-03-01T10:00:00Z", { plan: "pro" }],
      ["ada", "seen", "2024-03-02T10:00:00Z", { plan: "free" }],
      ["bob", "joined", "2024-03-01T10:00:00Z", { plan: "free" }],
      ["cleo", "joined", "2024-03-02T10:00:00Z", { plan: "pro" }],
      ["dora", "joined", "2024-03-01T10:00:00Z"],
    );
    const query = "from=2024-03-01&to=2024-03-02&offsets=1&asOf=2024-03-03T00:00:00Z&breakdown=plan";
    const body = await ask(`${query}&limit=1`);
    const share = (eligible: number, players: number, rate: number) => ({
      offset: 1,
      eligible,
      players,
      rate,
    });
    assert.deepEqual(body.breakdown, [
      { value: "pro", size: 2, overall: [share(1, 1, 1)] },
      { value: "(other)", size: 2, overall: [share(2, 0, 0)] },
    ]);
    const recurring = await ask(`${query}&entry=recurring`);
    assert.deepEqual(
      recurring.breakdown.map(({ value, size }: { value: string; size: number }) => [value, size]),
      [
        ["free", 2],
        ["pro", 2],
        ["(none)", 1],
      ],
    );
  });

  it("follows merges, and leaves out what was reverted; late events count", async () => {
    const ids = await given(...days, ["ada2", "seen", "2024-02-29T10:00:00Z"]);
    const first = async (): Promise<number[]> => counts(await ask(march))[0]!;
    assert.deepEqual(await first(), [2, 2, 1, 1, 1]);
    must(
      await api.post("/api/v1/players/ext:ada/merge", { sourcePlayerId: "ext:ada2" }, { key: tenant.key }),
      200,
    );
    assert.deepEqual(await first(), [1, 1, 0, 1, 0], "ada came earlier");
    must(
      await api.post(`/api/v1/events/${ids[6]}/revert`, { reason: "a mistake" }, { key: tenant.key }),
      200,
    );
    await eventuallyHolds(async () => assert.deepEqual(await first(), [2, 2, 1, 1, 1]));
    await given(["bob", "seen", "2024-03-02T00:00:00Z"]);
    assert.deepEqual(await first(), [2, 2, 2, 1, 1]);
  });

  it("takes a range of instants to the moment", async () => {
    await given(...days);
    const instants = "from=2024-03-01T10:00:00.001Z&to=2024-03-02T12:00:00Z&offsets=0,2";
    assert.deepEqual(counts(await ask(instants)), [
      [1, 1, 1],
      [0, 0, 0],
    ]);
  });

  it("is zeros in an empty project", async () => {
    const body = await ask("from=2024-03-01&to=2024-03-01&offsets=0,1&breakdown=plan");
    assert.deepEqual(counts(body), [[0, 0, 0]]);
    assert.deepEqual(body.overall[0], { offset: 0, eligible: 0, players: 0, rate: 0, meanRate: 0 });
    assert.deepEqual(body.breakdown, []);
  });

  it("refuses what is out of bounds, and names it", async () => {
    const hundred = Array.from({ length: 101 }, (_, i) => i).join();
    const bad: readonly [query: string, field: string][] = [
      ["unit=year", "unit"],
      ["type=never", "type"],
      ["offsets=1,1", "offsets"],
      ["offsets=2,1", "offsets"],
      ["offsets=-1", "offsets"],
      ["offsets=1-2", "offsets"],
      ["offsets=1001", "offsets"],
      [`offsets=${hundred}`, "offsets"],
      ["type=bracket&brackets=0,1-3,3-4", "brackets"],
      ["type=bracket&offsets=1", "offsets"],
      ["brackets=1-2", "brackets"],
      ["breakdown=a..b", "breakdown"],
      ["returnEvent=a,a", "returnEvent"],
      ["from=2023-01-01&to=2024-12-31", "from"],
      [`from=2024-01-01&to=2024-12-31&offsets=${hundred.slice(0, -4)}`, "from"],
    ];
    for (const [query, field] of bad) {
      const answer = await get(query);
      assertError(answer, 400);
      assert.equal(answer.body.error.details[0].field, field, query);
    }
  });
});

describe("rollups of analytics", () => {
  const api = madeOnce(startApp);

  it("say the same as events, whatever came late, was reverted, merged and erased", () =>
    fc.assert(
      fc.asyncProperty(
        fc.array(aChange, { minLength: 2, maxLength: 14 }),
        fc.array(aQuestion, { minLength: 1, maxLength: 2 }),
        async (changes, questions) => {
          const asker = await anAsker(api);
          await asker.store([["a", "seen", new Date(START_MS).toISOString()]]);
          await rollUpAll(api, asker.tenant.projectId);
          for (const change of changes) await apply(api, asker, change);
          await assertHeld(api, asker.tenant.projectId);
          for (const question of questions) await askBothWays(api, whenOf(asker.tenant.projectId, question));
        },
      ),
      {
        numRuns: cases(20),
        // A range that begins after `asOf`, with events between the two.
        examples: [
          [
            [
              {
                events: [
                  { user: "a", type: "seen", hour: -0.001 },
                  { user: "a", type: "seen", hour: 0.001 },
                ],
              },
              { rollUp: true },
            ],
            [{ timezone: "UTC", from: 0, days: 1, minutes: 7, asOf: 0 }],
          ],
        ],
      },
    ));
});
