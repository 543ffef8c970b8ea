// Questions that a game asks of its history, with the time that each may take.
const DAY_MS = 86_400_000;
export const DAYS = 60;

/** The history ends with yesterday, UTC. */
export const END_MS = Math.floor(Date.now() / DAY_MS) * DAY_MS;
export const dateOf = (daysBack: number): string =>
  new Date(END_MS - daysBack * DAY_MS).toISOString().slice(0, 10);
export const MONTH = { from: dateOf(30), to: dateOf(1) };
export const ALL = { from: dateOf(DAYS), to: dateOf(1) };
const STEPS = ["session.started", "match.played", "match.won"];

export type Question = {
  path: string;
  query: Record<string, string>;
  /** What it may take, in ms. */
  goalMs: number;
  /** The same for DuckDB, over `e` (usr, type, ts). */
  duck?: string;
};

const within = ({ from, to }: typeof MONTH): string =>
  `ts >= '${from}' and ts < (date '${to}' + interval 1 day)`;

export const QUESTIONS: Readonly<Record<string, Question>> = {
  "overview of 30 days with comparison": {
    path: "overview",
    query: { ...MONTH, compare: "previous_period" },
    goalMs: 300,
    duck: `with f as (select usr, min(ts) as first from e group by 1),
      d as (select distinct usr, ts::date as day from e where ${within(ALL)})
      select (select count(distinct usr) from d),
        (select list(n) from (select day, count(*) as n from d group by 1)),
        (select count(*) from f), (select list(n) from (select first::date, count(*) as n from f group by 1)),
        (select count(*) from e where ${within(ALL)})`,
  },
  "retention of 30 daily cohorts": {
    path: "retention",
    query: { ...MONTH, offsets: "0,1,3,7,14,30" },
    goalMs: 200,
    duck: `with f as (select usr, min(ts)::date as first from e group by 1),
      d as (select distinct usr, ts::date as day from e)
      select first, day - first as age, count(*) from f join d using (usr)
      where first between '${MONTH.from}' and '${MONTH.to}' group by 1, 2`,
  },
  "weekly cohorts": {
    path: "cohorts",
    query: { ...ALL, unit: "week", periods: "8" },
    goalMs: 100,
    duck: `with f as (select usr, date_trunc('week', min(ts)) as first from e group by 1),
      d as (select distinct usr, date_trunc('week', ts) as week from e)
      select first, week, count(*) from f join d using (usr) group by 1, 2`,
  },
  "funnel of 3 steps in 7 days": {
    path: "funnels",
    query: { ...MONTH, steps: STEPS.join(","), window: "P7D" },
    goalMs: 600,
    duck: `with a as (
        select usr, min(ts) as t1 from e where type = '${STEPS[0]}' and ${within(MONTH)} group by 1),
      b as (select usr, t1, (select min(x.ts) from e x where x.usr = a.usr and x.type = '${STEPS[1]}'
        and x.ts >= t1 and x.ts <= t1 + interval 7 day) as t2 from a),
      c as (select t2, (select min(x.ts) from e x where x.usr = b.usr and x.type = '${STEPS[2]}'
        and x.ts >= t2 and x.ts <= t1 + interval 7 day) as t3 from b)
      select count(*), count(t2), count(t3) from c`,
  },
  "daily active players of a year": {
    path: "trends",
    query: { from: dateOf(365), to: dateOf(1), metric: "activePlayers" },
    goalMs: 100,
    duck: `select ts::date, count(distinct usr) from e group by 1`,
  },
  "one type of event by day": {
    path: "trends",
    query: { ...MONTH, metric: "event:match.won" },
    goalMs: 100,
    duck: `select ts::date, count(*) from e where type = 'match.won' and ${within(MONTH)} group by 1`,
  },
  "XP and coins by day": {
    path: "trends",
    query: { ...MONTH, metric: "xpGranted,currencyGranted:coins,badgesEarned,levelUps" },
    goalMs: 100,
  },
  segments: { path: "segments", query: {}, goalMs: 1_000 },
};
