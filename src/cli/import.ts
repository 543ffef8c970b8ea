import { statSync } from "node:fs";
import { basename, resolve } from "node:path";
import type { Command } from "commander";
import { BATCH_MAX_EVENTS } from "../domain/tracking/event-input.ts";
import { addKeyOptions, readKey, readUrl, urlOption, UsageError } from "./api-flags.ts";
import { createReporter, type ImportSummary } from "./import-progress.ts";
import {
  type ImportOptions,
  type ImportOutcome,
  type ImportSignals,
  runImport,
  statePath,
} from "./import-run.ts";
import { waitProcessed } from "./import-client.ts";
import type { Terminal } from "./progress.ts";

/** Maximum number of requests in flight. */
const CONCURRENCY_MAX = 16;

/** Flags of the command line, as commander names them. */
export type ImportFlags = {
  key?: string;
  keyFile?: string;
  url: string;
  batch: string;
  concurrency: string;
  keyless: string;
  rejected?: string;
  state?: string;
  resume: boolean;
  json?: boolean;
  quiet?: boolean;
  wait?: boolean;
};

/** Registers `import` with the program; sets the process's exit code. */
export const addImportCommand = (program: Command): void => {
  const command = program.command("import").argument("<file>", "the file, or - for standard input");
  addKeyOptions(command, "scope events:write")
    .summary("import events from a file of JSON lines")
    .description(
      "Sends events, one JSON object a line, to a Laurel server. Plain or gzip; - reads standard input.\n" +
        "An import that was interrupted goes on where it stopped when the same command is run again.\n" +
        "Exit codes: 0 no line rejected, 1 failed or interrupted, 2 usage, 3 some lines rejected.",
    )
    .addOption(urlOption())
    .option("--batch <events>", `events in a request, 1 to ${BATCH_MAX_EVENTS}`, String(BATCH_MAX_EVENTS))
    .option(
      "--concurrency <lanes>",
      `requests in flight, 1 to ${CONCURRENCY_MAX}; a player's order is kept`,
      "1",
    )
    .option(
      "--keyless <how>",
      "events without idempotencyKey: stable gives them one, asis sends them as they are",
      "stable",
    )
    .option("--rejected <file>", "where rejected lines go (default: import-rejected-<name>.ndjson)")
    .option("--state <file>", "where the state goes (default: beside the file)")
    .option("--no-resume", "start over, whatever an earlier run has left")
    .option("--no-wait", "end when the server has stored the events, not when it has processed them")
    .option("--json", "progress and summary as JSON lines on standard output")
    .option("--quiet", "no progress, only the summary")
    .action(async (file: string, flags: ImportFlags) => {
      process.exitCode = await importCommand(file, flags);
    });
};

/** Runs an import. @returns the exit code: 0 done, 1 failed or interrupted, 2 usage, 3 some lines rejected */
export const importCommand = async (
  file: string,
  flags: ImportFlags,
  terminal: Terminal = { out: process.stdout, err: process.stderr },
): Promise<number> => {
  let options: ImportOptions;
  try {
    options = readFlags(file, flags);
  } catch (error) {
    if (!(error instanceof UsageError)) throw error;
    terminal.err.write(`error: ${error.message}\n`);
    return 2;
  }
  const style = { json: flags.json === true, quiet: flags.quiet === true, name: basename(file) };
  const reporter = createReporter(style, terminal);
  if (options.key.startsWith("svc_test_"))
    reporter.onNote("a test key: the events go to the project's sandbox");
  const signals = listenForStop(reporter.onNote);
  const startMs = performance.now();
  const outcome = await runImport(options, reporter, signals);
  const sentMs = performance.now();
  const { onProcessing } = reporter;
  const isWaiting = outcome.status === "done" && flags.wait !== false && outcome.counts.accepted > 0;
  const processing = isWaiting
    ? await waitProcessed({ url: options.url, key: options.key, stop: signals.stop, onProcessing })
    : null;
  signals.release();
  const end = { processing, processingSeconds: secondsOf(performance.now() - sentMs) };
  reporter.finish({ ...summarize(options, outcome, (sentMs - startMs) / 1_000), ...end });
  if (outcome.status !== "done") return 1;
  return outcome.counts.rejected > 0 ? 3 : 0;
};

