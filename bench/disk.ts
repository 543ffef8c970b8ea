// Bytes on disk of an event, by table: when it was processed, and what of it stays. See README.md.
import assert from "node:assert/strict";
import { join } from "node:path";
import { parseArgs } from "node:util";
import { freePort } from "../test/support/processes/process.ts";
import { type Box, describeMachine, type Pool } from "./support/box.ts";
import { MAIN, startChild } from "./support/children.ts";
import { givenFor, type HistoryEvent, historyOf, prepareCommunity } from "./support/history.ts";
import { isDrained, isRelayed } from "./support/queued.ts";
import { createSite, post, type Site, untilReady } from "./support/setup.ts";
import { inBox, tell } from "./support/run.ts";
import { rounded, table } from "./support/stats.ts";

const { values: options } = parseArgs({
  options: {
    quick: { type: "boolean", default: false },
    events: { type: "string" },
    json: { type: "string" },
  },
});
const EVENTS = Number(options.events ?? (options.quick ? 5_000 : 50_000));
const BATCH = 1_000;
/** Tables with less for each event are not listed. */
const SHOWN_BYTES = 8;
/** Bytes of an event that stay for ever, at most. */
const GOAL = 2_500;
const POLL_MS = 100;
/** How long processing and relaying may take, in ms, besides two for each event. */
const WAIT_MS = 300_000;

/** Sends a history as an import does, and waits until it is processed and relayed. */
const send = async (box: Box, site: Site, events: readonly HistoryEvent[]): Promise<number> => {
  const startMs = performance.now();
  for (let from = 0; from < events.length; from += BATCH)
    await post(site, "/events/batch", { events: events.slice(from, from + BATCH) });
  const deadlineMs = performance.now() + WAIT_MS + 2 * events.length;
  while (!((await isDrained(box.pool)) && (await isRelayed(box.pool)))) {
    if (performance.now() > deadlineMs) throw new Error("the events are not processed and relayed in time");
    await new Promise((resolve) => setTimeout(resolve, POLL_MS));
  }
  return (performance.now() - startMs) / 1_000;
};

/** Compares what is stored with what the rules give. @throws AssertionError */
const check = async (pool: Pool, projectId: string, events: readonly HistoryEvent[]): Promise<void> => {
  const given = events.map(givenFor);
  const sum = (key: "xp" | "coins") => given.reduce((total, one) => total + one[key], 0);
  const expected: [text: string, value: number][] = [
    ["select count(*) as n from tracked_events where project_id = $1", events.length],
    ["select count(*) as n from event_dedupe where project_id = $1", events.length],
    ["select sum(xp) as n from players where project_id = $1", sum("xp")],
    ["select sum(balance) as n from player_balances where project_id = $1", sum("coins")],
    ["select sum(amount) as n from ledger_entries where project_id = $1", sum("xp") + sum("coins")],
    ["select count(*) as n from rule_executions where project_id = $1", events.length],
    ["select count(*) as n from event_results where project_id = $1", 0],
    ["select count(*) as n from event_due where project_id = $1", 0],
    [
      `select sum(p.seq) - (select count(*) from outbox where project_id = $1 and player_seq is not null) as n
        from players p where p.project_id = $1`,
      0,
    ],
  ];
  for (const [text, value] of expected) {
    const { rows } = await pool.query(text, [projectId]);
    assert.equal(Number(rows[0]!["n"]), value, text);
  }
};

type Size = { table: string; rows: number; heap: number; indexes: number; total: number };

/** Returns the bytes of every table, partitions together, the largest first. */
const sizesOf = async (pool: Pool): Promise<Size[]> => {
  await pool.query("vacuum analyze");
  const { rows } = await pool.query(`
    select coalesce(i.inhparent, c.oid)::regclass::text as "table", sum(greatest(c.reltuples, 0)) as rows,
      sum(pg_table_size(c.oid)) as heap, sum(pg_indexes_size(c.oid)) as indexes,
      sum(pg_total_relation_size(c.oid)) as total
    from pg_class c left join pg_inherits i on i.inhrelid = c.oid
    where c.relnamespace = 'public'::regnamespace and c.relkind = 'r'
    group by 1 order by 5 desc`);
  return rows.map((row) => ({
    table: String(row["table"]),
    rows: Number(row["rows"]),
    heap: Number(row["heap"]),
    indexes: Number(row["indexes"]),
    total: Number(row["total"]),
  }));
};

/** Returns what tables have grown by. */
const grown = (before: readonly Size[], after: readonly Size[]): Size[] => {
  const known = new Map(before.map((one) => [one.table, one]));
  return after
    .map((one) => {
      const { heap = 0, indexes = 0, total = 0 } = known.get(one.table) ?? {};
      return { ...one, heap: one.heap - heap, indexes: one.indexes - indexes, total: one.total - total };
    })
    .toSorted((a, b) => b.total - a.total);
};

const perEvent = (sizes: readonly Size[]): number =>
  sizes.reduce((sum, { total }) => sum + total, 0) / EVENTS;

/** Empties what retention drops by the week, and the pages that queues use again: they hold nothing. */
const giveUp = async (pool: Pool): Promise<void> =>
  void (await pool.query("truncate outbox, rule_executions, event_q, outbox_q"));

const show = (sizes: readonly Size[]): void => {
  const lines = sizes
    .filter(({ total }) => total / EVENTS >= SHOWN_BYTES)
    .map((one) => [
      one.table,
      rounded(one.rows / EVENTS),
      rounded(one.heap / EVENTS),
      rounded(one.indexes / EVENTS),
      rounded(one.total / EVENTS),
    ]);
  console.log(
    `\n${table(["table", "rows/event", "heap B/event", "indexes B/event", "all B/event"], lines)}\n`,
  );
};

const main = (): Promise<void> =>
  inBox(async (box, dir) => {
    const empty = await sizesOf(box.pool);
    const port = await freePort();
    const env = { ...box.env, PORT: String(port), ROLES: "web,worker" };
    const server = await startChild(MAIN, { args: ["serve"], env, outputFile: join(dir, "server.log") });
    const url = `http://127.0.0.1:${port}`;
    await untilReady(url);
    const site = await createSite(url);
    await prepareCommunity(site);
    const events = historyOf(EVENTS);
    const seconds = await send(box, site, events);
    await check(box.pool, site.projectId, events);
    await server.stop();
    const processed = grown(empty, await sizesOf(box.pool));
    await giveUp(box.pool);
    const stays = grown(empty, await sizesOf(box.pool));
    console.log(`${EVENTS} events, processed and relayed after ${rounded(seconds)} s`);
    show(processed);
    const figures = { processed: perEvent(processed), stays: perEvent(stays) };
    console.log(`bytes an event when processed: ${rounded(figures.processed)}`);
    const verdict = figures.stays <= GOAL ? "met" : "MISSED";
    console.log(`bytes an event that stay: ${rounded(figures.stays)} (${verdict}: ${GOAL} at most)`);
    await tell(
      {
        bench: "disk",
        machine: await describeMachine(box.pool),
        events: EVENTS,
        seconds,
        figures,
        processed,
        stays,
      },
      options.json,
    );
  });

await main();
process.exit(0);
