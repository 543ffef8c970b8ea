import { randomUUID } from "node:crypto";
import { sql } from "kysely";
import { once } from "node:events";
import { connect, createServer, type Socket } from "node:net";
import type { Role } from "../../../src/domain/kernel/caller.ts";
import { type Database, openPostgres } from "../../../src/platform/database.ts";
import { laurelAdmin } from "./command.ts";
import { aTenant, type Tenant } from "../app/app.ts";
import { type Client, clientOf, must } from "../http/client.ts";
import { firstAdminLogin } from "../mfa/second-factor.ts";
import { type Services, startServices } from "./services.ts";
import { freePort, kill, type Laurel, startProcess, temporaryDir } from "./process.ts";

/** Two processes of one cluster, and its database. */
export type TwoServers = {
  clients: readonly [Client, Client];
  services: Services;
  database: Database;
  /** A further member of a tenant, logged in through one of the processes. */
  member(tenant: Tenant, role: Role): Promise<{ userId: string; token: string }>;
  /** A further process, for a test that kills it. */
  another(): Promise<{ server: Laurel; client: Client }>;
  stop(): Promise<void>;
};

type TwoServersOptions = {
  /** Settings of both processes. */
  env?: Record<string, string>;
  /** Connections of the test's own to the database; default 4. */
  poolMax?: number;
};

const memberOf =
  (client: Client, database: Database) =>
  async ({ userId: like, password }: Tenant, role: Role): Promise<{ userId: string; token: string }> => {
    const [userId, email] = [randomUUID(), `${randomUUID()}@example.com`];
    await sql`
      insert into users select (jsonb_populate_record(u, jsonb_build_object('id', ${userId}::text,
        'email', ${email}::text, 'role', ${role}::text))).* from users u
      where id = ${like}::uuid`.execute(database.em.fork().getKysely());
    const { accessToken } = must(await client.post("/api/v1/auth/login", { email, password }), 200);
    return { userId, token: accessToken };
  };

export const startTwoServers = async ({
  env = {},
  poolMax = 4,
}: TwoServersOptions = {}): Promise<TwoServers> => {
  const directory = await temporaryDir();
  const services = await startServices(directory.path);
  const servers: Laurel[] = [];
  const another = async (): Promise<{ server: Laurel; client: Client }> => {
    const port = await freePort();
    // One address for all, as behind a load balancer: tokens name it.
    const shared = { PUBLIC_URL: "http://localhost", TRUSTED_PROXIES: "127.0.0.1/32", ...env };
    const server = await startProcess(["serve"], { ...services.env, ...shared, PORT: String(port) });
    servers.push(server);
    return { server, client: clientOf(`http://127.0.0.1:${port}`) };
  };
  const clients: [Client, Client] = [(await another()).client, (await another()).client];
  const database = await openPostgres(services.databaseUrl, poolMax);
  return {
    clients,
    services,
    database,
    member: memberOf(clients[0], database),
    another,
    stop: async () => {
      await database.close();
      for (const server of servers) await kill(server);
      await services.remove();
      await directory.remove();
    },
  };
};

let common: Promise<TwoServers> | undefined;

/** The two servers that all tests of this mocha process share; tests keep apart by tenant. */
export const twoServers = (): Promise<TwoServers> => {
  common ??= startTwoServers().then((two) => {
    two.services.removeAtExit();
    return two;
  });
  return common;
};

/** The token of a super-admin, whom the command makes. */
export const superAdminOf = async (
  { clients, services }: TwoServers,
  email = `root-${randomUUID()}@platform.example.com`,
): Promise<string> => {
  const login = { email, password: "Root-of-7-trees" };
  await laurelAdmin(["create", "--email", login.email], services.env, login.password);
  return firstAdminLogin(clients[0], login);
};

/** One port in front of several, as a load balancer without stickiness: connections go round in turn. */
type Balancer = {
  url: string;
  /** Where new connections go from now on. */
  aim(ports: readonly number[]): void;
  /** Connections that are open now. */
  open(): readonly Socket[];
  close(): Promise<void>;
};

