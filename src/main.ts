import { enableCompileCache, flushCompileCache } from "node:module";
import { join } from "node:path";
import { setTimeout as delay } from "node:timers/promises";
import { Command, Option } from "commander";
import { resolveOwnImports } from "./cli/own-imports.ts";
import { VERSION } from "./version.ts";

/** The process that started this one, as long as it runs. */
const parent = process.ppid;

// Half of the start time is stripping types and compiling modules, which is needed only once. If the folder
// is not writable nothing is cached. Not in the system's temporary folder, where others could plant code.
enableCompileCache(join(import.meta.dirname, "../node_modules/.cache/laurel-compile"));
resolveOwnImports();

const USAGE_EXIT_CODE = 2;
/** Signals within this time, in ms, are one: npm and a supervisor may both send it. */
const FORWARDED_MS = 1_000;
/**
 * Time for V8's background optimisation to finish, in ms: a process that exits while that waits for memory
 * may hang for ever (nodejs/node#54918).
 */
const LAST_REST_MS = 100;

/** How often a process checks whether its parent still runs, in ms. */
const PARENT_LOOK_MS = 500;

/** As shells report a process that SIGPIPE has ended. */
const BROKEN_PIPE_EXIT_CODE = 141;
let isServer = false;
// Who reads the output may leave before its end, as `head` does: a command ends then, and a server goes on.
for (const stream of [process.stdout, process.stderr])
  stream.on("error", (error: NodeJS.ErrnoException) => {
    if (error.code !== "EPIPE") throw error;
    if (!isServer) process.exit(BROKEN_PIPE_EXIT_CODE);
  });

const program = new Command("laurel")
  .description("Multi-tenant gamification backend and realtime game server")
  .version(VERSION)
  // For npm and bin/laurel.mjs: killed by SIGKILL they could not stop a server, which would keep its data
  // locked.
  .addOption(new Option("--stop-with-parent").hideHelp())
  .showHelpAfterError()
  // Before the commands are added: they inherit it. Help and version are not errors.
  .exitOverride(({ exitCode }) => process.exit(exitCode === 0 ? 0 : USAGE_EXIT_CODE));

program
  .command("serve")
  .description("start the server in the roles of ROLES")
  .action(() => run(["web", "worker"]).catch(failStart));
program
  .command("worker")
  .description("start the worker role only")
  .action(() => run(["worker"]).catch(failStart));

// Each command loads only what it needs: an import of a file does not load the server.
const { addMigrateCommand } = await import("./cli/migrate.ts");
const { addImportCommand } = await import("./cli/import.ts");
const { addConfigCommand } = await import("./cli/configuration.ts");
const { addListenCommand } = await import("./cli/listen.ts");
const { addTriggerCommand } = await import("./cli/trigger.ts");
const { addDoctorCommand } = await import("./cli/doctor.ts");
const { addDemoCommand } = await import("./cli/demo.ts");
const { addOpenapiCommand } = await import("./cli/openapi.ts");
const { addAdminCommand } = await import("./cli/admin.ts");
const { addAnalyticsCommand } = await import("./cli/analytics.ts");
const { addReconcileCommand } = await import("./cli/reconcile.ts");
addMigrateCommand(program);
addImportCommand(program);
addConfigCommand(program);
addListenCommand(program);
addTriggerCommand(program);
addDoctorCommand(program);
addDemoCommand(program);
addOpenapiCommand(program);
addAdminCommand(program);
addReconcileCommand(program);
addAnalyticsCommand(program);

await program.parseAsync().catch(fail);

async function run(allowed: ("web" | "worker")[]): Promise<void> {
  isServer = true;
  const { loadConfig } = await import("./config.ts");
  const loaded = await loadConfig();
  const { createLog } = await import("./log.ts");
  const { startServer } = await import("./cli/serve.ts");
  const { announce } = await import("./cli/announce.ts");
  const config = { ...loaded, roles: new Set(allowed.filter((role) => loaded.roles.has(role))) };
  const log = createLog(config);
  for (const remark of config.remarks) log.warn(remark);
  // A stray rejection must not end a process that holds rooms; it is a bug, and is logged as one.
  process.on("unhandledRejection", (err) => log.error({ err }, "unhandled rejection"));
  const running = await startServer(config, log);

  const stopping = new AbortController();
  const hurry = new AbortController();
  let firstMs = 0;
  const stop = async (signal: string) => {
    if (stopping.signal.aborted) {
      // Who asks again does not want to wait. At once, it is one signal that npm has forwarded too.
      if (performance.now() - firstMs > FORWARDED_MS) hurry.abort();
      return;
    }
    stopping.abort();
    firstMs = performance.now();
    log.info({ signal }, "stopping");
    setTimeout(() => process.exit(1), config.shutdownDelayMs + config.shutdownTimeoutMs).unref();
    let exitCode = 0;
    await running.stop(hurry.signal).catch((err: unknown) => {
      log.error({ err }, "stopping failed");
      exitCode = 1;
    });
    await delay(LAST_REST_MS);
    process.exit(exitCode);
  };
  for (const signal of ["SIGTERM", "SIGINT", "SIGHUP"] as const) process.on(signal, () => void stop(signal));
  // The channel of a supervisor such as pm2 closes when the supervisor ends.
  process.once("disconnect", () => void stop("disconnect"));
  if (program.opts()["stopWithParent"]) stopWithParent(() => void stop("parent"));
  if (running.address) {
    const { buildConsole } = await import("./cli/serve.ts");
    buildConsole({ config, log }, stopping.signal);
  }
  await announce(running, config, stopping.signal).catch((err: unknown) =>
    log.error({ err }, "the state of the demo could not be written"),
  );
  process.send?.("ready");
  // Otherwise it is written when the process ends, if it ends in order.
  flushCompileCache();
}

/** Stops soon after the process that started this one has ended. */
function stopWithParent(stop: () => void): void {
  const timer = setInterval(() => {
    if (process.ppid === parent) return;
    clearInterval(timer);
    stop();
  }, PARENT_LOOK_MS).unref();
}

/** A server that cannot start says why as it would have logged: as a JSON line where there is no terminal. */
async function failStart(error: unknown): Promise<never> {
  if (process.stderr.isTTY) return fail(error);
  const { createStartLines } = await import("./log.ts");
  createStartLines(2).fatal(error instanceof Error ? error.message : String(error));
  process.exit(1);
}

function fail(error: unknown): never {
  console.error(error instanceof Error ? error.message : error);
  process.exit(error instanceof Error && "exitCode" in error ? USAGE_EXIT_CODE : 1);
}
