import assert from "node:assert/strict";
import type { Answer } from "../support/app/app.ts";
import { type Cell, type Cohort, type Happening, historiesAskedBy } from "../support/analytics/histories.ts";
import { assertError } from "../support/http/assert-error.ts";
import { eventuallyHolds } from "../support/eventually.ts";
import { must } from "../support/http/client.ts";

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

  it("counts later returns where it is unbounded, days up to one within, and ranges of days", async () => {
    await given(...days);
    assert.deepEqual(counts(await ask(`${march}&type=unbounded`)), [
      [2, 2, 2, 2, 1],
      [1, 1, 0, 0, 0],
    ]);
    assert.deepEqual(counts(await ask(`${march}&type=within`)), [
      [2, 0, 1, 2, 2],
      [1, 0, 0, 0, 0],
    ]);
    const bracket = await ask(`${march.replace("&offsets=0,1,2,3", "")}&type=bracket&brackets=0,1-2,3-4`);
    assert.deepEqual(counts(bracket)[0], [2, 2, 2, 1]);
    assert.deepEqual(
      bracket.cohorts[0].cells.map(({ offset, until, complete }: Cell) => [offset, until, complete]),
      [
        [0, 0, true],
        [1, 2, true],
        [3, 4, false],
      ],
    );
    for (const [alias, type] of [
      ["classic", "nday"],
      ["rolling", "unbounded"],
    ])
      assert.equal((await ask(`type=${alias}`)).type, type);
  });

  it("takes days by the calendar, or as 24 hours from each start on", async () => {
    await given(...days);
    // Ada is back after 23 h and after 85:59 h, bob after 25 h.
    assert.deepEqual(counts(await ask(`${march}&clock=24h`)), [
      [2, 2, 1, 0, 1],
      [1, 1, 0, 0, 0],
    ]);
    const { cells } = (await ask(`${march}&clock=24h`)).cohorts[0];
    assert.deepEqual(
      cells.map(({ complete }: Cell) => complete),
      [true, true, true, false],
    );
    assertError(await get(`${march}&clock=24h&unit=week`), 400);
  });

  it("begins with an event of a type, and never counts that very event as a return", async () => {
    await given(
      ["ada", "seen", "2024-03-01T09:00:00Z"],
      ["ada", "joined", "2024-03-01T10:00:00Z"],
      ["bob", "joined", "2024-03-01T10:00:00Z"],
      ["bob", "seen", "2024-03-01T10:00:00Z"],
      ["cleo", "joined", "2024-03-01T10:00:00Z"],
      ["cleo", "joined", "2024-03-01T10:00:00Z"],
      ["dora", "joined", "2024-02-28T10:00:00Z"],
      ["dora", "joined", "2024-03-01T10:00:00Z"],
    );
    const day = "from=2024-03-01&to=2024-03-01&offsets=0,1&startEvent=joined";
    assert.deepEqual(counts(await ask(day)), [[3, 3, 0]], "any event is a return, the start included");
    assert.deepEqual(counts(await ask(`${day}&returnEvent=seen`)), [[3, 1, 0]]);
    assert.deepEqual(counts(await ask(`${day}&returnEvent=joined`)), [[3, 1, 0]]);
    assert.deepEqual(counts(await ask(`${day}&returnEvent=seen,joined`)), [[3, 2, 0]]);
    assert.deepEqual(counts(await ask(`${day}&returnEvent=seen&returnEvent=joined`)), [[3, 2, 0]]);
  });

  it("puts a recurring player into the cohort of each period", async () => {
    await given(...days);
    const week = "from=2024-03-01&to=2024-03-04&asOf=2024-03-05T00:00:00Z&offsets=0,1,2";
    assert.deepEqual(counts(await ask(`${week}&entry=recurring`)), [
      [2, 2, 1, 1],
      [2, 2, 0, 1],
      [1, 1, 0, 0],
      [1, 1, 0, 0],
    ]);
    assert.deepEqual(counts(await ask(`${week}&entry=recurring&returnEvent=seen`))[1], [2, 0, 0, 1]);
  });

  it("follows daylight saving, half-hour zones and missing midnights to the day", async () => {
    await given(
      // Berlin: 2024-03-31 has 23 hours. Lord Howe: 2024-04-07 has 24.5. Cairo: 2014-05-16 begins at 01:00.
      ["ada", "joined", "2024-03-30T22:59:59.999Z"],
      ["ada", "seen", "2024-03-31T21:59:59.999Z"],
      ["bob", "joined", "2024-03-30T22:59:59.999Z"],
      ["bob", "seen", "2024-03-31T22:00:00.000Z"],
      ["cleo", "joined", "2024-04-06T12:59:59.999Z"],
      ["cleo", "seen", "2024-04-07T13:29:59.999Z"],
      ["dora", "joined", "2024-04-06T12:59:59.999Z"],
      ["dora", "seen", "2024-04-07T13:30:00.000Z"],
      ["emil", "joined", "2014-05-15T21:59:59.999Z"],
      ["emil", "seen", "2014-05-15T22:00:00.000Z"],
      ["finn", "joined", "2024-06-01T18:14:00Z"],
      ["finn", "seen", "2024-06-01T18:15:00Z"],
    );
    const day = async (date: string, timezone: string): Promise<number[]> =>
      counts(await ask(`from=${date}&to=${date}&timezone=${timezone}&offsets=1,2`))[0]!;
    assert.deepEqual(await day("2024-03-30", "Europe/Berlin"), [2, 1, 1]);
    assert.deepEqual(await day("2024-04-06", "Australia/Lord_Howe"), [2, 1, 1]);
    assert.deepEqual(await day("2014-05-15", "Africa/Cairo"), [1, 1, 0]);
    assert.deepEqual(await day("2024-06-01", "Asia/Kathmandu"), [1, 1, 0]);
  });

  it("takes weeks from Monday or Sunday on, and months of the calendar", async () => {
    await given(
      ["ada", "joined", "2024-03-03T12:00:00Z"],
      ["ada", "seen", "2024-03-04T12:00:00Z"],
      ["ada", "seen", "2024-04-30T12:00:00Z"],
    );
    const march3 = "from=2024-03-03&to=2024-03-03&offsets=0,1";
    const monday = await ask(`${march3}&unit=week`);
    assert.deepEqual([monday.cohorts[0].period, counts(monday)], ["2024-02-26", [[1, 1, 1]]]);
    const sunday = await ask(`${march3}&unit=week&weekStart=sunday`);
    assert.deepEqual([sunday.cohorts[0].period, counts(sunday)], ["2024-03-03", [[1, 1, 0]]]);
    const month = await ask(`${march3}&unit=month`);
    assert.deepEqual([month.cohorts[0].period, counts(month)], ["2024-03-01", [[1, 1, 1]]]);
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