/** Balances loopback ports; a port that refuses is passed over for the next one. */
const startBalancer = async (first: readonly number[]): Promise<Balancer> => {
  let ports = [...first];
  let turn = 0;
  const open = new Set<Socket>();
  const server = createServer({ allowHalfOpen: true }, (client) => {
    open.add(client);
    client.on("error", () => client.destroy());
    client.on("close", () => open.delete(client));
    attempt(client, ports.length);
  });
  const attempt = (client: Socket, tries: number): void => {
    if (tries === 0 || client.destroyed) return void client.destroy();
    const target = connect({ port: ports[turn++ % ports.length]!, host: "127.0.0.1", allowHalfOpen: true });
    const onRefused = (): void => attempt(client, tries - 1);
    target.once("error", onRefused);
    target.once("connect", () => {
      target.off("error", onRefused);
      target.on("error", () => client.destroy());
      target.on("close", () => client.destroy());
      client.on("close", () => target.destroy());
      client.pipe(target).pipe(client);
    });
  };
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  const { port } = server.address() as { port: number };
  return {
    url: `http://127.0.0.1:${port}`,
    aim: (next) => {
      ports = [...next];
    },
    open: () => [...open],
    close: async () => {
      server.close();
      for (const socket of open) socket.destroy();
      await once(server, "close");
    },
  };
};

export type Web = Laurel & { port: number; client: Client };

/** Web processes behind one port, and a worker. */
export type WebCluster = {
  webs: Web[];
  worker: Laurel;
  /** Through the port that all share. */
  api: Client;
  balancer: Balancer;
  tenant: Tenant;
  services: Services;
  /** Starts one more web process behind the port, with settings of its own if need be. */
  add(env?: Record<string, string>): Promise<Web>;
  /** Starts one more worker. */
  addWorker(): Promise<Laurel>;
  /** Ends one, and no longer sends clients to it. */
  kill(web: Web): Promise<void>;
  /** A number of one process, by the name and labels of its metric; 0 when it is not there. */
  metric(web: Web, name: string): Promise<number>;
  stop(): Promise<void>;
};

const metricOf = async ({ client }: Web, name: string): Promise<number> => {
  const page = await (await fetch(`${client.url}/metrics`)).text();
  const line = page.split("\n").find((text) => text.startsWith(`${name} `));
  return Number(line?.split(" ").at(-1) ?? 0);
};

/** @param env settings of all processes, such as another REDIS_URL */
export const startWebCluster = async (
  count: number,
  env: Record<string, string> = {},
): Promise<WebCluster> => {
  const directory = await temporaryDir();
  const services = await startServices(directory.path);
  const shared = {
    ...services.env,
    PUBLIC_URL: "http://localhost",
    TRUSTED_PROXIES: "127.0.0.1/32",
    ...env,
  };
  const webs: Web[] = [];
  const balancer = await startBalancer([]);
  const aim = (): void => balancer.aim(webs.map(({ port }) => port));
  const add = async (own: Record<string, string> = {}): Promise<Web> => {
    const port = await freePort();
    const process = await startProcess(["serve"], { ...shared, ...own, ROLES: "web", PORT: String(port) });
    const web = { ...process, port, client: clientOf(`http://127.0.0.1:${port}`) };
    webs.push(web);
    aim();
    return web;
  };
  const remove = async (web: Web): Promise<void> => {
    webs.splice(webs.indexOf(web), 1);
    aim();
    await kill(web);
  };
  // The first one makes the tables and the secrets.
  await add();
  const workers: Laurel[] = [];
  const addWorker = async (): Promise<Laurel> => {
    const started = await startProcess(["worker"], { ...shared, ROLES: "worker" });
    workers.push(started);
    return started;
  };
  const [worker] = await Promise.all([addWorker(), ...Array.from({ length: count - 1 }, () => add())]);
  const api = clientOf(balancer.url);
  return {
    webs,
    worker,
    api,
    balancer,
    tenant: await aTenant(api),
    services,
    add,
    addWorker,
    kill: remove,
    metric: metricOf,
    stop: async () => {
      while (webs.length > 0) await remove(webs[0]!);
      for (const one of workers) await kill(one);
      await balancer.close();
      await services.remove();
      await directory.remove();
    },
  };
};
