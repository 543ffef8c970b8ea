import { rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { type DuckDBConnection, DuckDBInstance } from "@duckdb/node-api";
import assert from "node:assert/strict";
import { newId } from "../../src/domain/kernel/ids.ts";
import { dateOfDay, dayStart, localDay } from "../../src/domain/analytics/range.ts";
import { startApp, type TestApp } from "../support/app/app.ts";
import { type Asker, type Past, anAsker, daysIn, rollUpAll } from "../support/analytics/histories.ts";
import { exported } from "../support/data/data.ts";
import { type Random, seeded } from "../support/seed.ts";
import { tell } from "../support/made.ts";

type Value = string | number | null;
type OracleRow = Record<string, Value>;

/**
 * A second implementation of analytics: DuckDB's own SQL over exported events, by its own calendars of zones
 * (ICU). Dates are YYYY-MM-DD, `asOf` is an instant.
 */
type Oracle = {
  /**
   * Runs a query of `e`, the events before `asOf`: usr, type, ts, local (by the zone's clock), d (its
   * date) and props.
   */
  ask(asked: { timezone: string; asOf: string }, query: string): Promise<OracleRow[]>;
  close(): void;
};

/** Quotes a text as SQL. */
const quote = (text: string): string => `'${text.replaceAll("'", "''")}'`;

/** Loads what GET /analytics/export gives of events as NDJSON. */
const openOracle = async (ndjson: string): Promise<Oracle> => {
  const instance = await DuckDBInstance.create(":memory:", { threads: "1" });
  const connection: DuckDBConnection = await instance.connect();
  const file = join(tmpdir(), `laurel-events-${newId()}.ndjson`);
  writeFileSync(file, ndjson);
  try {
    await connection.run(`
      create table ev as select "externalUserId" as usr, "eventType" as type, "timestamp"::timestamptz as ts,
        properties as props
      from read_json(${quote(file)}, format = 'newline_delimited', columns = {externalUserId: 'VARCHAR',
        eventType: 'VARCHAR', "timestamp": 'VARCHAR', idempotencyKey: 'VARCHAR', properties: 'JSON'})`);
  } finally {
    rmSync(file);
  }
  return {
    ask: async ({ timezone, asOf }, query) => {
      const events = `
        select usr, type, ts, props, ts at time zone ${quote(timezone)} as local,
          (ts at time zone ${quote(timezone)})::date as d
        from ev where ts < ${quote(asOf)}::timestamptz`;
      const read = await connection.runAndReadAll(`with e as (${events}) ${query}`);
      return read.getRowObjectsJson() as OracleRow[];
    },
    close: () => {
      connection.closeSync();
      instance.closeSync();
    },
  };
};

/** Which days are asked about, in which zone, and what is known. */
type AskedOracle = { timezone: string; asOf: string; from: string; to: string };

const list = (texts: readonly string[]): string => `(${texts.map(quote).join(", ")})`;

const dateOf = (text: string): string => `date ${quote(text)}`;

const numberOf = (row: OracleRow | undefined, name: string): number => Number(row?.[name] ?? 0);

/** A quotient of whole numbers, rounded exactly: what is halfway is rounded up. */
const ratio = (part: number, of: number, decimals: number): number => {
  const factor = 10 ** decimals;
  const [n, d] = [BigInt(part) * BigInt(factor), BigInt(of)];
  return Number((2n * n + d) / (2n * d)) / factor;
};

/** Returns an overview's metrics of events. Players are active by `activeEvents`, else by all. */
const overviewBy = async (
  oracle: Oracle,
  { from, to, ...asked }: AskedOracle,
  activeEvents?: readonly string[],
): Promise<Record<string, number | null>> => {
  const isActive = activeEvents === undefined ? "true" : `type in ${list(activeEvents)}`;
  const [first, last] = [dateOf(from), dateOf(to)];
  const within = `d between ${first} and ${last}`;
  const back = (days: number) => `d between ${last} - ${days - 1} and ${last}`;
  const [row] = await oracle.ask(
    asked,
    `, f as (select usr, min(d) as born from e group by usr),
    a as (select e.*, born from e join f using (usr) where ${isActive})
    select
      (select count(*) from e where ${within}) as events,
      (select count(distinct usr) from a where ${within}) as active,
      (select count(distinct usr) from a where ${within} and born < ${first}) as returning_ones,
      (select count(*) from f where born between ${first} and ${last}) as fresh,
      (select count(*) from f where born <= ${last}) as everyone,
      (select count(distinct usr) from a where ${back(7)}) as wau,
      (select count(distinct usr) from a where ${back(30)}) as mau,
      (select count(distinct (usr, d)) from a where ${within}) as active_days,
      (select count(distinct (usr, d)) from a where ${back(30)}) as monthly_days,
      ${last} - ${first} + 1 as days`,
  );
  const [active, events, mau] = ["active", "events", "mau"].map((name) => numberOf(row, name)) as [
    number,
    number,
    number,
  ];
  return {
    activePlayers: active,
    newPlayers: numberOf(row, "fresh"),
    returningPlayers: numberOf(row, "returning_ones"),
    totalPlayers: numberOf(row, "everyone"),
    events,
    eventsPerActivePlayer: active === 0 ? null : ratio(events, active, 4),
    avgDau: ratio(numberOf(row, "active_days"), numberOf(row, "days"), 4),
    wau: numberOf(row, "wau"),
    mau,
    stickiness: mau === 0 ? null : ratio(numberOf(row, "monthly_days"), 30 * mau, 6),
  };
};

/** What a trend counts, how, and of which events. */
type OracleTrend = {
  metric: string;
  interval: "hour" | "day" | "week" | "month";
  weekStart: "monday" | "sunday";
  breakdown?: string | undefined;
  limit: number;
  types?: readonly string[] | undefined;
  teams?: readonly string[] | undefined;
};

const BUCKETS: Readonly<Record<string, string>> = {
  // Two hours of one name, where clocks are put back, count as one.
  hour: "strftime(local, '%Y-%m-%dT%H')",
  day: "strftime(d, '%Y-%m-%d')",
  "week monday": "strftime(date_trunc('week', d), '%Y-%m-%d')",
  "week sunday": "strftime(date_trunc('week', d + 1) - interval 1 day, '%Y-%m-%d')",
  month: "strftime(date_trunc('month', d), '%Y-%m-%d')",
};

const measureOf = (metric: string): { measure: string; where: string } => {
  if (metric === "events") return { measure: "count(*)", where: "true" };
  if (metric === "activePlayers") return { measure: "count(distinct usr)", where: "true" };
  const [kind, rest = ""] = metric.split(":");
  if (kind === "event") return { measure: "count(*)", where: `type = ${quote(rest)}` };
  const [type = "", property = ""] = rest.split(".");
  const path = quote(`$.${property}`);
  const number = `case when json_type(props, ${path}) in ('BIGINT', 'UBIGINT', 'DOUBLE')
    then json_extract_string(props, ${path})::double end`;
  return { measure: `coalesce(sum(${number}), 0)`, where: `type = ${quote(type)}` };
};

const keyOf = (breakdown: string | undefined): string => {
  if (breakdown === undefined) return "''";
  if (breakdown === "eventType") return "type";
  const path = quote(`$.${breakdown.slice("property:".length)}`);
  return `coalesce(json_extract_string(props, ${path}), '(none)')`;
};

/** Of each value of the breakdown: the total, and the buckets that have any. */
type OracleSeries = Map<string, { total: number; points: Map<string, number> }>;

/** Returns the series of a trend. */
const trendBy = async (
  oracle: Oracle,
  { from, to, ...asked }: AskedOracle,
  { metric, interval, weekStart, breakdown, limit, types, teams }: OracleTrend,
): Promise<OracleSeries> => {
  const { measure, where } = measureOf(metric);
  const bucket = BUCKETS[interval === "week" ? `week ${weekStart}` : interval]!;
  const conditions = [
    `d between ${dateOf(from)} and ${dateOf(to)}`,
    where,
    ...(types ? [`type in ${list(types)}`] : []),
    ...(teams ? [`json_extract_string(props, '$.team') in ${list(teams)}`] : []),
  ];
  const rows = await oracle.ask(
    asked,
    `, x as (
      select *, ${keyOf(breakdown)} as key, ${bucket} as bucket from e where ${conditions.join(" and ")}),
    ranked as (select key, row_number() over (order by ${measure} desc, key) as place from x group by key),
    y as (select x.* exclude (key), case when place <= ${limit} then key else '(other)' end as key
      from x join ranked using (key))
    select key, bucket, (${measure})::varchar as n from y group by grouping sets ((key, bucket), (key))`,
  );
  const series: OracleSeries = new Map();
  for (const { key, bucket: name, n } of rows) {
    const one = series.get(String(key)) ?? { total: 0, points: new Map<string, number>() };
    series.set(String(key), one);
    if (name === null) one.total = Number(n);
    else one.points.set(String(name), Number(n));
  }
  return series;
};

/** Returns the players of each segment of the groups lifecycle and engagement, at `asOf`. */
const segmentsBy = async (
  oracle: Oracle,
  { timezone, asOf }: Pick<AskedOracle, "timezone" | "asOf">,
): Promise<Record<string, number>> => {
  const today = `(${quote(asOf)}::timestamptz at time zone ${quote(timezone)})::date`;
  const rows = await oracle.ask(
    { timezone, asOf },
    `, p as (
      select usr, ${today} - 1 as last_day, min(d) as born, max(d) as seen,
        min(d) filter (where d >= ${today} - 7) as came_back,
        max(d) filter (where d < ${today} - 7) as left_on,
        count(distinct d) filter (where d between ${today} - 28 and ${today} - 1) as days
      from e group by usr),
    s as (
      select case
          when last_day - born <= 6 then 'new'
          when last_day - seen <= 6 then
            case when came_back - left_on >= 30 then 'resurrected' else 'active' end
          when last_day - seen <= 13 then 'at_risk'
          when last_day - seen <= 29 then 'dormant'
          else 'churned' end as lifecycle,
        case when days = 0 then 'none' when days <= 3 then 'casual' when days <= 11 then 'regular'
          when days <= 19 then 'core' else 'power' end as engagement
      from p)
    select 'lifecycle:' || lifecycle as name, count(*) as n from s group by 1
    union all select 'engagement:' || engagement, count(*) from s group by 1`,
  );
  return Object.fromEntries(rows.map(({ name, n }) => [String(name), Number(n)]));
};

/** `npm run verify:analytics` asks more; SEED makes the same choices again. */
const QUESTIONS = Number(process.env["VERIFY_QUESTIONS"] ?? 60);
const EVENTS = Number(process.env["VERIFY_EVENTS"] ?? 4_000);

/** Half an hour, summer times of half an hour, midnights that do not exist, and two that are plain. */
const ZONES = [
  "Asia/Kolkata",
  "Australia/Lord_Howe",
  "America/Sao_Paulo",
  "Africa/Cairo",
  "America/New_York",
  "Asia/Kathmandu",
  "UTC",
];
/** In each of them clocks are changed: in Sao Paulo at midnight until 2019, in Cairo since 2023. */
const SEASONS = [
  ["2018-09-15", "2019-03-15"],
  ["2024-02-15", "2024-12-01"],
] as const;
/** Days that begin at one o'clock. */
const SKIPPED = [
  ["America/Sao_Paulo", "2018-11-04"],
  ["Africa/Cairo", "2024-04-26"],
] as const;
const TYPES = ["quiz.done", "login", "match", "chat"];
const TEAMS = ["GER", "BRA", "EGY", "AUS", "IND"];
const DAY_MS = 86_400_000;

const dayOf = (date: string): number => Date.parse(date) / DAY_MS;

/** A day of a season. */
const aDay = (random: Random): number => {
  const [from, to] = random.pick(SEASONS).map(dayOf) as [number, number];
  return random.between(from, to);
};

/** Much happens around midnights of some zone, often in one millisecond, and it does not come in order. */
const aHistory = (random: Random): Past[] => {
  const events: Past[] = [];
  while (events.length < EVENTS) {
    const zone = random.pick(ZONES);
    const midnight = dayStart(daysIn(zone), aDay(random));
    const at = random.chance(0.5)
      ? midnight + random.pick([-1, 0, 1, -1_800_000, 1_800_000, 3_599_999, 3_600_000, -3_600_001])
      : midnight + random.between(0, DAY_MS);
    const count = random.chance(0.2) ? random.between(2, 4) : 1;
    for (let i = 0; i < count; i++) {
      const score = random.pick([random.between(-5, 100), random.between(0, 9) / 4, "12", null]);
      const properties = { ...(random.chance(0.8) ? { team: random.pick(TEAMS) } : {}), score };
      const user = `user-${Math.min(random.between(0, 300), random.between(0, 300))}`;
      events.push([user, random.pick(TYPES), new Date(at).toISOString(), properties]);
    }
  }
  return random.shuffle(events);
};

const aRange = (random: Random): AskedOracle => {
  const [zone, date] = random.chance(0.15) ? random.pick(SKIPPED) : [random.pick(ZONES), undefined];
  const first = date === undefined ? aDay(random) : dayOf(date);
  const last = first + random.pick([0, 1, 6, random.between(0, 60), random.between(60, 200)]);
  // Everything is known, or all that was over, or the range is going on.
  const known = random.pick([last + 1, last + 1, last + 30, random.between(first + 1, last + 1)]);
  const midnight = dayStart(daysIn(zone), known);
  const asOf = random.chance(0.5) ? midnight : midnight + random.between(1, DAY_MS);
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
    types: random.chance(0.3) ? random.shuffle(TYPES).slice(0, 2) : undefined,
    teams: random.chance(0.3) ? random.shuffle(TEAMS).slice(0, 2) : undefined,
  };
};

