import { access, constants, stat, statfs } from "node:fs/promises";
import { createServer } from "node:net";
import { dirname, resolve } from "node:path";
import type { Settings } from "../config.ts";
import { findDataDirHolder } from "../platform/data-lock.ts";
import {
  refusedAddress,
  type PostgresProbe,
  probePostgres,
  probeRedis,
  type RedisProbe,
} from "../platform/probe.ts";
import type { AcmeSettings } from "../config/sections.ts";
import { openWarehouseStore } from "../platform/warehouse/directory.ts";

/** Writes and removes a file where events are written for a warehouse; nothing without one. */
export const checkWarehouse = async ({ warehouse }: Settings): Promise<Check[]> => {
  if (!warehouse) return [];
  const store = await openWarehouseStore(warehouse);
  try {
    await store.check();
    return [ok("Warehouse", `${store.name}, writable`)];
  } catch (error) {
    const remedy =
      warehouse.store.kind === "directory"
        ? "give the user of the workers the rights to it, and space; or set WAREHOUSE_URL to another one"
        : "check WAREHOUSE_URL, WAREHOUSE_ENDPOINT, WAREHOUSE_REGION, the key, and what it is allowed to do";
    return [fail("Warehouse", (error as Error).message, remedy)];
  }
};

const checkAuthority = async (acme: AcmeSettings): Promise<Check> => {
  // Loaded here, because most servers order no certificates.
  const { checkDirectory, readAuthorities } = await import("../platform/acme.ts");
  const { directoryUrl, caFile } = acme;
  const name = "Certificates";
  let authorities: string[] | undefined;
  try {
    if (caFile !== undefined) authorities = await readAuthorities(caFile);
  } catch (error) {
    const remedy = "set ACME_CA_FILE to a file with certificates in PEM that this user may read";
    return fail(name, `${caFile} cannot be used: ${textOf(error)}`, remedy);
  }
  try {
    await checkDirectory(acme, authorities);
    return ok(name, `ordered from ${directoryUrl}`);
  } catch (error) {
    const remedy = "check ACME_DIRECTORY_URL, the way there, and ACME_CA_FILE if the authority is your own";
    return fail(name, `${directoryUrl} cannot be used: ${textOf(error)}`, remedy);
  }
};

const checkTlsPort = async (
  { host }: Settings,
  { tlsPort }: AcmeSettings,
  isRunning: boolean,
): Promise<Check> => {
  const name = `TLS port ${tlsPort}`;
  if (tlsPort === 0) return ok("TLS port", "TLS_PORT=0: a free port is taken at each start");
  if (isRunning) return ok(name, "the server that is running has it");
  const problem = await portProblem(host, tlsPort);
  if (problem === undefined) return ok(name, `free on ${host}`);
  return fail(name, `cannot be used on ${host}: ${problem}`, "stop what has it, or set TLS_PORT");
};

/** What custom domains need, where the server orders certificates itself. */
export const checkCustomDomains = async (settings: Settings, isRunning: boolean): Promise<Check[]> => {
  const acme = settings.domains?.acme;
  if (!acme) return [];
  return Promise.all([checkTlsPort(settings, acme, isRunning), checkAuthority(acme)]);
};

/** What selling plans needs. */
export const checkBilling = async ({ billing }: Settings): Promise<Check[]> => {
  if (!billing) return [];
  const name = "Stripe";
  try {
    const { checkStripePrices } = await import("../platform/stripe.ts");
    const problems = await checkStripePrices(billing);
    if (problems.length === 0) return [ok(name, `${billing.prices.length} prices`)];
    const remedy = "make the price at Stripe, or correct STRIPE_PRICES; the key is of one mode, test or live";
    return problems.map((problem) => fail(name, problem, remedy));
  } catch (error) {
    return [fail(name, textOf(error), "check STRIPE_SECRET_KEY and the way to api.stripe.com")];
  }
};

/** One finding. `remedy` says what to do when the status is not "ok". */
export type Check = { name: string; status: "ok" | "warn" | "fail"; message: string; remedy?: string };

