import {
  type AskedOracle,
  dateOf,
  list,
  numberIn,
  numberOf,
  type Oracle,
  quote,
  ratio,
  valueOf,
} from "./oracle.ts";

/** Returns an overview's metrics of events. Players are active by `activeEvents`, else by all. */
export const overviewBy = async (
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

/** Which events count: all by default. */
export type OracleFilters = { types?: readonly string[] | undefined; teams?: readonly string[] | undefined };

const filtersIn = ({ types, teams }: OracleFilters): string[] => [
  "true",
  ...(types ? [`type in ${list(types)}`] : []),
  ...(teams ? [`json_extract_string(props, '$.team') in ${list(teams)}`] : []),
];

/** What a trend counts, how, and of which events. */
export type OracleTrend = OracleFilters & {
  metric: string;
  interval: "hour" | "day" | "week" | "month";
  weekStart: "monday" | "sunday";
  breakdown?: string | undefined;
  limit: number;
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
  return { measure: `coalesce(sum(${numberIn(property)}), 0)`, where: `type = ${quote(type)}` };
};

const keyOf = (breakdown: string | undefined): string => {
  if (breakdown === undefined) return "''";
  if (breakdown === "eventType") return "type";
  return valueOf(breakdown.slice("property:".length));
};

/** Of each value of the breakdown: the total, and the buckets that have any. */
type OracleSeries = Map<string, { total: number; points: Map<string, number> }>;

/** Returns the series of a trend. */
export const trendBy = async (
  oracle: Oracle,
  { from, to, ...asked }: AskedOracle,
  { metric, interval, weekStart, breakdown, limit, ...filters }: OracleTrend,
): Promise<OracleSeries> => {
  const { measure, where } = measureOf(metric);
  const bucket = BUCKETS[interval === "week" ? `week ${weekStart}` : interval]!;
  const conditions = [`d between ${dateOf(from)} and ${dateOf(to)}`, where, ...filtersIn(filters)];
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
export const segmentsBy = async (
  oracle: Oracle,
  { timezone, asOf, ...filters }: Pick<AskedOracle, "timezone" | "asOf"> & OracleFilters,
): Promise<Record<string, number>> => {
  const today = `(${quote(asOf)}::timestamptz at time zone ${quote(timezone)})::date`;
  const rows = await oracle.ask(
    { timezone, asOf },
    `, p as (
      select usr, ${today} - 1 as last_day, min(d) as born, max(d) as seen,
        min(d) filter (where d >= ${today} - 7) as came_back,
        max(d) filter (where d < ${today} - 7) as left_on,
        count(distinct d) filter (where d between ${today} - 28 and ${today} - 1) as days
      from e where ${filtersIn(filters).join(" and ")} group by usr),
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