const checkTrend: Check = async (asker, oracle, random) => {
  const trend = aTrend(random);
  const asked = aRange(random);
  const { metric, interval, weekStart, breakdown, limit, types, teams } = trend;
  const query: Record<string, string> = {
    ...asked,
    metric,
    interval,
    weekStart,
    limit: String(limit),
    ...(breakdown ? { breakdown } : {}),
    ...(types ? { "filter[eventType]": types.join(",") } : {}),
    ...(teams ? { "filter[properties.team]": teams.join(",") } : {}),
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
  const { groups } = await asker.ask("segments", { timezone, asOf });
  type Group = { key: string; segments: { key: string; players: number }[] };
  const shown = Object.fromEntries(
    (groups as Group[])
      .filter(({ key }) => key === "lifecycle" || key === "engagement")
      .flatMap(({ key, segments }) => segments.map((one) => [`${key}:${one.key}`, one.players] as const))
      .filter(([, players]) => players > 0),
  );
  assert.deepEqual(shown, await segmentsBy(oracle, { timezone, asOf }), `${timezone} ${asOf}`);
};

/** Every question, and how often it is asked. */
const ASK: readonly { name: string; check: Check; share: number }[] = [
  { name: "overview", check: checkOverview, share: 0.35 },
  { name: "trends", check: checkTrend, share: 0.5 },
  { name: "segments", check: checkSegments, share: 0.15 },
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
