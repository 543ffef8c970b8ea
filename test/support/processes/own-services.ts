import type { Kysely, sql } from "kysely";
import { type Database, openPostgres } from "../../../src/platform/database.ts";
import { type Client, clientOf } from "../http/client.ts";
import { freePort, type Laurel, startProcess, temporaryDir } from "./process.ts";
import { type Services, startServices } from "./services.ts";
import { supervise, type Supervised } from "./supervised.ts";

/** A database and a Redis for the tests of one `describe`, and a connection to the database. */
export type OwnServices = {
  /** A folder that ends with them. */
  path: string;
  services: Services;
  database: Database;
  db(): Kysely<unknown>;
  /** The number `n` in the first row of a query. */
  numberOf(query: NumberQuery): Promise<number>;
};

type NumberQuery = ReturnType<typeof sql<{ n: string | number }>>;

export type OwnServicesOptions = {
  /** Connections of the test's own; default 2. */
  poolMax?: number;
  /** Whether the tests run at all; default true. */
  isWanted?: boolean;
};

/** Starts services before the tests of a `describe`, and ends them after. */
export const ownServices = (options: OwnServicesOptions = {}): OwnServices => hookServices({}, options);

const hookServices = <T extends Partial<OwnServices>>(
  into: T,
  { poolMax = 2, isWanted = true }: OwnServicesOptions,
): T & OwnServices => {
  const own = into as T & OwnServices;
  let dir: Awaited<ReturnType<typeof temporaryDir>> | undefined;
  own.db = () => own.database.em.fork().getKysely<unknown>();
  own.numberOf = async (query) => Number((await query.execute(own.db())).rows[0]!.n);
  before(async function () {
    if (!isWanted) this.skip();
    dir = await temporaryDir();
    own.path = dir.path;
    own.services = await startServices(dir.path);
    own.database = await openPostgres(own.services.databaseUrl, poolMax);
  });
  after(async () => {
    await own.database?.close();
    await own.services?.remove();
    await dir?.remove();
  });
  return own;
};

/** Services with a web process, and a worker that is started again whenever it ends. */
export type OwnWeb = OwnServices & {
  /** What a worker beside the web process is started with. */
  env: Record<string, string>;
  web: Laurel;
  api: Client;
  worker?: Supervised;
  /** Starts the worker, which ends with the tests. */
  startWorker(more?: Record<string, string>): Supervised;
};

/** As `ownServices`, with a web process; the worker starts when a test says so. */
export const ownWeb = (options: OwnServicesOptions = {}): OwnWeb => {
  const own: Partial<OwnWeb> = {};
  // Hooks run in their order: the processes end before what they use.
  after(async () => {
    await own.worker?.stop();
    own.web?.child.kill("SIGTERM");
    await own.web?.ended;
  });
  hookServices(own, options);
  own.startWorker = (more = {}) => {
    own.worker = supervise(["worker"], { ...own.env, ...more });
    return own.worker;
  };
  before(async () => {
    own.env = { ...own.services!.env, PORT: String(await freePort()) };
    own.web = await startProcess(["serve"], { ...own.env, ROLES: "web" });
    own.api = clientOf(`http://127.0.0.1:${own.env["PORT"]}`);
  });
  return own as OwnWeb;
};
