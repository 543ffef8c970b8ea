import assert from "node:assert/strict";
import { dateOfDay, dayStart, localDay } from "../../src/domain/analytics/range.ts";
import { startApp, type TestApp } from "../support/app/app.ts";
import { type Asker, type Past, anAsker, daysIn, rollUpAll } from "../support/analytics/histories.ts";
import { type AskedOracle, openOracle, type Oracle } from "../support/analytics/oracle.ts";
import { cohortsBy, retentionBy } from "../support/analytics/oracle-cohorts.ts";
import {
  type OracleFilters,
  type OracleTrend,
  overviewBy,
  segmentsBy,
  trendBy,
} from "../support/analytics/oracle-counts.ts";
import { funnelBy, type OracleFunnel } from "../support/analytics/oracle-funnels.ts";
import { exported } from "../support/data/data.ts";
import { type Random, seeded } from "../support/seed.ts";
import { tell } from "../support/made.ts";

/** `npm run verify:analytics` asks more; SEED makes the same choices again. */
const QUESTIONS = Number(process.env["VERIFY_QUESTIONS"] ?? 240);
const EVENTS = Number(process.env["VERIFY_EVENTS"] ?? 4_000);

/** Half an hour, summer times of half an hour, midnights that do not exist or come twice, and plain ones. */
const ZONES = [
  "Asia/Kolkata",
  "Australia/Lord_Howe",
  "America/Sao_Paulo",
  "Africa/Cairo",
  "America/Santiago",
  "America/Havana",
  "Atlantic/Azores",
  "America/New_York",
  "Asia/Kathmandu",
  "UTC",
];
/** In each of them clocks are changed: in Sao Paulo at midnight until 2019, in Cairo since 2023. */
const SEASONS = [
  ["2018-09-15", "2019-03-15"],
  ["2024-02-15", "2024-12-01"],
] as const;
/** Days that begin at one o'clock, and some with two midnights. */
const MIDNIGHTS = [
  ["America/Sao_Paulo", "2018-11-04"],
  ["Africa/Cairo", "2024-04-26"],
  ["America/Santiago", "2024-09-08"],
  ["America/Havana", "2024-11-03"],
  ["Atlantic/Azores", "2024-10-27"],
] as const;
const TYPES = ["quiz.done", "login", "match", "chat"];
const TEAMS = ["GER", "BRA", "EGY", "AUS", "IND"];
const MINUTE_MS = 60_000;
const HOUR_MS = 3_600_000;
const DAY_MS = 86_400_000;

const dayOf = (date: string): number => Date.parse(date) / DAY_MS;

/** A day of a season. */
const aDay = (random: Random): number => {
  const [from, to] = random.pick(SEASONS).map(dayOf) as [number, number];
  return random.between(from, to);
};

const aUser = (random: Random): string => `user-${Math.min(random.between(0, 300), random.between(0, 300))}`;

/** Much happens around midnights of some zone, often in one millisecond, and it does not come in order. */
const aHistory = (random: Random): Past[] => {
  const events: Past[] = [];
  while (events.length < EVENTS) {
    const zone = random.pick(ZONES);
    const midnight = dayStart(daysIn(zone), aDay(random));
    let at = random.chance(0.5)
      ? midnight + random.pick([-1, 0, 1, -1_800_000, 1_800_000, 3_599_999, 3_600_000, -3_600_001])
      : midnight + random.between(0, DAY_MS);
    const count = random.chance(0.3) ? random.between(2, 5) : 1;
    // Several players at once, or one player at once and later.
    const user = random.chance(0.5) ? aUser(random) : undefined;
    for (let i = 0; i < count; i++) {
      const score = random.pick([random.between(-5, 100), random.between(0, 9) / 4, "12", null]);
      const properties = { ...(random.chance(0.8) ? { team: random.pick(TEAMS) } : {}), score };
      events.push([user ?? aUser(random), random.pick(TYPES), new Date(at).toISOString(), properties]);
      if (user !== undefined) at += random.pick([0, 0, MINUTE_MS, HOUR_MS, DAY_MS]);
    }
  }
  return random.shuffle(events);
};

