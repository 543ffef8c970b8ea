import type { Command } from "commander";
import { ConfigError, loadSettings, type Problem, type Settings } from "../config.ts";
import type * as Checks from "./doctor-checks.ts";

type Check = Checks.Check;

type DoctorFlags = { json?: boolean };

/** Registers `doctor` with the program; sets the process's exit code. */
export const addDoctorCommand = (program: Command): void => {
  program
    .command("doctor")
    .summary("check what a server needs")
    .description(
      "Checks Node.js, the settings, the data directory, the ports, PostgreSQL, Redis, the public\n" +
        "address, clocks, memory and disk space; the warehouse, certificates and Stripe where used;\n" +
        "and says what to do. Changes nothing. Exit code 1 when one fails.",
    )
    .option("--json", "one JSON object")
    .action(async (flags: DoctorFlags) => {
      process.exitCode = await doctorCommand(flags);
    });
};

/**
 * Prints what works and what does not.
 * @param readSettings throws ConfigError; default: the environment of this process
 * @returns the exit code: 0, or 1 when something fails
 */
export const doctorCommand = async (
  flags: DoctorFlags,
  out: NodeJS.WritableStream = process.stdout,
  readSettings: () => Settings = loadSettings,
): Promise<number> => {
  const checks = await examine(readSettings);
  const failed = checks.filter(({ status }) => status === "fail").length;
  const warned = checks.filter(({ status }) => status === "warn").length;
  if (flags.json === true) {
    out.write(`${JSON.stringify({ ok: failed === 0, failed, warned, checks })}\n`);
  } else {
    const width = Math.max(...checks.map(({ name }) => name.length));
    for (const check of checks) out.write(textOf(check, width));
    out.write(failed + warned === 0 ? "all is well\n" : `${failed} failed, ${warned} to look at\n`);
  }
  return failed === 0 ? 0 : 1;
};

const textOf = ({ name, status, message, remedy }: Check, width: number): string => {
  const label = `[${status}]`.padEnd(7);
  const line = `${label}${name.padEnd(width)}  ${message}\n`;
  return remedy === undefined ? line : `${line}${" ".repeat(7 + width)}  -> ${remedy}\n`;
};

const examine = async (readSettings: () => Settings): Promise<Check[]> => {
  // Loaded here, because it loads the database client, which other commands do not need.
  const checks = await import("./doctor-checks.ts");
  const machine = [checks.checkNode(process.versions.node), checks.checkMemory(process.availableMemory())];
  let settings: Settings;
  try {
    settings = readSettings();
  } catch (error) {
    if (!(error instanceof ConfigError)) throw error;
    const asCheck = ({ name, message }: Problem): Check =>
      checks.fail("Settings", `${name} ${message}`, `set ${name} in the environment`);
    return [...machine, ...error.problems.map(asCheck)];
  }
  return [...machine, ...remarks(settings, checks), ...(await surroundings(settings, checks))];
};

const remarks = ({ mode, isProduction, remarks: texts }: Settings, { ok, warn }: typeof Checks): Check[] => [
  ok("Settings", `MODE=${mode}${isProduction ? ", production" : ""}`),
  ...texts.map((message) => warn("Settings", message, "unset it, or set MODE")),
];

const surroundings = async (settings: Settings, checks: typeof Checks): Promise<Check[]> => {
  const { databaseUrl, analyticsDatabaseUrl, redisUrl } = settings;
  const [disk, dataDir, port, postgres, replica, redis, warehouse] = await Promise.all([
    checks.checkDisk(settings),
    checks.checkDataDir(settings),
    checks.checkPort(settings),
    databaseUrl === undefined ? [] : checks.checkPostgres(databaseUrl),
    analyticsDatabaseUrl === undefined ? [] : checks.checkReplica(analyticsDatabaseUrl),
    redisUrl === undefined ? [] : checks.checkRedis(redisUrl),
    checks.checkWarehouse(settings),
  ]);
  const [publicUrl, domains, billing] = await Promise.all([
    checks.checkPublicUrl(settings, port.isRunning),
    checks.checkCustomDomains(settings, port.isRunning),
    checks.checkBilling(settings),
  ]);
  return [disk, dataDir, port.check, postgres, replica, redis, warehouse, publicUrl, domains, billing].flat();
};
