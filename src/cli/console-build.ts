import { spawn } from "node:child_process";
import { existsSync } from "node:fs";
import { dirname, join } from "node:path";
import type { Logger } from "pino";
import type { Config } from "../config.ts";

const SCRIPT = join(import.meta.dirname, "../../scripts/console.mjs");

type Build = { config: Pick<Config, "consoleDir" | "isConsoleBuilt">; log: Logger };

/**
 * Builds the console beside the server where its sources have changed, and says so when it is done. It ends
 * with this process.
 * @param stopping aborted when the process is asked to stop
 */
export const buildConsole = ({ config, log }: Build, stopping: AbortSignal): void => {
  const folder = dirname(config.consoleDir);
  if (!config.isConsoleBuilt || !existsSync(join(folder, "package.json"))) return;
  // A process group of its own, so that npm and what it has started end with it.
  const child = spawn(process.execPath, [SCRIPT, "--background", folder], {
    stdio: ["ignore", "pipe", "pipe"],
    detached: true,
  });
  let output = "";
  for (const stream of [child.stdout, child.stderr])
    stream.on("data", (chunk: Buffer) => (output += chunk.toString()));
  const end = (): void => {
    if (child.pid !== undefined && child.exitCode === null && child.signalCode === null)
      process.kill(-child.pid, "SIGKILL");
  };
  process.once("exit", end);
  stopping.addEventListener("abort", end);
  child.once("error", (err) => log.warn({ err }, "the console could not be built"));
  child.once("close", (code) => {
    process.off("exit", end);
    const said = output.trim();
    if (stopping.aborted || said === "") return;
    if (code === 0) log.info(said);
    else log.warn(said);
  });
};