const POSTGRES_MAJOR_MIN = 14;
const REDIS_MAJOR_MIN = 6;
/** Free disk space and memory below which it warns; below a tenth of the disk space it fails. */
const DISK_FREE_MIN_BYTES = 1024 ** 3;
const MEMORY_FREE_MIN_BYTES = 512 * 1024 ** 2;
const CLOCK_SKEW_MAX_MS = 1_000;
const HTTP_TIMEOUT_MS = 3_000;

export const ok = (name: string, message: string): Check => ({ name, status: "ok", message });
const finding =
  (status: Check["status"]) =>
  (name: string, message: string, remedy: string): Check => ({ name, status, message, remedy });
export const warn = finding("warn");
export const fail = finding("fail");

/** Returns the message of an error; a failed connection may combine several. */
export const textOf = (error: unknown): string => {
  const { message, errors } = error as Error & { errors?: Error[] };
  return message || errors?.map((inner) => inner.message).join("; ") || String(error);
};

/** Node.js runs TypeScript directly from 22.18 on. */
export const checkNode = (version: string): Check => {
  const [major = 0, minor = 0] = version.split(".").map(Number);
  if (major > 22 || (major === 22 && minor >= 18)) return ok("Node.js", version);
  return fail("Node.js", `${version} is too old`, "use npm start, which brings its own, or Node.js 24");
};

export const checkMemory = (availableBytes: number): Check => {
  const text = `${Math.floor(availableBytes / 1024 ** 2)} MiB available`;
  if (availableBytes >= MEMORY_FREE_MIN_BYTES) return ok("Memory", text);
  return warn("Memory", text, "leave 512 MiB to a process: with less it may be killed under load");
};

/** Returns the directory itself, or the nearest existing one above it. */
const existing = async (path: string): Promise<string> => {
  const found = await stat(path).catch(() => undefined);
  return found || dirname(path) === path ? path : existing(dirname(path));
};

export const checkDisk = async ({ dataDir }: Settings): Promise<Check> => {
  const { bavail, bsize } = await statfs(await existing(resolve(dataDir)));
  const freeBytes = bavail * bsize;
  const text = `${(freeBytes / 1024 ** 3).toFixed(1)} GiB free for ${dataDir}`;
  if (freeBytes >= DISK_FREE_MIN_BYTES) return ok("Disk", text);
  const remedy = "free some space, or set DATA_DIR to another disk";
  return freeBytes >= DISK_FREE_MIN_BYTES / 10 ? warn("Disk", text, remedy) : fail("Disk", text, remedy);
};

export const checkDataDir = async ({ dataDir, mode }: Settings): Promise<Check> => {
  const name = "Data directory";
  const holder = await findDataDirHolder(dataDir);
  if (holder !== undefined) return ok(name, `${dataDir}, in use by process ${holder}`);
  const nearest = await existing(resolve(dataDir));
  try {
    if (!(await stat(nearest)).isDirectory()) throw new Error(`${nearest} is not a directory`);
    await access(nearest, constants.W_OK | constants.X_OK);
  } catch (error) {
    return fail(
      name,
      `${dataDir} cannot be written: ${textOf(error)}`,
      "set DATA_DIR, or give this user the rights",
    );
  }
  if (nearest !== resolve(dataDir)) return ok(name, `${dataDir} will be made at the first start`);
  return ok(
    name,
    mode === "embedded"
      ? `${dataDir}, not in use`
      : `${dataDir}, keeps secrets that the environment does not set`,
  );
};

type Listener = "free" | "taken" | { code: string };

const tryListen = (host: string, port: number): Promise<Listener> =>
  new Promise((done) => {
    const server = createServer();
    server.once("error", ({ code = "unknown" }: NodeJS.ErrnoException) =>
      done(code === "EADDRINUSE" ? "taken" : { code }),
    );
    server.listen({ host, port, exclusive: true }, () => server.close(() => done("free")));
  });