const aRange = (random: Random): AskedOracle => {
  const [zone, date] = random.chance(0.25) ? random.pick(MIDNIGHTS) : [random.pick(ZONES), undefined];
  const first = date === undefined ? aDay(random) : dayOf(date);
  const last = first + random.pick([0, 1, 6, random.between(0, 60), random.between(60, 200)]);
  // Everything is known, or all that was over, or the range is going on.
  const known = random.pick([
    last + 1,
    last + random.between(2, 4),
    last + 30,
    random.between(first + 1, last + 1),
  ]);
  const asOf = dayStart(daysIn(zone), known) + random.pick([0, 0, -1, random.between(1, DAY_MS)]);
  return {
    timezone: zone,
    asOf: new Date(asOf).toISOString(),
    from: dateOfDay(first),
    to: dateOfDay(last),
  };
};

/** Whether a range was over. */
const isOver = ({ timezone, asOf, to }: AskedOracle): boolean =>
  localDay(daysIn(timezone), Date.parse(asOf)) > dayOf(to);

/** Checks an answer against the oracle. A new question is such a function, and a line in ASK. */
type Check = (asker: Asker, oracle: Oracle, random: Random) => Promise<void>;

const checkOverview: Check = async (asker, oracle, random) => {
  const asked = aRange(random);
  const active = random.chance(0.4) ? random.shuffle(TYPES).slice(0, random.between(1, 3)) : undefined;
  const compare = isOver(asked) ? random.pick(["previous_period", "previous_week"]) : "none";
  const query = { ...asked, compare, ...(active ? { activeEvents: active.join(",") } : {}) };
  const { metrics, comparison } = await asker.ask("overview", query);
  const valuesOf = (which: "value" | "previous", names: readonly string[]) =>
    Object.fromEntries(names.map((name) => [name, metrics[name][which]]));
  const expected = await overviewBy(oracle, asked, active);
  const names = Object.keys(expected);
  assert.deepEqual(valuesOf("value", names), expected, JSON.stringify(query));
  if (compare === "none") return;
  const before = await overviewBy(oracle, { ...asked, from: comparison.from, to: comparison.to }, active);
  assert.deepEqual(valuesOf("previous", names), before, JSON.stringify(query));
};

const someFilters = (random: Random): OracleFilters => ({
  types: random.chance(0.3) ? random.shuffle(TYPES).slice(0, 2) : undefined,
  teams: random.chance(0.3) ? random.shuffle(TEAMS).slice(0, 2) : undefined,
});

const filterQuery = ({ types, teams }: OracleFilters): Record<string, string> => ({
  ...(types ? { "filter[eventType]": types.join(",") } : {}),
  ...(teams ? { "filter[properties.team]": teams.join(",") } : {}),
});

const aTrend = (random: Random): OracleTrend => {
  const interval = random.pick(["hour", "day", "week", "month"] as const);
  // Hours of one name are added up, which players cannot be.
  const metrics = [
    "events",
    "event:login",
    "sum:match.score",
    ...(interval === "hour" ? [] : ["activePlayers"]),
  ];
  return {
    metric: random.pick(metrics),
    interval,
    weekStart: random.pick(["monday", "sunday"] as const),
    breakdown: random.pick([undefined, "eventType", "property:team"]),
    limit: random.between(1, 6),
    ...someFilters(random),
  };
};

