import {
  type AskedOracle,
  byValue,
  inColumn,
  list,
  numberIn,
  numberOf,
  type Oracle,
  type OracleRow,
  quote,
  ratio,
  shareOf,
  total,
  valueOf,
} from "./oracle.ts";

/** Retention and cohorts by team, as the guide of analytics defines them, in the SQL of DuckDB. */

/** The parameters of a question. */
type Query = AskedOracle & Readonly<Record<string, string>>;

/** Dates as numbers of periods, of which neighbours differ by one, and the first date of period p. */
const CALENDARS: Readonly<Record<string, (date: string) => { no: string; first: string }>> = {
  day: (date) => ({ no: `${date} - date '1970-01-01'`, first: "date '1970-01-01' + p::int" }),
  "week monday": (date) => ({
    no: `(date_trunc('week', ${date})::date - date '1970-01-05') // 7`,
    first: "date '1970-01-05' + 7 * p::int",
  }),
  "week sunday": (date) => ({
    no: `(date_trunc('week', ${date} + 1)::date - date '1970-01-05') // 7`,
    first: "date '1970-01-04' + 7 * p::int",
  }),
  month: (date) => ({
    no: `12 * year(${date}) + month(${date}) - 1`,
    first: "make_date(p // 12, p % 12 + 1, 1)",
  }),
};

const periodOf = ({ unit, weekStart }: Query, date: string) =>
  CALENDARS[unit === "week" ? `week ${weekStart}` : unit!]!(date);

const withinOf = ({ from, to }: AskedOracle): string => `d between ${quote(from)} and ${quote(to)}`;

/** A column: the periods after that of the start which it is of, and the one that ends it. */
type Column = readonly [lo: number, hi: number, until: number];

/** The table `cells`: every period p of the range with every column, and whether that was over. */
const cellsOf = (query: Query, columns: readonly Column[]): string => {
  const { timezone, asOf, from, to } = query;
  const { no, first } = periodOf(query, "d");
  const isOver =
    query.clock === "24h"
      ? `(select ms from midnights where day = p + 1) + (until + 1) * 86400000::bigint
        <= epoch_ms(${quote(asOf)}::timestamptz)`
      : `${periodOf(query, `(${quote(asOf)}::timestamptz at time zone ${quote(timezone)})::date`).no} > p + until`;
  // The first moment with a date: there may be another midnight, or none.
  return `midnights as (
      select (t at time zone ${quote(timezone)})::date - date '1970-01-01' as day, min(epoch_ms(t)) as ms
      from (select unnest(generate_series(${quote(from)}::timestamptz - interval 24 hour,
        ${quote(to)}::timestamptz + interval 72 hour, interval 15 minute)) as t) group by 1),
    columns(i, lo, hi, until) as (values ${columns.map((one, i) => `(${[i, ...one].join()})`).join()}),
    dates as (select unnest(generate_series(date ${quote(from)}, ${quote(to)}, interval 1 day))::date as d),
    periods as (select distinct ${no} as p from dates),
    cells as (
      select *, strftime(${first}, '%Y-%m-%d') as period, (${isOver})::int as complete
      from periods cross join columns)`;
};

const COUNTS = `select cells.*, counts.* exclude (p, i) from cells left join counts using (p, i) order by p, i`;

const isComplete = (row: OracleRow): boolean => numberOf(row, "complete") === 1;

const byPeriod = (rows: readonly OracleRow[]) => [...Map.groupBy(rows, ({ period }) => String(period))];

/** A period of nobody has rows without a value. */
const byTeam = (rows: readonly OracleRow[], limit: string | undefined) => {
  const ofPlayers = rows.filter(({ value }) => value !== null);
  return byValue(ofPlayers, Number(limit));
};

const columnOf = (type: string, [offset, until = offset]: readonly number[]): Column => {
  if (type === "unbounded") return [offset!, 1_000_000, until!];
  return [type === "within" ? 1 : offset!, until!, until!];
};

/** Of every cell by team: who started, and who of them returned. */
const retentionCells = (oracle: Oracle, query: Query, columns: readonly Column[]): Promise<OracleRow[]> => {
  const { entry, clock, startEvent, returnEvent } = query;
  const starts = startEvent === undefined ? "true" : `type = ${quote(startEvent)}`;
  const [of, each] = entry === "recurring" ? [withinOf(query), "usr, p"] : ["true", "usr"];
  // Where any event is a return, so is the one that starts.
  const returns = returnEvent ? `x.seq <> s.seq and x.type in ${list(returnEvent.split(","))}` : "true";
  const distance = clock === "24h" ? "(epoch_ms(x.ts) - epoch_ms(s.ts)) // 86400000" : "x.p - s.p";
  return oracle.ask(
    query,
    `, x as (select *, ${periodOf(query, "d").no} as p, ${valueOf("team")} as value from e),
    firsts as (
      select * from x where ${starts} and ${of}
      qualify row_number() over (partition by ${each} order by ts, seq) = 1),
    s as (select * from firsts where ${withinOf(query)}),
    r as (select s.seq, ${distance} as k from s join x on x.usr = s.usr and x.ts >= s.ts and ${returns}),
    ${cellsOf(query, columns)},
    counts as (
      select p, i, value, count(distinct s.seq) as size,
        count(distinct s.seq) filter (k between lo and hi) as players
      from s cross join columns left join r on r.seq = s.seq group by all)
    ${COUNTS}`,
  );
};