/** Returns why a port cannot be listened on; undefined when it can. */
const portProblem = async (host: string, port: number): Promise<string | undefined> => {
  const listener = await tryListen(host, port);
  if (listener === "free") return undefined;
  return listener === "taken" ? "another program has it" : listener.code;
};

type Found = { name: string; version: string };

/** Returns the name and version of the API at an address; undefined when it does not say what it is. */
const identify = async (url: string): Promise<Found | undefined> => {
  try {
    const headers = { Accept: "application/json" };
    const response = await fetch(`${url}/`, { headers, signal: AbortSignal.timeout(HTTP_TIMEOUT_MS) });
    const { name, version } = (await response.json()) as Found;
    return typeof name === "string" ? { name, version } : undefined;
  } catch {
    return undefined;
  }
};

const isLaurel = (found: { name: unknown } | undefined): boolean => found?.name === "Laurel";

/** Checks whether the server can listen, or already does. */
export const checkPort = async (settings: Settings): Promise<{ check: Check; isRunning: boolean }> => {
  const { host, port } = settings;
  if (port === 0) {
    return { check: ok("Port", "PORT=0: a free port is taken at each start"), isRunning: false };
  }
  const name = `Port ${port}`;
  const listener = await tryListen(host, port);
  if (listener === "taken") return identifyListener(name, settings);
  if (listener === "free") return { check: ok(name, `free on ${host}`), isRunning: false };
  const remedy =
    listener.code === "EACCES" ? "set PORT to 1024 or more" : "set HOST to an address of this machine";
  return { check: fail(name, `cannot be used on ${host}: ${listener.code}`, remedy), isRunning: false };
};

const identifyListener = async (
  name: string,
  { host, port }: Settings,
): Promise<{ check: Check; isRunning: boolean }> => {
  const local = host === "0.0.0.0" || host === "::" ? "127.0.0.1" : host;
  const found = await identify(`http://${local.includes(":") ? `[${local}]` : local}:${port}`);
  const who = found ? `${found.name} ${found.version}` : "another program";
  if (isLaurel(found)) return { check: ok(name, `${who} is running there`), isRunning: true };
  const remedy = `stop it, or set PORT (who it is: lsof -i :${port})`;
  return { check: fail(name, `taken by ${who}`, remedy), isRunning: false };
};

const LOCAL_HOST = /^(localhost|127\.\d+\.\d+\.\d+|\[::1\])$/;

/** Checks the public address, which only a running server answers. */
export const checkPublicUrl = async ({ publicUrl, host }: Settings, isRunning: boolean): Promise<Check> => {
  const name = "PUBLIC_URL";
  const { hostname, pathname, protocol } = new URL(publicUrl);
  if (pathname !== "/") {
    return warn(
      name,
      `${publicUrl} has a path`,
      "paths are served from the root: proxy a whole host to Laurel",
    );
  }
  if (LOCAL_HOST.test(hostname)) {
    if (LOCAL_HOST.test(host)) return ok(name, `${publicUrl}, this machine only`);
    return warn(
      name,
      `${publicUrl} is this machine, but HOST=${host} accepts other machines`,
      "set it to what clients use",
    );
  }
  if (isRunning && !isLaurel(await identify(publicUrl))) {
    return warn(name, `Laurel does not answer at ${publicUrl}`, "check DNS, the proxy and its upstream port");
  }
  if (protocol === "https:") return ok(name, publicUrl);
  return warn(
    name,
    `${publicUrl} is not encrypted`,
    "put a proxy with a certificate before it: https and wss",
  );
};

export const checkPostgres = async (url: string): Promise<Check[]> => {
  try {
    return judgePostgres(await probePostgres(url));
  } catch (error) {
    const refused = refusedAddress(error, url);
    if (refused) return [fail("PostgreSQL", refused.message, refused.remedy)];
    const remedy = "check DATABASE_URL and that the server is running: psql \"$DATABASE_URL\" -c 'select 1'";
    return [fail("PostgreSQL", textOf(error), remedy)];
  }
};

