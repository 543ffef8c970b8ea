// What questions of analytics take over a game's history, beside DuckDB with the same events in its memory, and
// what rollups take of the disk: `npm run bench:analytics -- --events 10000000 --against ../other-checkout`.
import { createWriteStream } from "node:fs";
import { join } from "node:path";
import { finished } from "node:stream/promises";
import { DuckDBInstance } from "@duckdb/node-api";
import { onStages, type Site, type Sql, startWorker, until } from "./support/stage.ts";
import { type Entrant, inTurns, optionsOf, type Sample } from "./support/turns.ts";

const options = optionsOf({ events: "1000000", only: "" });
const EVENTS = Number(options.events);
const PLAYERS = Math.max(100, Math.round(0.03 * EVENTS));
const [DAYS, DAY_MS] = [60, 86_400_000];
/** The history ends with yesterday, UTC. */
const END_MS = Math.floor(Date.now() / DAY_MS) * DAY_MS;
const ZONE = "Europe/Berlin";
/** Of events while they are copied, and how long they may take to be rolled up, in ms. */
const [ROWS_AT_ONCE, ROLLED_MAX_MS] = [200_000, 600_000 + EVENTS / 5];

const dateOf = (daysBack: number): string => new Date(END_MS - daysBack * DAY_MS).toISOString().slice(0, 10);
const MONTH = { from: dateOf(30), to: dateOf(1) };
const ALL = { from: dateOf(DAYS), to: dateOf(1) };
const STEPS = ["session.started", "match.played", "match.won"] as const;

/** The same question to DuckDB, over `x` (usr, type, ts, day), where `day` is the local one. */
type Question = { path: string; query: Record<string, string>; duck: string };

const within = ({ from, to }: typeof MONTH): string => `day between '${from}' and '${to}'`;
/** The first event of a type at or after another, joined to the rows before. */
const next = (step: string, after: string, from: string): string => `
  select a.*, n.ts as t from (${from}) a asof left join (select usr as u, ts from e where type = '${step}') n
    on a.usr = n.u and n.ts >= a.${after}`;

const QUESTIONS: Readonly<Record<string, Question>> = {
  "overview of 30 days with comparison": {
    path: "overview",
    query: { ...MONTH, compare: "previous_period" },
    duck: `with d as (select distinct usr, day from x where ${within(ALL)}),
      f as (select usr, min(day) as first from x group by 1)
      select (select count(distinct usr) from d where ${within(MONTH)}), (select count(distinct usr) from d),
        (select count(*) from x where ${within(ALL)}), (select count(*) from f where first >= '${MONTH.from}'),
        (select list(n) from (select day, count(*) as n from d group by 1))`,
  },
  "retention of 30 daily cohorts": {
    path: "retention",
    query: { ...MONTH, offsets: "0,1,3,7,14,30" },
    duck: `with d as (select distinct usr, day from x), f as (select usr, min(day) as first from d group by 1)
      select first, day - first as age, count(*) from f join d using (usr)
      where first between '${MONTH.from}' and '${MONTH.to}' group by 1, 2`,
  },
  "cohorts of 8 weeks": {
    path: "cohorts",
    query: { ...ALL, unit: "week", periods: "8" },
    duck: `with d as (select distinct usr, date_trunc('week', day) as week from x),
      f as (select usr, min(week) as first from d group by 1)
      select first, week, count(*) from f join d using (usr) group by 1, 2`,
  },
  "players of a year by day": {
    path: "trends",
    query: { from: dateOf(365), to: dateOf(1), metric: "activePlayers" },
    duck: "select day, count(distinct usr) from x group by 1",
  },
  "events of a type by day": {
    path: "trends",
    query: { ...MONTH, metric: "event:match.won" },
    duck: `select day, count(*) from x where type = 'match.won' and ${within(MONTH)} group by 1`,
  },
  segments: {
    path: "segments",
    query: {},
    duck: `with d as (select usr, day, lag(day) over (partition by usr order by day) as before
        from (select distinct usr, day from x))
      select max_by(before, day) is null, max(day) >= '${dateOf(7)}', count(*) from d group by usr`,
  },
  "funnel of 3 types in 7 days": {
    path: "funnels",
    query: { ...MONTH, steps: STEPS.join(","), window: "P7D" },
    duck: `with a as (select usr, min(ts) as t1 from x where type = '${STEPS[0]}' and ${within(MONTH)} group by 1),
      b as (select usr, t1, t as t2 from (${next(STEPS[1], "t1", "select * from a")})),
      c as (select t1, t2, t as t3 from (${next(STEPS[2], "t2", "select * from b where t2 is not null")}))
      select (select count(*) from a), (select count(*) from b where t2 <= t1 + interval 7 day),
        (select count(*) from c where t2 <= t1 + interval 7 day and t3 <= t1 + interval 7 day)`,
  },
};