const checkTrend: Check = async (asker, oracle, random) => {
  const trend = aTrend(random);
  const asked = aRange(random);
  const { metric, interval, weekStart, breakdown, limit } = trend;
  const query: Record<string, string> = {
    ...asked,
    metric,
    interval,
    weekStart,
    limit: String(limit),
    ...(breakdown ? { breakdown } : {}),
    ...filterQuery(trend),
  };
  const { series } = await asker.ask("trends", query);
  const expected = await trendBy(oracle, asked, trend);
  type Point = { date: string; value: number };
  type Series = { breakdown: string | null; total: number; points: Point[] };
  const shown = new Map(
    (series as Series[]).map(({ breakdown: key, total, points }) => {
      const values = new Map<string, number>();
      for (const { date, value } of points) {
        const name = interval === "hour" ? date.slice(0, 13) : date;
        if (value !== 0) values.set(name, (values.get(name) ?? 0) + value);
      }
      return [key ?? "", { total, points: values }];
    }),
  );
  const sorted = (of: typeof shown) =>
    [...of]
      .filter(([key, { total }]) => key !== "" || total !== 0)
      .toSorted(([a], [b]) => (a < b ? -1 : 1))
      .map(([key, { total, points }]) => [
        key,
        total,
        [...points].filter(([, value]) => value !== 0).toSorted(([a], [b]) => (a < b ? -1 : 1)),
      ]);
  assert.deepEqual(sorted(shown), sorted(expected), JSON.stringify(query));
};

const checkSegments: Check = async (asker, oracle, random) => {
  const { timezone, asOf } = aRange(random);
  const filters = someFilters(random);
  const { groups } = await asker.ask("segments", { timezone, asOf, ...filterQuery(filters) });
  type Group = { key: string; segments: { key: string; players: number }[] };
  const shown = Object.fromEntries(
    (groups as Group[])
      .filter(({ key }) => key === "lifecycle" || key === "engagement")
      .flatMap(({ key, segments }) => segments.map((one) => [`${key}:${one.key}`, one.players] as const))
      .filter(([, players]) => players > 0),
  );
  assert.deepEqual(
    shown,
    await segmentsBy(oracle, { timezone, asOf, ...filters }),
    JSON.stringify({ timezone, asOf, filters }),
  );
};

const aUnit = (random: Random) => ({
  unit: random.pick(["day", "day", "week", "month"]),
  weekStart: random.pick(["monday", "sunday"]),
});

/** Sometimes a part of a query. */
const sometimes = <T extends object>(random: Random, part: T): Partial<T> => (random.chance(0.5) ? part : {});

const aLimit = (random: Random): number => random.between(1, 6);

const checkRetention: Check = async (asker, oracle, random) => {
  const unit = aUnit(random);
  const type = random.pick(["nday", "unbounded", "within", "bracket"]);
  const query = {
    ...aRange(random),
    ...unit,
    type,
    ...(type === "bracket"
      ? { brackets: random.pick(["0,1-3,4-7", "1-2,3", "0-30"]) }
      : { offsets: random.pick(["0,1,2,7", "1", "2,14,30", "0,5"]) }),
    entry: random.pick(["first_time", "recurring"]),
    ...(unit.unit === "day" ? sometimes(random, { clock: "24h" }) : {}),
    ...sometimes(random, { startEvent: random.pick(TYPES) }),
    ...sometimes(random, { returnEvent: random.shuffle(TYPES).slice(0, random.between(1, 2)).join(",") }),
    ...sometimes(random, { breakdown: "team", limit: String(aLimit(random)) }),
  };
  const { cohorts, overall, breakdown } = await asker.ask("retention", query);
  assert.deepEqual({ cohorts, overall, breakdown }, await retentionBy(oracle, query), JSON.stringify(query));
};

const checkCohorts: Check = async (asker, oracle, random) => {
  const query = {
    ...aRange(random),
    ...aUnit(random),
    periods: String(random.pick([0, 1, 4, 12])),
    metric: random.pick(["players", "rate", "events", "eventsPerPlayer", "sum:match.score"]),
    cumulative: String(random.chance(0.4)),
    ...sometimes(random, { segmentBy: "property", property: "team", limit: String(aLimit(random)) }),
  };
  const { cohorts, overall } = await asker.ask("cohorts", query);
  type Row = { period: string | null; label: string };
  const shown = (cohorts as Row[]).map(({ label, ...row }) =>
    row.period === null ? { label, ...row } : row,
  );
  assert.deepEqual({ cohorts: shown, overall }, await cohortsBy(oracle, query), JSON.stringify(query));
};

