// Questions of analytics over a game's history: from rollups, from events, and by DuckDB. See README.md.
import assert from "node:assert/strict";
import { join } from "node:path";
import { parseArgs } from "node:util";
import { freePort } from "../test/support/processes/process.ts";
import { ALL, dateOf, DAYS, END_MS, QUESTIONS } from "./support/analytics-questions.ts";
import { askOf } from "./support/ask-analytics.ts";
import { describeMachine, type Pool } from "./support/box.ts";
import { MAIN, startChild } from "./support/children.ts";
import { type Duck, openDuck } from "./support/duck.ts";
import { fillGains } from "./support/played-gains.ts";
import { measureExports, showExports } from "./support/export-rates.ts";
import { fillHistory } from "./support/played-history.ts";
import { measureSmallTenants, SHARES, showSmallTenants, type SmallTenant } from "./support/small-tenants.ts";
import { createSite, type Site, untilReady } from "./support/setup.ts";
import { inBox, save } from "./support/run.ts";
import { rounded, table } from "./support/stats.ts";

const { values: options } = parseArgs({
  options: {
    quick: { type: "boolean", default: false },
    events: { type: "string" },
    rounds: { type: "string", default: "5" },
    json: { type: "string" },
  },
});
const EVENTS = Number(options.events ?? (options.quick ? 300_000 : 10_000_000));
const playersOf = (events: number): number => Math.max(100, Math.round(0.03 * events));
const PLAYERS = playersOf(EVENTS);
const ROUNDS = Number(options.rounds);
/** How long rollups of so many events may take, in ms. */
const WAIT_MS = 600_000 + EVENTS / 10;

const median = (numbers: readonly number[]): number | undefined =>
  numbers.toSorted((a, b) => a - b)[Math.floor(numbers.length / 2)];

const untilRolledUp = async (pool: Pool, projectId: string): Promise<number> => {
  const startMs = performance.now();
  for (;;) {
    const { rows } = await pool.query(
      `select not exists (
         select from tracked_events e where e.project_id = $1 and e.id > r.watermark)
       and not exists (
         select from ledger_entries l where l.project_id = $1 and l.id > r.gains_watermark
           and l.amount > 0 and l.reverses is null and l.tx_id is null) as is_done
       from analytics_rollups r where project_id = $1`,
      [projectId],
    );
    if (rows[0]?.["is_done"] === true) return (performance.now() - startMs) / 1_000;
    if (performance.now() - startMs > WAIT_MS) throw new Error("the rollups are not made in time");
    await new Promise((resolve) => setTimeout(resolve, 500));
  }
};

const sizeOf = async (pool: Pool, name: string): Promise<number> => {
  const { rows } = await pool.query(
    `select sum(pg_total_relation_size(c.oid)) as n
     from pg_class c left join pg_inherits i on i.inhrelid = c.oid
     where coalesce(i.inhparent, c.oid) = $1::regclass and c.relkind = 'r'`,
    [name],
  );
  return Number(rows[0]!["n"]);
};

type Row = { name: string; rollups: number; events: number; duck: number | undefined; goal: number };

/** Asks everything of rollups, of DuckDB, and of events, whose answers must be the same. */
const askAll = async (pool: Pool, { site, duck }: { site: Site; duck: Duck }): Promise<Row[]> => {
  const rows: Row[] = [];
  const answers = new Map<string, object>();
  for (const [name, question] of Object.entries(QUESTIONS)) {
    const [times, duckTimes]: [number[], number[]] = [[], []];
    for (let round = 0; round < ROUNDS; round++) {
      const { ms, body } = await askOf(site, question);
      times.push(ms);
      answers.set(name, body);
      if (question.duck) duckTimes.push(await duck.time(question.duck));
    }
    const row = { name, rollups: median(times)!, events: Number.NaN, goal: question.goalMs };
    rows.push({ ...row, duck: median(duckTimes) });
  }
  await pool.query("update analytics_rollups set halted_at = now()");
  for (const row of rows) {
    const { ms, body } = await askOf(site, QUESTIONS[row.name]!);
    row.events = ms;
    if (!Number.isNaN(ms)) assert.deepEqual(body, answers.get(row.name), row.name);
  }
  return rows;
};

