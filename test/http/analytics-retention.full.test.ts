import assert from "node:assert/strict";
import fc from "fast-check";
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
