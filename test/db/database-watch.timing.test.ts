import assert from "node:assert/strict";
import { once } from "node:events";
import { type AddressInfo, connect, createServer, type Socket } from "node:net";
import { setTimeout as delay } from "node:timers/promises";
import { sql } from "kysely";
import { type Database, openPostgres } from "../../src/platform/database.ts";
import { eventually } from "../support/eventually.ts";

const TARGET = new URL(process.env["DATABASE_URL"] ?? "postgres://postgres@127.0.0.1:5432/postgres");
/** PostgreSQL: "ready for a query", outside of a transaction. */
const READY = Buffer.from([0x5a, 0, 0, 0, 5, 0x49]);

/** Passes connections on; those that are lost stay open, and nothing comes through any more. */
const startLossyProxy = async () => {
  const open: { isLost: boolean }[] = [];
  let mode: "passes" | "loses all" | "loses the next when ready" = "passes";
  const pass = (from: Socket, to: Socket, one: { isLost: boolean }): void => {
    from.on("error", () => undefined).on("close", () => to.destroy());
    from.on("data", (part) => one.isLost || to.write(part));
  };
  const server = createServer((client) => {
    const upstream = connect(Number(TARGET.port || 5_432), TARGET.hostname);
    const one = { isLost: mode === "loses all" };
    open.push(one);
    pass(client, upstream, one);
    if (mode === "loses the next when ready") {
      mode = "passes";
      upstream.on("data", (part: Buffer) => {
        if (part.includes(READY)) setImmediate(() => (one.isLost = true));
      });
    }
    pass(upstream, client, one);
  });
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  return {
    port: (server.address() as AddressInfo).port,
    loseFirst: () => void (open[0]!.isLost = true),
    loseAll: () => {
      mode = "loses all";
      for (const one of open) one.isLost = true;
    },
    passButTheNext: () => void (mode = "loses the next when ready"),
    stop: () => server.close(),
  };
};

describe("the watch of a database", () => {
  let proxy: Awaited<ReturnType<typeof startLossyProxy>>;
  let database: Database;
  beforeEach(async () => {
    proxy = await startLossyProxy();
    const url = new URL(TARGET);
    url.hostname = "127.0.0.1";
    url.port = String(proxy.port);
    database = await openPostgres(url.href, 3, { isWatched: true });
    await database.watch!.begun;
  });
  afterEach(async () => {
    await database.close();
    proxy.stop();
  });

  it("that has lost its own connection disturbs nobody", async () => {
    proxy.loseFirst();
    const endMs = performance.now() + 6_000;
    while (performance.now() < endMs) await sql`select pg_sleep(0.2)`.execute(database.em.fork().getKysely());
    database.watch!.check();
  });

  it("hears it again after a silence, also where its first question is lost", async () => {
    await database.ping();
    proxy.loseAll();
    await assert.rejects(async () => {
      for (let n = 0; n < 50; n++) {
        database.watch!.check();
        await delay(200);
      }
    }, /has not answered/);
    proxy.passButTheNext();
    const isBack = () =>
      database.ping().then(
        () => true,
        () => false,
      );
    await eventually(isBack, { timeoutMs: 15_000 });
  });
});
