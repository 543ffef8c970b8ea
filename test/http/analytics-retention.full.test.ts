import assert from "node:assert/strict";
import fc from "fast-check";
import {
  type CalendarInterval,
  dateOfDay,
  dayOfDate,
  localDay,
  monthOf,
  weekOf,
  type WeekStart,
} from "../../src/domain/analytics/range.ts";
import {
  type Cohort,
  type Happening,
  START_MS,
  aChange,
  aQuestion,
  anAsker,
  apply,
  askBothWays,
  assertHeld,
  daysIn,
  historiesAskedBy,
  rollUpAll,
  whenOf,
} from "../support/analytics/histories.ts";
import { type Answer, startApp } from "../support/app/app.ts";
import { eventuallyHolds } from "../support/eventually.ts";
import { assertError } from "../support/http/assert-error.ts";
import { must } from "../support/http/client.ts";
import { madeOnce } from "../support/made.ts";
import { cases } from "../support/properties.ts";

/** An event of a history, with its time in ms; in the order of arrival. */
type NaiveVisit = { user: string; type: string; at: number };

type NaiveQuestion = {
  zone: string;
  weekStart: WeekStart;
  unit: CalendarInterval;
  type: "nday" | "unbounded" | "within";
  entry: "first_time" | "recurring";
  clock: "calendar" | "24h";
  offsets: readonly number[];
  startEvent?: string | undefined;
  returnEvent?: string | undefined;
  /** First and last local day of the range. */
  firstDay: number;
  lastDay: number;
};

const DAY_MS = 86_400_000;

/** The number of the day, week or month of an instant, so that neighbours differ by one. */
const periodOf = ({ zone, unit, weekStart }: NaiveQuestion, at: number): number => {
  const day = localDay(daysIn(zone), at);
  if (unit === "day") return day;
  if (unit === "week") return Math.round(weekOf(day, weekStart) / 7);
  const date = new Date(monthOf(day) * DAY_MS);
  return date.getUTCFullYear() * 12 + date.getUTCMonth();
};

const isIn = (type: NaiveQuestion["type"], distance: number, offset: number): boolean => {
  if (type === "nday") return distance === offset;
  return type === "unbounded" ? distance >= offset : distance >= 1 && distance <= offset;
};

const startsOf = (events: readonly NaiveVisit[], question: NaiveQuestion): NaiveVisit[] => {
  const { startEvent, entry, zone, firstDay, lastDay } = question;
  const all = events
    .filter(({ type }) => startEvent === undefined || type === startEvent)
    .toSorted((a, b) => a.at - b.at);
  const inRange = (one: NaiveVisit): boolean => {
    const day = localDay(daysIn(zone), one.at);
    return day >= firstDay && day <= lastDay;
  };
  if (entry === "first_time") return all.slice(0, 1).filter(inRange);
  const taken = new Set<number>();
  return all.filter(inRange).filter((one) => {
    const period = periodOf(question, one.at);
    return !taken.has(period) && taken.add(period);
  });
};

/** By period of the start: its players, and for each offset those who returned, by plain loops. */
const naiveRetention = (history: readonly NaiveVisit[], question: NaiveQuestion): Map<number, number[]> => {
  const { offsets, type, clock, returnEvent } = question;
  const cohorts = new Map<number, number[]>();
  for (const user of new Set(history.map((one) => one.user))) {
    const events = history.filter((one) => one.user === user);
    for (const start of startsOf(events, question)) {
      const cohort = periodOf(question, start.at);
      const counts = cohorts.get(cohort) ?? [0, ...offsets.map(() => 0)];
      cohorts.set(cohort, counts);
      counts[0]! += 1;
      const returns = events.filter((one) => returnEvent === undefined || one.type === returnEvent);
      const later = returns.filter((one) => one !== start && one.at >= start.at);
      const distances = (returnEvent === undefined ? [start, ...later] : later).map(({ at }) =>
        clock === "24h" ? Math.floor((at - start.at) / DAY_MS) : periodOf(question, at) - cohort,
      );
      for (const [i, offset] of offsets.entries())
        if (distances.some((distance) => isIn(type, distance, offset))) counts[i + 1]! += 1;
    }
  }
  return cohorts;
};

/** The number of a period by its first local day. */
const periodOfDay = (question: NaiveQuestion, day: number): number =>
  periodOf({ ...question, zone: "UTC" }, day * DAY_MS);

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
    const prefixed = await ask(`${query.replace("=plan", "=property:plan")}&limit=1`);
    assert.deepEqual(prefixed.breakdown, body.breakdown);
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

  it("rounds rates that are halfway up, as other questions do", async () => {
    const day = (of: number, count: number): Happening[] =>
      Array.from({ length: count }, (_, i) => [`p${i}`, "seen", `2024-03-0${of}T10:00:00Z`]);
    await given(...day(1, 640), ...day(2, 41));
    const { overall } = await ask("from=2024-03-01&to=2024-03-01&offsets=1");
    assert.deepEqual([overall[0].players, overall[0].rate, overall[0].meanRate], [41, 0.064063, 0.064063]);
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
          // Now that nothing is left behind them, days can be closed: those of some days ago.
          await rollUpAll(api, asker.tenant.projectId, START_MS + 5 * 86_400_000);
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