const show = (rows: readonly Row[]): void => {
  const ms = (value: number): string => (Number.isNaN(value) ? "over 30 s" : String(Math.round(value)));
  const times = (value: number, of: number): string => (Number.isNaN(value) ? "" : rounded(value / of));
  const lines = rows.map(({ name, rollups, goal, events, duck }) => [
    name,
    ms(rollups),
    String(goal),
    rollups <= goal ? "met" : "MISSED",
    ms(events),
    times(events, rollups),
    ...(duck === undefined ? ["", ""] : [ms(duck), times(duck, rollups)]),
  ]);
  const heads = ["question", "rollups ms", "goal", "", "events ms", "times", "DuckDB ms", "times"];
  console.log(`\n${table(heads, lines)}\n`);
};

/** Stores histories as the past, while no server runs. */
const fill = async (pool: Pool, projectId: string, events: number): Promise<number> => {
  const history = { players: playersOf(events), days: DAYS, events };
  const stored = await fillHistory(pool, projectId, { history, endMs: END_MS });
  await fillGains(pool, projectId);
  return stored;
};

/** Stores the history of a large tenant and those of small ones. Returns how many events each has. */
const fillAll = async (pool: Pool, [large, ...others]: readonly Site[]) => {
  await pool.query(
    `update tenants set plan = 'ENTERPRISE', plan_overrides = '{"analyticsHistoryDays": null}'`,
  );
  const startMs = performance.now();
  const events = await fill(pool, large!.projectId, EVENTS);
  const seconds = rounded((performance.now() - startMs) / 1_000);
  console.log(`${events} events of ${PLAYERS} players, and what they gained, stored in ${seconds} s`);
  const small: SmallTenant[] = [];
  for (const [i, site] of others.entries())
    small.push({ site, events: await fill(pool, site.projectId, EVENTS * SHARES[i]!) });
  await pool.query("vacuum analyze");
  return { events, small };
};

/** Waits for the rollups, and says what they take. */
const rollUpAll = async (pool: Pool, sites: readonly Site[]) => {
  let seconds = 0;
  for (const { projectId } of sites) seconds += await untilRolledUp(pool, projectId);
  await pool.query("vacuum analyze");
  const { rows } = await pool.query("select count(*) as n from tracked_events");
  const events = Number(rows[0]!["n"]);
  const bytes = {
    events: await sizeOf(pool, "tracked_events"),
    rollups: (await sizeOf(pool, "analytics_days")) + (await sizeOf(pool, "analytics_gains")),
  };
  const [ofRollups, ofEvents] = [rounded(bytes.rollups / events), rounded(bytes.events / events)];
  console.log(`rolled up in ${rounded(seconds)} s: ${ofRollups} bytes an event, of ${ofEvents}`);
  return { seconds, bytes };
};

/** Makes tenants, whose registrations come from different addresses. */
const createSites = async (url: string): Promise<Site[]> => {
  const sites: Site[] = [];
  for (let n = 0; n <= SHARES.length; n++) sites.push(await createSite(url, `192.0.2.${n + 1}`));
  return sites;
};

const main = (): Promise<void> =>
  inBox(async (box, dir) => {
    const port = await freePort();
    const env = { ...box.env, PORT: String(port), ROLES: "web,worker", TRUSTED_PROXIES: "127.0.0.0/8" };
    const url = `http://127.0.0.1:${port}`;
    const serve = () => startChild(MAIN, { args: ["serve"], env, outputFile: join(dir, "server.log") });
    const first = await serve();
    await untilReady(url);
    const sites = await createSites(url);
    const site = sites[0]!;
    await first.stop();
    const { events, small } = await fillAll(box.pool, sites);
    const server = await serve();
    await untilReady(url);
    const rolledUp = await rollUpAll(box.pool, sites);
    const tenants = await measureSmallTenants(site, small);
    showSmallTenants(tenants);
    const week = { from: dateOf(7), to: dateOf(1) };
    const exports = await measureExports(box.pool, site, { all: ALL, week, rounds: ROUNDS });
    showExports(exports);
    const duck = await openDuck(box.pool, { projectId: site.projectId, dir });
    const rows = await askAll(box.pool, { site, duck });
    duck.close();
    await server.stop();
    show(rows);
    const machine = await describeMachine(box.pool);
    const found = {
      bench: "analytics",
      machine,
      events,
      players: PLAYERS,
      ...rolledUp,
      rows,
      tenants,
      exports,
    };
    console.log(await save(found, options.json));
  });

await main();
process.exit(0);