/** SQL of a number in [0, 1) that is the same for the same numbers. */
const chance = (...of: readonly string[]): string =>
  `((hashint8extended(${of.join(" * 1000003::bigint + ")}, 7) & 1048575) / 1048576.0)`;
const KIND = `case when kind < 0.2 then 'session.started' when kind < 0.55 then 'match.played'
  when kind < 0.75 then 'match.won' when kind < 0.9 then 'quiz.done' else 'item.bought' end`;

/** Players who come on any day, more on weekends, return less and less, and play in the evening. */
const fill = async (sql: Sql, { projectId }: Site): Promise<void> => {
  await sql(`insert into players (project_id, id, external_user_id, created_at, updated_at)
    select '${projectId}', gen_random_uuid(), 'player-' || n, now(), now() from generate_series(1, ${PLAYERS}) n`);
  await sql(`
    with p as (select n, floor(${chance("n", "1")} * ${DAYS})::int as born, ${chance("n", "2")} as zeal
      from generate_series(1, ${PLAYERS}::bigint) n),
    d as (select p.n, day from p, generate_series(p.born, ${DAYS - 1}) day
      where day = p.born or ${chance("p.n", "day")} < (0.15 + 0.6 * p.zeal * p.zeal)
        * (0.25 + 0.75 * exp(-(day - p.born) / 9.0)) * case when day % 7 in (0, 6) then 1.25 else 1 end),
    e as (select d.n, d.day, i, ${END_MS - DAYS * DAY_MS}::bigint + d.day * ${DAY_MS}::bigint
        + floor((0.75 * ${chance("d.n", "d.day", "3")} + 0.2 * ${chance("d.n", "d.day", "i", "5")})
          * ${DAY_MS})::bigint as ms, ${chance("d.n", "d.day", "i", "11")} as kind
      from d, generate_series(1, greatest(1, (14 * ${chance("d.n", "d.day", "13")})::int)) i)
    insert into tracked_events
      (project_id, id, external_user_id, event_type, properties, occurred_at, received_at)
    select '${projectId}', (lpad(to_hex(ms), 12, '0') || '7' || substr(md5(n || ' ' || day || ' ' || i), 1, 3)
        || '8' || substr(md5(i || ' ' || day || ' ' || n), 1, 15))::uuid, 'player-' || n, ${KIND},
      jsonb_build_object('level', 1 + (n + day) % 40), to_timestamp(ms / 1000.0), to_timestamp(ms / 1000.0)
    from e order by ms`);
  await sql(`update projects set timezone = '${ZONE}'`);
  await sql("update tenants set plan = 'ENTERPRISE', plan_overrides = '{\"analyticsHistoryDays\": null}'");
  await sql("vacuum analyze");
};

/** A build before days were closed is done with its rollups. */
const isRolledUp = async (sql: Sql): Promise<boolean> => {
  const [closed] = await sql("select to_regclass('analytics_standings') as found");
  const isClosed = closed!["found"]
    ? `exists (select from analytics_standings where day >= ${Math.floor(END_MS / DAY_MS)})`
    : "true";
  const rows = await sql(`select 1 from analytics_rollups r where gains_watermark is not null and ${isClosed}
    and not exists (select from tracked_events e where e.project_id = r.project_id and e.id > r.watermark)`);
  return rows.length > 0;
};

const sizesOf = async (sql: Sql): Promise<string> => {
  const size = (table: string) => `(select sum(pg_total_relation_size(c.oid)) from pg_class c
    left join pg_inherits i on i.inhrelid = c.oid where coalesce(i.inhparent, c.oid) = '${table}'::regclass)`;
  const [row] = await sql(`select (select count(*) from tracked_events) as events,
    ${size("tracked_events")} as of_events, ${size("analytics_days")} as of_days,
    (select count(*) from (select distinct external_user_id, occurred_at::date from tracked_events) d) as days`);
  const { events, of_events: ofEvents, of_days: ofDays, days } = row as Record<string, number>;
  const of = (a = 0, b = 1): string => (a / b).toFixed(1);
  return `${events} events of ${PLAYERS} players: ${of(ofDays, days)} bytes of rollups a player-day, ${of(ofDays, events)} an event, which takes ${of(ofEvents, events)}`;
};

