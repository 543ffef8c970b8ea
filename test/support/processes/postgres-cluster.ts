import assert from "node:assert/strict";
import { setTimeout as delay } from "node:timers/promises";
import { type Kysely, sql } from "kysely";
import { type Database, openPostgres } from "../../../src/platform/database.ts";
import { aTenant, type Tenant } from "../app/app.ts";
import { type Client, clientOf, must } from "../http/client.ts";
import { type Services, startServices } from "./services.ts";
import { eventually, eventuallyHolds } from "../eventually.ts";
import { assertInvariants } from "../domain/crashing.ts";
import { freePort, kill, type Laurel, laurel, startProcess, temporaryDir } from "./process.ts";
import { startTcpProxy, type TcpProxy } from "../faults/tcp-proxy.ts";

/** Each event gives so much XP. */
export const XP_OF_EVENT = 10;
const PLAYERS = 20;
const EVENT_EVERY_MS = 20;

export type Answered = { status: number; retryAfter: string | null; ms: number; body: unknown };

/** Two web processes and two workers whose way to PostgreSQL is a proxy, under a load of events. */
export type PostgresCluster = {
  proxy: TcpProxy;
  webs: readonly Client[];
  workers: readonly Laurel[];
  tenant: Tenant;
  /** Straight to the server. */
  database: Database;
  db: Kysely<unknown>;
  services: Services;
  /** What the load was answered, since it began. */
  answers: readonly Answered[];
  /** Sends one event to a web process. */
  send(web: number, query?: string): Promise<Answered>;
  /** Events are sent to all web processes in turn until the returned function is called. */
  load(): () => Promise<void>;
  /** Every web process stores an event, and a worker processes it, within so many ms. */
  isBackWithin(ms: number): Promise<void>;
  /** Each event that was answered with 200 has had its effect once, and nothing has failed. */
  assertExact(): Promise<void>;
  stop(): Promise<void>;
};

const rule = (key: string) => ({
  key,
  name: key,
  triggers: [{ kind: "EVENT", eventTypes: ["thing"] }],
  actions: [{ type: "grant_xp", amount: XP_OF_EVENT }],
});

export const startPostgresCluster = async (): Promise<PostgresCluster> => {
  const directory = await temporaryDir();
  const services = await startServices(directory.path);
  const direct = new URL(services.databaseUrl);
  const proxy = await startTcpProxy(direct.hostname, Number(direct.port || 5_432));
  const proxied = new URL(direct);
  proxied.host = `127.0.0.1:${proxy.port}`;
  const env = { ...services.env, DATABASE_URL: proxied.href, TRUSTED_PROXIES: "127.0.0.1/32" };
  const started: Laurel[] = [];
  const startWeb = async (): Promise<Client> => {
    const port = await freePort();
    started.push(await startProcess(["serve"], { ...env, ROLES: "web", PORT: String(port) }));
    return clientOf(`http://127.0.0.1:${port}`);
  };
  // The first one makes the tables and the secrets.
  const webs = [await startWeb()];
  const workers = await Promise.all([1, 2].map(() => startProcess(["worker"], { ...env, ROLES: "worker" })));
  webs.push(await startWeb());
  const tenant = await aTenant(webs[0]!);
  const { id } = must(await webs[0]!.post("/api/v1/rules", rule("give"), { key: tenant.key }), 201);
  must(await webs[0]!.post(`/api/v1/rules/${id}/publish`, {}, { key: tenant.key }), 200);
  const database = await openPostgres(services.databaseUrl, 2);
  const db = database.em.fork().getKysely() as unknown as Kysely<unknown>;
  const answers: Answered[] = [];
  const accepted = new Set<string>();
  const unsure = new Set<string>();
  let sent = 0;

  const send = async (web: number, query = ""): Promise<Answered> => {
    const n = sent++;
    const key = `event-${n}`;
    const event = {
      idempotencyKey: key,
      eventType: "thing",
      externalUserId: `p${n % PLAYERS}`,
      properties: {},
    };
    const startMs = performance.now();
    unsure.add(key);
    const answer = await webs[web]!.post(`/api/v1/events${query}`, event, { key: tenant.key });
    if (answer.status === 200) accepted.add(key);
    const retryAfter = answer.headers.get("retry-after");
    return { status: answer.status, retryAfter, ms: performance.now() - startMs, body: answer.body };
  };
  const count = async (table: "ledger_entries" | "tracked_events"): Promise<number> =>
    (await sql<{ n: number }>`select count(*) as n from ${sql.table(table)}`.execute(db)).rows[0]!.n;
  return {
    proxy,
    webs,
    workers,
    tenant,
    database,
    db,
    services,
    answers,
    send,
    load: () => {
      let isLoaded = true;
      const hands: Promise<unknown>[] = [];
      const run = (async () => {
        for (let n = 0; isLoaded; n++) {
          hands.push(send(n % webs.length).then((answer) => answers.push(answer)));
          await delay(EVENT_EVERY_MS);
        }
      })();
      return async () => {
        isLoaded = false;
        await run;
        await Promise.all(hands);
      };
    },
    isBackWithin: async (ms) => {
      const deadline = performance.now() + ms;
      const stored = await count("tracked_events");
      const timeoutMs = (): number => deadline - performance.now();
      const all = webs.map((_, web) =>
        eventually(async () => (await send(web)).status === 200, { timeoutMs: ms, label: `web ${web}` }),
      );
      await Promise.all(all);
      const isProcessed = async () => (await count("ledger_entries")) >= stored;
      await eventually(isProcessed, { timeoutMs: timeoutMs(), label: "workers" });
    },
    assertExact: async () => {
      await eventuallyHolds(() => assertInvariants(database.em), { timeoutMs: 60_000 });
      const stored = await sql<{ key: string }>`select idempotency_key as key from event_dedupe`.execute(db);
      const keys = new Set(stored.rows.map(({ key }) => key));
      assert.deepEqual(
        [...accepted].filter((key) => !keys.has(key)),
        [],
        "answered, and not stored",
      );
      assert.ok([...keys].every((key) => unsure.has(key)));
      const given = await sql<{ xp: number; n: number }>`
        select coalesce(sum(amount), 0) as xp, count(*) as n from ledger_entries`.execute(db);
      assert.deepEqual(given.rows, [{ xp: keys.size * XP_OF_EVENT, n: keys.size }]);
      // What a broken network has left of connections takes their places for a while.
      const hasPlaces = sql<{ ok: boolean }>`
        select count(*) + 10 < current_setting('max_connections')::int as ok from pg_stat_activity`;
      await eventually(async () => (await hasPlaces.execute(db)).rows[0]!.ok, { timeoutMs: 60_000 });
      const reconciling = laurel(["reconcile"], services.env);
      assert.equal(await reconciling.ended, 0, reconciling.output());
    },
    stop: async () => {
      for (const one of started.concat(workers)) {
        one.child.kill("SIGCONT");
        await kill(one);
      }
      await database.close();
      await proxy.stop();
      await services.remove();
      await directory.remove();
    },
  };
};
