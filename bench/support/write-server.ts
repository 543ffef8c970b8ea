// Laurel's HTTP server twice in one process, with the writes that are measured: `shared` as it is, `alone`
// with a transaction for each request.
import { once } from "node:events";
import type { AddressInfo } from "node:net";
import { sql } from "kysely";
import { type App, createApp } from "../../src/app.ts";
import { loadConfig } from "../../src/config.ts";
import { identifyPlayers } from "../../src/domain/player-lifecycle/identify.ts";
import { guardedHttpServer } from "../../src/http/guard.ts";
import { routes } from "../../src/http/routes.ts";
import { createHttp } from "../../src/http/server.ts";
import { createLog } from "../../src/log.ts";
import { createMetrics } from "../../src/metrics.ts";
import { openPlatform } from "../../src/platform.ts";

/** What it is told; it answers each with a message of its own. */
export type WriteOrder =
  /** Puts the tenant on ENTERPRISE without limits, makes so many players, and gives their ids. */
  { kind: "begin"; projectId: string; players: number } | { kind: "count"; projectId: string };
export type WritePorts = { shared: number; alone: number };
/** Ledger entries of the project, scores that its boards have, and transactions since the server began. */
export type WriteCounts = { entries: number; transactions: number };

const config = await loadConfig();
const log = createLog(config);
const platform = await openPlatform(config, log);
await platform.database.migrateUp();
const app = createApp({ config, log, metrics: createMetrics(), platform });

const listen = async (served: App): Promise<number> => {
  const server = guardedHttpServer().on("request", createHttp(served, routes)).listen(0, "127.0.0.1");
  await once(server, "listening");
  return (server.address() as AddressInfo).port;
};

const PAGE = 500;

const begin = async ({ projectId, players: count }: WriteOrder & { kind: "begin" }): Promise<string[]> => {
  await app.transact(async ({ db }) => {
    await sql`
      update tenants set plan = 'ENTERPRISE', plan_overrides = '{}'
      where id = (select tenant_id from projects where id = ${projectId}::uuid)`.execute(db);
  });
  for (let from = 0; from < count; from += PAGE) {
    const players = Array.from({ length: Math.min(PAGE, count - from) }, (_, n) => ({
      externalUserId: `known-${from + n}`,
      displayName: `Player ${from + n}`,
      country: "SE",
      timezone: "Europe/Stockholm",
      attributes: {},
    }));
    await app.transact((work) => identifyPlayers(work, projectId, players));
  }
  return app.transact(async ({ db }) => {
    if (config.mode === "cluster") await sql`analyze players`.execute(db);
    const { rows } = await sql<{ id: string }>`
      select id from players where project_id = ${projectId}::uuid limit ${count}`.execute(db);
    return rows.map(({ id }) => id);
  });
};

const count = ({ projectId }: WriteOrder & { kind: "count" }): Promise<WriteCounts> =>
  app.transact(async ({ db }) => {
    const { rows } = await sql<Record<string, string>>`
      select (select count(*) from ledger_entries where project_id = ${projectId}::uuid) as entries,
        (select xact_commit from pg_stat_database
          where datname = current_database()) as transactions`.execute(db);
    const [row = {}] = rows;
    return { entries: Number(row["entries"]), transactions: Number(row["transactions"]) };
  });

const obey = (order: WriteOrder): Promise<unknown> => (order.kind === "begin" ? begin(order) : count(order));

process.on("message", (order: WriteOrder) => void obey(order).then((answer) => process.send?.(answer)));
for (const event of ["SIGTERM", "disconnect"]) process.on(event, () => process.exit(0));
process.send?.({
  shared: await listen(app),
  alone: await listen({ ...app, transactShared: (rowScope) => app.transactAs(rowScope) }),
} satisfies WritePorts);