/** DuckDB with the events in its memory. `day` by offsets, which are known, or by its own zones. */
const openDuck = async (sql: Sql, dir: string) => {
  const file = join(dir, "events.csv");
  const out = createWriteStream(file);
  for (let after = "00000000-0000-0000-0000-000000000000"; ;) {
    const [page] = await sql(`
      select string_agg(external_user_id || ',' || event_type || ',' || extract(epoch from occurred_at), E'\\n')
        as lines, max(id::text) as last
      from (select * from tracked_events where id > '${after}' order by id limit ${ROWS_AT_ONCE}) x`);
    const { lines, last } = page as { lines: string | null; last: string };
    if (lines === null) break;
    out.write(`${lines}\n`);
    after = last;
  }
  await finished(out.end());
  const connection = await (await DuckDBInstance.create(":memory:", { threads: "2" })).connect();
  await connection.run(`create table e as select usr, type, make_timestamp((s * 1000000)::bigint) as ts
    from read_csv('${file}', columns = {usr: 'VARCHAR', type: 'VARCHAR', s: 'DOUBLE'}, header = false)`);
  const clocks = new Intl.DateTimeFormat("en", { timeZone: ZONE, timeZoneName: "longOffset" });
  const hoursAt = (ms: number): number => Number(/GMT([+-]\d\d)/.exec(clocks.format(ms))?.[1] ?? 0);
  const hours = Array.from({ length: DAYS * 24 }, (_, i) => END_MS - (DAYS * 24 - i) * 3_600_000);
  const changes = hours.filter((ms) => hoursAt(ms) !== hoursAt(ms - 3_600_000));
  const cases = changes.map(
    (ms) => `when ts < epoch_ms(${ms}::bigint) then interval ${hoursAt(ms - 1)} hour`,
  );
  const offset = changes.length === 0 ? "" : `case ${cases.join(" ")} else`;
  const days = {
    "DuckDB, offsets": `ts + ${offset} interval ${hoursAt(END_MS)} hour ${changes.length === 0 ? "" : "end"}`,
    "DuckDB, its zones": `timezone('${ZONE}', ts at time zone 'UTC')`,
  };
  return Object.entries(days).map(([name, local]) => ({
    name,
    ask: async ({ duck }: Question): Promise<Sample> => {
      const startMs = performance.now();
      await connection.runAndReadAll(
        duck
          .replace(/^(with)?/, `with x as (select *, (${local})::date as day from e)$1`)
          .replace(")with", "), "),
      );
      return { ms: performance.now() - startMs };
    },
  }));
};

let asked = 0;

/** As if for the first time: of each moment there is an answer of its own. */
const ask = async ({ url, key }: Site, { path, query }: Question): Promise<Sample> => {
  const asOf = new Date(END_MS + 60_000 + asked++).toISOString();
  const search = new URLSearchParams({ ...query, timezone: ZONE, asOf }).toString();
  const startMs = performance.now();
  const response = await fetch(`${url}/api/v1/analytics/${path}?${search}`, {
    headers: { "X-API-Key": key },
  });
  const text = await response.text();
  if (!response.ok) throw new Error(`${path}: ${response.status} ${text}`);
  return { ms: performance.now() - startMs };
};

await onStages(options, async (sites, dir) => {
  for (const { name, stage, site } of sites) {
    await fill(stage.sql, site);
    const worker = await startWorker(stage);
    const startMs = performance.now();
    await until(() => isRolledUp(stage.sql), { maxMs: ROLLED_MAX_MS, everyMs: 500 });
    console.log(`${name}: rolled up in ${Math.round((performance.now() - startMs) / 1_000)} s`);
    await stage.sql("vacuum analyze");
    console.log(await sizesOf(stage.sql));
    await worker.stop();
  }
  const ducks = await openDuck(sites[0]!.stage.sql, dir);
  for (const [name, question] of Object.entries(QUESTIONS)) {
    if (!options.only.split(",").some((part) => name.includes(part))) continue;
    const ours = sites.map((one): Entrant => ({ name: one.name, measure: () => ask(one.site, question) }));
    const theirs = ducks.map((duck): Entrant => ({ name: duck.name, measure: () => duck.ask(question) }));
    await inTurns(name, [...ours, ...theirs], { rounds: Number(options.rounds) });
  }
});
