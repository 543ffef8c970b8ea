import assert from "node:assert/strict";
import { setTimeout as delay } from "node:timers/promises";
import { aTenant, type Tenant } from "../support/app/app.ts";
import { startCountingProxy } from "../support/faults/counting-proxy.ts";
import { type Client, clientOf, must } from "../support/http/client.ts";
import { freePort, type Laurel, startProcess, temporaryDir } from "../support/processes/process.ts";
import { startServices } from "../support/processes/services.ts";
import { aPlayer, join } from "../support/rooms/sdk.ts";

/** What starting, and joining, has left behind is done after that. */
const SETTLE_MS = 12_000;
/** Jobs that look every 30 s do it at one moment: it is in one of these windows, or on the edge of two. */
const WINDOW_MS = 10_000;
const WINDOWS = 3;
const SOCKETS = 20;
/** Statements, or commands, per minute of the jobs that look seldom. */
const LOOKS = 600;

type Proxy = Awaited<ReturnType<typeof startCountingProxy>>;
/** A process that counts what it sends to PostgreSQL and Redis. */
type Counted = { process: Laurel; postgres: Proxy; redis: Proxy };
type Counts = { statements: number; commands: number };
/** Counts per minute: of the quietest window, and of all of them. */
type Rates = { quietest: Counts; all: Counts };

const targetOf = (url: string, port: number): { host: string; port: number } => {
  const { hostname, port: own } = new URL(url);
  return { host: hostname, port: Number(own || port) };
};
const through = (url: string, { port }: Proxy): string => {
  const proxied = new URL(url);
  proxied.hostname = "127.0.0.1";
  proxied.port = String(port);
  return proxied.href;
};

describe("servers at rest", () => {
  const ends: (() => Promise<unknown>)[] = [];
  let [web, worker]: Counted[] = [];
  let api: Client;
  let tenant: Tenant;

  const start = async (env: Record<string, string>): Promise<Counted> => {
    const [databaseUrl, redisUrl] = [env["DATABASE_URL"]!, env["REDIS_URL"]!];
    const postgres = await startCountingProxy("postgres", targetOf(databaseUrl, 5_432));
    const redis = await startCountingProxy("redis", targetOf(redisUrl, 6_379));
    const own = { DATABASE_URL: through(databaseUrl, postgres), REDIS_URL: through(redisUrl, redis) };
    const process = await startProcess(["serve"], { ...env, ...own });
    ends.unshift(async () => {
      process.child.kill("SIGTERM");
      await process.ended;
      await Promise.all([postgres.stop(), redis.stop()]);
    });
    return { process, postgres, redis };
  };

  before(async () => {
    const directory = await temporaryDir();
    ends.unshift(directory.remove);
    const services = await startServices(directory.path);
    ends.unshift(services.remove);
    const port = await freePort();
    web = await start({ ...services.env, ROLES: "web", PORT: String(port) });
    worker = await start({ ...services.env, ROLES: "worker", PORT: String(await freePort()) });
    api = clientOf(`http://127.0.0.1:${port}`);
    tenant = await aTenant(api);
  });
  after(async () => {
    for (const end of ends) await end();
  });

  const look = ({ postgres, redis }: Counted): Counts => ({
    statements: postgres.count(),
    commands: redis.count(),
  });

  const ratesOf = (looks: readonly Counts[]): Rates => {
    const steps = (name: keyof Counts): number[] =>
      looks.slice(1).map((now, i) => ((now[name] - looks[i]![name]) * 60_000) / WINDOW_MS);
    const [statements, commands] = [steps("statements"), steps("commands")];
    const mean = (rates: number[]): number => rates.reduce((sum, rate) => sum + rate, 0) / WINDOWS;
    return {
      quietest: { statements: Math.min(...statements), commands: Math.min(...commands) },
      all: { statements: mean(statements), commands: mean(commands) },
    };
  };

  /** What a process sends in a minute in which nobody wants anything. */
  const atRest = async (): Promise<{ web: Rates; worker: Rates }> => {
    await delay(SETTLE_MS);
    const looks = { web: [look(web!)], worker: [look(worker!)] };
    for (let n = 0; n < WINDOWS; n++) {
      await delay(WINDOW_MS);
      looks.web.push(look(web!));
      looks.worker.push(look(worker!));
    }
    return { web: ratesOf(looks.web), worker: ratesOf(looks.worker) };
  };

  /**
   * The time of PostgreSQL twice a second, and what is due once a second, are most of the quietest window. In
   * all of them together, jobs that look every 30 s or every minute are counted once or twice.
   */
  const check = ({ quietest, all }: Rates, most: Counts): void => {
    const text = JSON.stringify({ quietest, all });
    assert.ok(quietest.statements <= most.statements && quietest.commands <= most.commands, text);
    assert.ok(all.statements <= most.statements + LOOKS && all.commands <= most.commands + LOOKS, text);
  };

  it("say little to PostgreSQL and Redis, and hardly more for silent sockets", async () => {
    const alone = await atRest();
    check(alone.web, { statements: 170, commands: 900 });
    check(alone.worker, { statements: 230, commands: 1_300 });
    const channel = { kind: "PROJECT", key: "all", name: "All" };
    must(await api.post("/api/v1/chat/channels", channel, { key: tenant.key }), 201);
    for (let n = 0; n < SOCKETS; n++) {
      const { token } = await aPlayer(api, tenant.key);
      await join(api, token, "player");
      await join(api, token, "chat", { channelId: "all" });
    }
    const watched = await atRest();
    // Two kinds of rooms are compared with the database every 5 s, however many there are.
    const { statements, commands } = alone.web.quietest;
    check(watched.web, { statements: statements + 110, commands: commands + 100 });
    check(watched.worker, { statements: 230, commands: 1_300 });
  });
});
