// Laurel's HTTP server three times in one process: `setup` has every operation, `guarded` the two that are
// measured as they are, `bare` the same two without credentials, limits, keys and scopes of transactions.
import { once } from "node:events";
import type { AddressInfo } from "node:net";
import { sql } from "kysely";
import { type App, createApp } from "../../src/app.ts";
import { loadConfig } from "../../src/config.ts";
import { identifyPlayers } from "../../src/domain/player-lifecycle/identify.ts";
import { guardedHttpServer } from "../../src/http/guard.ts";
import { playerRoutes } from "../../src/http/resources/players.ts";
import { type AnyRoute, perform } from "../../src/http/route.ts";
import { routes } from "../../src/http/routes.ts";
import { createHttp } from "../../src/http/server.ts";
import { createLog } from "../../src/log.ts";
import { createMetrics } from "../../src/metrics.ts";
import { openPlatform } from "../../src/platform.ts";

/** What it is told; it answers each with a message of its own. */
export type AccessOrder =
  /** Puts the tenant on ENTERPRISE, with limits that no measurement reaches, or with none. */
  | { kind: "plan"; projectId: string; isLimited: boolean }
  /** Empties the tables that are written, makes so many players, and gives their ids. */
  | { kind: "begin"; projectId: string; players: number }
  | { kind: "count"; projectId: string };
export type AccessPorts = { setup: number; guarded: number; bare: number };
/** Players of the project, their announcements, and answers that are stored under a key. */
export type AccessCounts = { players: number; announced: number; answers: number };

const LIMIT = 100_000_000;

const config = await loadConfig();
const log = createLog(config);
const platform = await openPlatform(config, log);
await platform.database.migrateUp();
const app = createApp({ config, log, metrics: createMetrics(), platform });

/** The project of the bare operations: no credentials tell it. */
let bareProject = "";

const measured = playerRoutes.filter(({ id }) => id === "identifyPlayer" || id === "getPlayer");
const bareRoutes = measured.map((known): AnyRoute => {
  const { run: _run, outside: _outside, ...route } = known;
  return {
    ...route,
    access: "public",
    project: "none",
    outside: (own, context) => perform(known, own, { ...context, projectId: bareProject }),
  };
});
const bareApp: App = {
  ...app,
  transactAs: () => app.transact,
  transactShared: () => app.transact,
  limiter: { ...app.limiter, consumeInTurn: async () => [] },
};

const listen = async (served: App, list: readonly AnyRoute[]): Promise<number> => {
  const server = guardedHttpServer().on("request", createHttp(served, list)).listen(0, "127.0.0.1");
  await once(server, "listening");
  return (server.address() as AddressInfo).port;
};

const setPlan = ({ projectId, isLimited }: AccessOrder & { kind: "plan" }) =>
  app.transact(async ({ db }) => {
    const overrides = isLimited ? { requestsPerMinute: LIMIT } : {};
    await sql`
      update tenants set plan = 'ENTERPRISE', plan_overrides = ${JSON.stringify(overrides)}::jsonb
      where id = (select tenant_id from projects where id = ${projectId}::uuid)`.execute(db);
    await sql`
      update api_keys set rate_limit = ${isLimited ? LIMIT : null}::int
      where project_id = ${projectId}::uuid`.execute(db);
    return {};
  });

const WRITTEN =
  "players, player_states, ledger_entries, leaderboard_entries, outbox, outbox_q, idempotency_keys";

const begin = async ({ projectId, players: count }: AccessOrder & { kind: "begin" }): Promise<string[]> => {
  bareProject = projectId;
  const players = Array.from({ length: count }, (_, n) => ({
    externalUserId: `known-${n}`,
    displayName: `Player ${n}`,
    country: "SE",
    timezone: "Europe/Stockholm",
    attributes: { class: "mage" },
  }));
  return app.transact(async (work) => {
    await sql`truncate ${sql.raw(WRITTEN)}`.execute(work.db);
    await identifyPlayers(work, projectId, players);
    await sql`truncate outbox, outbox_q`.execute(work.db);
    // As autovacuum does; PGlite has none.
    if (config.mode === "cluster") await sql`analyze players`.execute(work.db);
    const { rows } = await sql<{ id: string }>`select id from players limit ${count}`.execute(work.db);
    return rows.map(({ id }) => id);
  });
};

const count = ({ projectId }: AccessOrder & { kind: "count" }): Promise<AccessCounts> =>
  app.transact(async ({ db }) => {
    const { rows } = await sql<Record<string, string>>`
      select (select count(*) from players where project_id = ${projectId}::uuid) as players,
        (select count(*) from outbox where project_id = ${projectId}::uuid) as announced,
        (select count(*) from idempotency_keys) as answers`.execute(db);
    const [row = {}] = rows;
    return {
      players: Number(row["players"]),
      announced: Number(row["announced"]),
      answers: Number(row["answers"]),
    };
  });

const obey = (order: AccessOrder): Promise<unknown> => {
  if (order.kind === "plan") return setPlan(order);
  return order.kind === "begin" ? begin(order) : count(order);
};

process.on("message", (order: AccessOrder) => void obey(order).then((answer) => process.send?.(answer)));
for (const event of ["SIGTERM", "disconnect"]) process.on(event, () => process.exit(0));
process.send?.({
  setup: await listen(app, routes),
  guarded: await listen(app, measured),
  bare: await listen(bareApp, bareRoutes),
} satisfies AccessPorts);