/** The mean of quotients. */
const meanOf = (rates: readonly (readonly [part: number, of: number])[]): number => {
  let [n, d] = [0n, 1n];
  for (const [part, of] of rates) [n, d] = [n * BigInt(of) + BigInt(part) * d, d * BigInt(of)];
  return rates.length === 0 ? 0 : ratio(n, d * BigInt(rates.length), 6);
};

/** Returns retention as it is answered. */
export const retentionBy = async (oracle: Oracle, query: Query) => {
  const columns = (query.offsets ?? query.brackets!).split(",").map((text) => text.split("-").map(Number));
  const rows = await retentionCells(
    oracle,
    query,
    columns.map((one) => columnOf(query.type!, one)),
  );
  const name = ([offset, until = offset]: readonly number[]) =>
    query.brackets ? { offset, until } : { offset };
  const shares = (of: readonly OracleRow[]) =>
    columns.map((column, i) => {
      const old = inColumn(of, i).filter(isComplete);
      const [eligible, players] = [total(old, "size"), total(old, "players")];
      return { ...name(column), eligible, players, rate: shareOf(players, eligible) };
    });
  const sizeOf = (of: readonly OracleRow[]) => total(inColumn(of, 0), "size");
  const cohorts = byPeriod(rows).map(([period, own]) => {
    const size = sizeOf(own);
    const cells = columns.map((column, i) => {
      const [cell, players] = [inColumn(own, i), total(inColumn(own, i), "players")];
      return { ...name(column), players, rate: shareOf(players, size), complete: cell.every(isComplete) };
    });
    return { period, size, cells };
  });
  const overall = shares(rows).map((share, i) => {
    const old = cohorts.filter(({ size, cells }) => size > 0 && cells[i]!.complete);
    return { ...share, meanRate: meanOf(old.map(({ size, cells }) => [cells[i]!.players, size])) };
  });
  const breakdown = byTeam(rows, query.limit).map(([value, own]) => {
    return { value, size: sizeOf(own), overall: shares(own) };
  });
  return { cohorts, overall, breakdown: query.breakdown ? breakdown : undefined };
};

const cohortCells = (oracle: Oracle, query: Query, columns: readonly number[]): Promise<OracleRow[]> => {
  const [orLater, orBefore] = query.cumulative === "true" ? [">=", "<="] : ["=", "="];
  return oracle.ask(
    query,
    `, x as (
      select *, ${periodOf(query, "d").no} as p, ${valueOf("team")} as value,
        case when type = 'match' then ${numberIn("score")} end as score
      from e),
    firsts as (select * from x qualify row_number() over (partition by usr order by ts, seq) = 1),
    b as (select * from firsts where ${withinOf(query)}),
    a as (
      select b.usr, x.p - b.p as k, count(*) as events, sum(x.score) as amount
      from b join x on x.usr = b.usr group by all),
    ${cellsOf(
      query,
      columns.map((k) => [k, k, k]),
    )},
    counts as (
      select p, i, value, count(distinct b.usr) as size,
        count(distinct a.usr) filter (k ${orLater} i) as players,
        sum(events) filter (k ${orBefore} i) as events, sum(amount) filter (k ${orBefore} i) as amount
      from b cross join columns left join a on a.usr = b.usr group by all)
    ${COUNTS}`,
  );
};

const measured = (rows: readonly OracleRow[], metric: string, size: number): number => {
  if (metric === "rate") return shareOf(total(rows, "players"), size);
  if (metric === "eventsPerPlayer") return shareOf(total(rows, "events"), size);
  return total(rows, metric === "sum:match.score" ? "amount" : metric);
};

/** Returns cohorts as they are answered, but for the labels of periods. */
export const cohortsBy = async (oracle: Oracle, query: Query) => {
  const columns = Array.from({ length: Number(query.periods) + 1 }, (_, k) => k);
  const rows = await cohortCells(oracle, query, columns);
  const rowOf = (own: readonly OracleRow[]) => {
    const size = total(inColumn(own, 0), "size");
    const values = columns.map((k) => measured(inColumn(own, k), query.metric!, size));
    return { size, values, complete: columns.map((k) => inColumn(own, k).every(isComplete)) };
  };
  const overall = columns.map((k) => {
    const old = inColumn(rows, k).filter(isComplete);
    const eligible = total(old, "size");
    return { k, eligible, players: total(old, "players"), value: measured(old, query.metric!, eligible) };
  });
  const cohorts = query.segmentBy
    ? byTeam(rows, query.limit).map(([label, own]) => ({ period: null, label, ...rowOf(own) }))
    : byPeriod(rows).map(([period, own]) => ({ period, ...rowOf(own) }));
  return { cohorts, overall };
};