const readFlags = (file: string, flags: ImportFlags): ImportOptions => {
  const url = readUrl(flags.url);
  const key = readKey(flags);
  const { keyless } = flags;
  if (keyless !== "stable" && keyless !== "asis") throw new UsageError("--keyless must be stable or asis");
  return {
    file,
    url,
    key,
    batch: readNumber("--batch", flags.batch, BATCH_MAX_EVENTS),
    concurrency: readNumber("--concurrency", flags.concurrency, CONCURRENCY_MAX),
    keyless,
    state: canBeReadAgain(file) ? (flags.state ?? statePath(file, url, key)) : undefined,
    resume: flags.resume,
    rejected: resolve(flags.rejected ?? `import-rejected-${plainName(file)}.ndjson`),
  };
};

const readNumber = (name: string, text: string, max: number): number => {
  const value = Number(text);
  if (!Number.isInteger(value) || value < 1 || value > max)
    throw new UsageError(`${name} must be a number from 1 to ${max}`);
  return value;
};

/** Whether an interrupted import of the file can be resumed: a regular file, not a pipe. */
const canBeReadAgain = (file: string): boolean => {
  if (file === "-") return false;
  const stats = statSync(file, { throwIfNoEntry: false });
  if (!stats) throw new UsageError(`${file} does not exist`);
  if (stats.isDirectory()) throw new UsageError(`${file} is a directory`);
  return stats.isFile();
};

const plainName = (file: string): string =>
  file === "-"
    ? "stdin"
    : basename(file)
        .replace(/\.gz$/i, "")
        .replace(/\.(ndjson|jsonl|json)$/i, "");

/** A launcher that forwards signals duplicates a Ctrl-C; only a later one counts as the second. */
const SECOND_SIGNAL_AFTER_MS = 500;

/** The first Ctrl-C lets requests in progress complete; the second one aborts them. */
const listenForStop = (note: (text: string) => void): ImportSignals & { release(): void } => {
  const stop = new AbortController();
  const kill = new AbortController();
  let firstMs: number | undefined;
  const onSignal = () => {
    if (firstMs !== undefined) {
      if (performance.now() - firstMs > SECOND_SIGNAL_AFTER_MS) kill.abort();
      return;
    }
    firstMs = performance.now();
    note("stopping: waiting for the answer to what has been sent (Ctrl-C again does not wait)");
    stop.abort();
  };
  process.on("SIGINT", onSignal).on("SIGTERM", onSignal);
  const release = () => void process.off("SIGINT", onSignal).off("SIGTERM", onSignal);
  return { stop: stop.signal, kill: kill.signal, release };
};

const secondsOf = (ms: number): number => Math.round(ms) / 1_000;

type Sent = Omit<ImportSummary, "processing" | "processingSeconds">;

const summarize = (options: ImportOptions, outcome: ImportOutcome, seconds: number): Sent => {
  const { status, counts, lines, linesNow, resumedFromLine = null } = outcome;
  return {
    type: "summary",
    status,
    file: options.file,
    url: options.url,
    lines,
    ...counts,
    seconds: Math.round(seconds * 1_000) / 1_000,
    eventsPerSecond: Math.round(linesNow / Math.max(0.001, seconds)),
    resumedFromLine,
    rejectedFile: counts.rejected > 0 ? options.rejected : null,
    error: whyNotDone(options, outcome),
  };
};

const whyNotDone = ({ state }: ImportOptions, { status, error, lines }: ImportOutcome): string | null => {
  if (status === "done") return null;
  const why = error?.message ?? "stopped before the end";
  return lines === 0 || state === undefined ? why : `${why}; run the same command again to go on`;
};
