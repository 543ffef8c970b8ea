// What rollups of analytics cost the processing of events. See README.md.
import { join } from "node:path";
import { parseArgs } from "node:util";
import { rollUp } from "../src/domain/analytics/rollups/roll-up.ts";
import { PARTITIONS } from "../src/domain/kernel/ids.ts";
import { createLog } from "../src/log.ts";
import { createBullQueue } from "../src/jobs/queue.ts";
import { redisConnections } from "../src/platform/redis-connection.ts";
import { openDomain } from "../test/support/domain/domain.ts";
import { freePort } from "../test/support/processes/process.ts";
import { type Pool, startCosts } from "./support/box.ts";
import { MAIN, startChild } from "./support/children.ts";
import { isDrained, isRelayed, queueEvents } from "./support/queued.ts";
import { GAMES } from "./support/process-sites.ts";
import { createSite, untilReady, poll } from "./support/setup.ts";
import { inBox } from "./support/run.ts";
import { rounded, spread, spreadText, table } from "./support/stats.ts";

const { values: options } = parseArgs({
  options: {
    events: { type: "string", default: "20000" },
    rounds: { type: "string", default: "5" },
    game: { type: "string", default: "economy" },
  },
});
const EVENTS = Number(options.events);
const ROUNDS = Number(options.rounds);
const GAME = GAMES.find(({ name }) => name === options.game)!;
const PLAYERS = 5_000;
/** What processing must keep of its rate. */
const GOAL = 0.9;

/** Indexes that nothing but rollups needs. */
const INDEXES = {
  ledger_entries_gain_idx: `ledger_entries (project_id, id)
    where amount > 0 and reverses is null and tx_id is null and asset in ('XP', 'CURRENCY')`,
  badge_awards_award_idx: `badge_awards (project_id, id) where action = 'AWARDED'`,
};

const setIndexes = async (pool: Pool, areThere: boolean): Promise<void> => {
  for (const [name, on] of Object.entries(INDEXES))
    await pool.query(areThere ? `create index ${name} on ${on}` : `drop index ${name}`);
};

type Spent = { off: number[]; on: number[] };

const showCosts = (costs: Spent, ratios: readonly number[]): void => {
  const ratio = spread(ratios);
  const lines = [
    ["us of CPU an event, without rollups and their indexes", spreadText(spread(costs.off)), ""],
    ["us of CPU an event, while as many are rolled up", spreadText(spread(costs.on)), ""],
    [
      "rate that is kept: without / with",
      spreadText(ratio),
      `${ratio.median >= GOAL ? "met" : "MISSED"}: ${GOAL}`,
    ],
  ];
  console.log(`\n${table(["", "median (min..max)", "goal"], lines)}\n`);
};

const main = (): Promise<void> =>
  inBox(async (box, dir) => {
    const port = await freePort();
    const [env, outputFile] = [{ ...box.env, PORT: String(port) }, join(dir, "server.log")];
    const web = await startChild(MAIN, { args: ["serve"], env: { ...env, ROLES: "web" }, outputFile });
    const url = `http://127.0.0.1:${port}`;
    await untilReady(url);
    const site = await createSite(url);
    await GAME.prepare(site);
    await web.stop();
    const worker = await startChild(MAIN, { args: ["worker"], env, outputFile });
    const log = createLog({ logLevel: "silent" });
    const { REDIS_NAMESPACE: namespace = "", REDIS_URL: redisUrl = "" } = box.env;
    const connections = redisConnections(redisUrl, log);
    const queue = createBullQueue({ connections, prefix: `${namespace}:bull`, log });
    const { transact } = openDomain(box.database);
    /** Rolls up all that is processed, as the job does, but without its two minutes. */
    const rollUpAll = async (): Promise<void> => {
      while (await transact((work) => rollUp(work, site.projectId, { lagMs: 0 })));
    };
    /** Returns what an event costs, in us of CPU of the worker, of PostgreSQL and of this process. */
    const drain = async (besides: () => Promise<void> = async () => undefined): Promise<number> => {
      await queueEvents(box.pool, site.projectId, { events: EVENTS, players: PLAYERS, prefix: "player" });
      const stop = await startCosts(box.pool, [worker.pid]);
      const rolling = besides();
      for (let part = 0; part < PARTITIONS; part++) queue.wake("process-events", String(part));
      await poll(() => isDrained(box.pool));
      await poll(() => isRelayed(box.pool));
      await rolling;
      const { byPid, postgres } = await stop();
      return (1e6 * (postgres + [...byPid.values()].reduce((sum, one) => sum + one, 0))) / EVENTS;
    };
    await drain();
    const ratios: number[] = [];
    const costs: Spent = { off: [], on: [] };
    for (let round = 0; round < ROUNDS; round++) {
      await rollUpAll();
      await setIndexes(box.pool, false);
      const off = await drain();
      await setIndexes(box.pool, true);
      // As many events as are processed meanwhile are rolled up: those of the drain before.
      const on = await drain(rollUpAll);
      costs.off.push(off);
      costs.on.push(on);
      ratios.push(off / on);
      console.error(`round ${round + 1}: ${rounded(off)} us an event without, ${rounded(on)} with rollups`);
    }
    await worker.stop();
    showCosts(costs, ratios);
  });

await main();
process.exit(0);
