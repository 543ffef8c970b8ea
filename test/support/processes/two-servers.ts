import { randomUUID } from "node:crypto";
import { sql } from "kysely";
import type { Role } from "../../../src/domain/kernel/caller.ts";
import { type Database, openPostgres } from "../../../src/platform/database.ts";
import { laurelAdmin } from "./command.ts";
import type { Tenant } from "../app/app.ts";
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

export type TwoServersOptions = {
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