/** What questions of analytics read: without it they answer 503, and everything else works. */
export const checkReplica = async (url: string): Promise<Check[]> => {
  const name = "Replica";
  try {
    const { isReadOnly, version } = await probePostgres(url);
    if (isReadOnly) return [ok(name, `${version}, for analytics`)];
    return [
      warn(name, "ANALYTICS_DATABASE_URL is no replica: it takes changes", "set it to a streaming replica"),
    ];
  } catch (error) {
    return [fail(name, textOf(error), "check ANALYTICS_DATABASE_URL and that the replica is running")];
  }
};

const judgePostgres = (probe: PostgresProbe): Check[] => [
  judgeServer(probe),
  judgeMigrations(probe),
  showTables(probe),
  judgeClock(probe.clockAheadMs),
];

const judgeMigrations = ({ pendingMigrations: { length } }: PostgresProbe): Check =>
  length === 0
    ? ok("Migrations", "all applied")
    : warn("Migrations", `${length} pending`, "the next start applies them, or now: npm run migrate");

/** Number of tables that are named. */
const TABLES_SHOWN = 5;

const mib = (bytes: number): string =>
  `${(bytes / 1024 ** 2).toLocaleString("en-US", { maximumFractionDigits: 1 })} MiB`;

const showTables = ({ tables }: PostgresProbe): Check => {
  const all = tables.reduce((sum, { bytes }) => sum + bytes, 0);
  const largest = tables.slice(0, TABLES_SHOWN).map(({ table, bytes }) => `${table} ${mib(bytes)}`);
  return ok("Tables", [`${mib(all)} in all`, ...largest].join(", "));
};

const judgeServer = ({
  version,
  major,
  isReadOnly,
  unsafeSettings,
  maxConnections,
}: PostgresProbe): Check => {
  const name = "PostgreSQL";
  if (isReadOnly)
    return fail(
      name,
      `${version} is a standby, which accepts no writes`,
      "point DATABASE_URL at the primary",
    );
  if (major < POSTGRES_MAJOR_MIN)
    return fail(name, `${version} is too old`, `use PostgreSQL ${POSTGRES_MAJOR_MIN} or newer`);
  if (unsafeSettings.length === 0) return ok(name, `${version}, ${maxConnections} connections`);
  const names = unsafeSettings.join(", ");
  return warn(name, `${version} may lose acknowledged commits: ${names} off`, `turn ${names} on`);
};

const judgeClock = (aheadMs: number): Check => {
  const where = aheadMs < 0 ? "behind" : "ahead";
  const text = `the database's clock is ${Math.abs(Math.round(aheadMs))} ms ${where}`;
  if (Math.abs(aheadMs) <= CLOCK_SKEW_MAX_MS) return ok("Clock", text);
  return warn("Clock", text, "run NTP on both machines: times of events, limits and tokens depend on it");
};

export const checkRedis = async (url: string): Promise<Check> => {
  try {
    return judgeRedis(await probeRedis(url));
  } catch (error) {
    return fail(
      "Redis",
      textOf(error),
      'check REDIS_URL and that the server is running: redis-cli -u "$REDIS_URL" ping',
    );
  }
};

const judgeRedis = ({ version, major, ...redis }: RedisProbe): Check => {
  const name = "Redis";
  if (redis.isReplica) return fail(name, `${version} is a replica`, "point REDIS_URL at the primary");
  if (major < REDIS_MAJOR_MIN)
    return fail(name, `${version} is too old`, `use Redis ${REDIS_MAJOR_MIN} or newer`);
  if (!redis.lastSaveSucceeded) {
    return fail(
      name,
      `${version} could not save to disk and refuses writes`,
      "free disk space where Redis saves",
    );
  }
  if (redis.maxMemoryPolicy !== "noeviction") {
    const text = `${version} drops keys when memory is full (maxmemory-policy ${redis.maxMemoryPolicy})`;
    return warn(name, text, "set maxmemory-policy noeviction: dropped keys are lost jobs and ranks");
  }
  const persistence = redis.isAppendOnly
    ? "append-only file"
    : "no append-only file: it is rebuilt from PostgreSQL";
  return ok(name, `${version}, noeviction, ${persistence}`);
};
