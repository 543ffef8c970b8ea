import { spawnSync } from "node:child_process";
import { chownSync, mkdtempSync, readdirSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import assert from "node:assert/strict";
import { sql } from "kysely";
import {
  freePort,
  kill,
  laurel,
  type Laurel,
  startProcess,
  temporaryDir,
} from "../support/processes/process.ts";
import { type Database, openPostgres } from "../../src/platform/database.ts";
import { aTenant, type Tenant } from "../support/app/app.ts";
import { eventually } from "../support/eventually.ts";
import { type Client, clientOf, must } from "../support/http/client.ts";
import { type Services, startServices } from "../support/processes/services.ts";

const VERSIONS = "/usr/lib/postgresql";

/** Folder of the programs of PostgreSQL 15, or of the newest that there is. */
const programs = (): string => {
  const versions = readdirSync(VERSIONS).toSorted((a, b) => Number(a) - Number(b));
  return join(VERSIONS, versions.includes("15") ? "15" : versions.at(-1)!, "bin");
};

const isRoot = process.getuid?.() === 0;

/** Runs a program of PostgreSQL, which refuses to run as root. @throws Error with what it printed */
const runOrFail = (name: string, args: readonly string[]): void => {
  const program = join(programs(), name);
  const [command, ...all] = isRoot
    ? ["runuser", "--user", "postgres", "--", program, ...args]
    : [program, ...args];
  // Servers stay behind: nobody waits for what they print.
  const { status, stderr } = spawnSync(command, all, { stdio: ["ignore", "ignore", "pipe"], cwd: "/" });
  if (status !== 0) throw new Error(`${name} ended with ${status}: ${stderr.toString()}`);
};

const started: string[] = [];
process.on("exit", () => {
  for (const dataDir of started) spawnSync("kill", ["-QUIT", pidOf(dataDir)], { stdio: "ignore" });
});

const pidOf = (dataDir: string): string =>
  spawnSync("head", ["-1", join(dataDir, "postmaster.pid")])
    .stdout.toString()
    .trim();

const start = (dataDir: string, port: number): void => {
  const options = `-p ${port} -c listen_addresses=127.0.0.1 -c unix_socket_directories=${dataDir}`;
  runOrFail("pg_ctl", ["start", "--wait", "-D", dataDir, "-l", join(dataDir, "log"), "-o", options]);
  started.push(dataDir);
};

const stop = (dataDir: string): void => {
  runOrFail("pg_ctl", ["stop", "--wait", "--mode", "immediate", "-D", dataDir]);
  started.splice(started.indexOf(dataDir), 1);
};

/** A PostgreSQL of a test's own, and a replica that follows it by streaming. */
type PostgresPair = {
  primaryUrl: string;
  replicaUrl: string;
  /** Ends the replica, or starts it again. */
  stopReplica(): void;
  startReplica(): void;
  remove(): void;
};

const startPostgresPair = async (): Promise<PostgresPair> => {
  const folder = mkdtempSync(join(tmpdir(), "laurel-pair-"));
  if (isRoot) {
    const { stdout } = spawnSync("id", ["-u", "postgres"]);
    chownSync(folder, Number(stdout.toString()), -1);
  }
  const [primary, replica] = [join(folder, "primary"), join(folder, "replica")];
  const [primaryPort, replicaPort] = [await freePort(), await freePort()];
  runOrFail("initdb", [
    "-D",
    primary,
    "--username",
    "postgres",
    "--auth",
    "trust",
    "--encoding",
    "UTF8",
    "--no-sync",
  ]);
  start(primary, primaryPort);
  const primaryUrl = `postgres://postgres@127.0.0.1:${primaryPort}/postgres`;
  runOrFail("pg_basebackup", [
    "-D",
    replica,
    "-d",
    primaryUrl,
    "-R",
    "-X",
    "stream",
    "-c",
    "fast",
    "--no-sync",
  ]);
  start(replica, replicaPort);
  return {
    primaryUrl,
    replicaUrl: `postgres://postgres@127.0.0.1:${replicaPort}/postgres`,
    stopReplica: () => stop(replica),
    startReplica: () => start(replica, replicaPort),
    remove: () => {
      for (const dataDir of [replica, primary]) if (started.includes(dataDir)) stop(dataDir);
      rmSync(folder, { recursive: true, force: true });
    },
  };
};

describe("analytics that read a replica", () => {
  let directory: Awaited<ReturnType<typeof temporaryDir>>;
  let services: Services;
  let pair: PostgresPair;
  let replica: Database;
  let server: Laurel;
  let client: Client;
  let tenant: Tenant;

  before(async () => {
    directory = await temporaryDir();
    // For Redis; the database is one that is replicated.
    services = await startServices(directory.path);
    pair = await startPostgresPair();
    const port = await freePort();
    const env = {
      ...services.env,
      DATABASE_URL: pair.primaryUrl,
      ANALYTICS_DATABASE_URL: pair.replicaUrl,
      PORT: String(port),
    };
    server = await startProcess(["serve"], env);
    client = clientOf(`http://127.0.0.1:${port}`);
    tenant = await aTenant(client);
    replica = await openPostgres(pair.replicaUrl, 1);
  });
  after(async () => {
    if (server) await kill(server);
    await replica?.close();
    pair?.remove();
    await services?.remove();
    await directory?.remove();
  });

  const overview = () => client.get("/api/v1/analytics/overview?period=all", { key: tenant.key });
  const players = async (): Promise<number> => must(await overview(), 200).metrics.totalPlayers.value;
  const track = async (externalUserId: string): Promise<void> =>
    void must(
      await client.post(
        "/api/v1/events?wait=true",
        { externalUserId, eventType: "seen" },
        { key: tenant.key },
      ),
      200,
    );
  const hold = (is: boolean) =>
    sql`select ${sql.raw(is ? "pg_wal_replay_pause()" : "pg_wal_replay_resume()")}`.execute(
      replica.em.fork().getKysely(),
    );

  it("show what it has, up to when it has it, and go on with what comes", async () => {
    await track("ann");
    await eventually(async () => (await players()) === 1);
    await hold(true);
    await eventually(async () => {
      const { rows } = await sql<{ state: string }>`
        select pg_get_wal_replay_pause_state() as state`.execute(replica.em.fork().getKysely());
      return rows[0]!.state === "paused";
    });
    await track("bob");
    const since = new Date().toISOString();
    const behind = must(await overview(), 200);
    assert.equal(behind.metrics.totalPlayers.value, 1);
    assert(behind.asOf < since, `${behind.asOf} is not before ${since}`);
    // What was asked as of a moment that it does not know yet says how far it knows.
    const asked = await client.get(`/api/v1/analytics/overview?asOf=${since}`, { key: tenant.key });
    const { asOf } = must(asked, 200);
    assert(asOf >= behind.asOf && asOf < since, `${asOf} is not between ${behind.asOf} and ${since}`);
    const file = await client.get("/api/v1/analytics/export?report=events&format=json", { key: tenant.key });
    assert.equal(must(file, 200).length, 1);
    await hold(false);
    await eventually(async () => (await players()) === 2);
    // Also where nothing happens. An answer that is kept is as of when it was made: each of these is another.
    let days = 0;
    await eventually(async () => {
      const to = new Date(Date.now() - days++ * 86_400_000).toISOString().slice(0, 10);
      const answer = await client.get(`/api/v1/analytics/overview?to=${to}`, { key: tenant.key });
      return must(answer, 200).asOf > since;
    });
  });

  it("have a replica that the doctor knows", async () => {
    const doctor = (url: string) =>
      laurel(["doctor"], { ...services.env, DATABASE_URL: pair.primaryUrl, ANALYTICS_DATABASE_URL: url });
    const outputOf = async (url: string): Promise<string> => {
      const run = doctor(url);
      await run.ended;
      return run.output();
    };
    assert.match(await outputOf(pair.replicaUrl), /Replica.*\d.*for analytics/);
    assert.match(await outputOf(pair.primaryUrl), /Replica.*is no replica/);
  });

  it("wait for it where it is down, and nothing else does", async () => {
    pair.stopReplica();
    await eventually(async () => (await overview()).status === 503);
    await track("cy");
    must(await client.get("/health/ready"), 200);
    pair.startReplica();
    await eventually(async () => {
      const answer = await overview();
      return answer.status === 200 && answer.body.metrics.totalPlayers.value === 3;
    });
  });
});