/** A funnel of types alone, which a query can ask for, or one with filters and what must not lie between. */
const aFunnel = (random: Random, isPlain: boolean): OracleFunnel => {
  const order = random.pick(
    isPlain ? (["ordered", "strict", "any"] as const) : (["ordered", "strict"] as const),
  );
  const aStep = () => ({
    eventType: random.pick(TYPES),
    ...(isPlain ? {} : sometimes(random, { where: { "properties.team": random.shuffle(TEAMS).slice(2) } })),
  });
  const steps: OracleFunnel["steps"] = [aStep(), ...Array.from({ length: random.between(1, 3) }, aStep)];
  const fromStep = random.between(1, steps.length - 1);
  const toStep = random.between(fromStep + 1, steps.length);
  return {
    ...aRange(random),
    steps,
    order,
    window: `${random.pick([1, 60, 1_440, 10_080, 86_400])}m`,
    exclude: isPlain || order === "strict" ? [] : [{ eventType: random.pick(TYPES), fromStep, toStep }],
    ...sometimes(random, { breakdown: { property: "team" as const, limit: aLimit(random) } }),
  };
};

const checkFunnel: Check = async (asker, oracle, random) => {
  const isPlain = random.chance(0.6);
  const funnel = aFunnel(random, isPlain);
  const { exclude: _, steps, breakdown: by, ...rest } = funnel;
  const query = { ...rest, steps: steps.map(({ eventType }) => eventType).join(",") };
  const limits = (name: string) => (by ? { breakdown: by.property, [name]: String(by.limit) } : {});
  const shown = await (isPlain
    ? asker.ask("funnels", { ...query, ...limits("limit") })
    : asker.post("funnels", funnel));
  const { answer, playersAt } = await funnelBy(oracle, funnel);
  const fields = Object.keys(answer).map((name) => [name, shown[name]]);
  assert.deepEqual(Object.fromEntries(fields), answer, JSON.stringify(funnel));
  const [step, state] = [random.between(1, steps.length), random.pick(["completed", "dropped"])];
  const { data, pagination } = await (isPlain
    ? asker.ask("players", { of: "funnels", ...query, ...limits("valuesLimit"), step: `${step}`, state })
    : asker.post("players", { funnel: { ...funnel, step, state } }));
  const players = new Set(playersAt(step, state));
  const text = JSON.stringify({ ...funnel, step, state });
  assert.equal(pagination.total, players.size, text);
  for (const { externalUserId } of data) assert.ok(players.has(externalUserId), text);
};

/** Every question, and how often it is asked. */
const ASK: readonly { name: string; check: Check; share: number }[] = [
  { name: "overview", check: checkOverview, share: 0.15 },
  { name: "trends", check: checkTrend, share: 0.2 },
  { name: "segments", check: checkSegments, share: 0.1 },
  { name: "retention", check: checkRetention, share: 0.2 },
  { name: "cohorts", check: checkCohorts, share: 0.15 },
  { name: "funnels", check: checkFunnel, share: 0.2 },
];

describe("analytics, and DuckDB over the exported events, which", function () {
  this.timeout(1_800_000);
  const random = seeded();
  let api: TestApp;
  let asker: Asker;
  let oracle: Oracle;

  before(async () => {
    api = await startApp();
    asker = await anAsker(api);
    const events = aHistory(random.fork("events"));
    // Most are in rollups, and some came behind them.
    const place = Math.floor(0.9 * events.length);
    await asker.store(events.slice(0, place));
    await rollUpAll(api, asker.tenant.projectId);
    await asker.store(events.slice(place));
    const query = { report: "events", format: "ndjson", from: "2018-01-01", to: "2025-12-31" };
    const ndjson = await exported(api, asker.tenant, query);
    assert.ok(ndjson.split("\n").length > EVENTS);
    oracle = await openOracle(ndjson);
  });
  after(() => oracle?.close());

  for (const { name, check, share } of ASK) {
    it(`say the same of ${name}`, async function () {
      const own = random.fork(name);
      const count = Math.ceil(QUESTIONS * share);
      for (let n = 0; n < count; n++) await check(asker, oracle, own.fork(String(n)));
      tell(this, `${count} questions`);
    });
  }
});
