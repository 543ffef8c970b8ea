import { statSync } from "node:fs";
import { createBatchClient, ImportFailure, RETRY_TIMES } from "./import-client.ts";
import {
  type Counts,
  fail,
  flush,
  type ImportOptions,
  type ImportWatch,
  type Lane,
  laneOf,
  linesOf,
  place,
  type Run,
} from "./import-lanes.ts";
import { createDigest, type Line, openLines, readItem } from "./import-lines.ts";
import { type ImportState, loadState, openRejected, removeState } from "./import-state.ts";

/** `stop`: complete requests in progress and save the state. `kill`: end at once. */
export type ImportSignals = { stop: AbortSignal; kill: AbortSignal };

export type ImportOutcome = {
  status: "done" | "interrupted" | "failed";
  counts: Counts;
  /** Answered lines of all runs of this import. */
  lines: number;
  /** Answered lines of this run. */
  linesNow: number;
  resumedFromLine: number | undefined;
  error: Error | undefined;
};

/** Sends a file's events and returns their results. Never throws: see `error`. */
export const runImport = async (
  options: ImportOptions,
  watch: ImportWatch,
  signals: ImportSignals,
): Promise<ImportOutcome> => {
  let run: Run | undefined;
  try {
    run = openRun(options, watch, signals);
    await readAll(run);
    if (!run.halt.signal.aborted) await finish(run);
  } catch (error) {
    if (!run) return failedToStart(error as Error);
    fail(run, error as Error);
  }
  await Promise.all(run.lanes.map((lane) => lane.sending));
  run.rejected.close();
  return outcomeOf(run);
};

const NO_COUNTS: Counts = { accepted: 0, skipped: 0, rejected: 0, repeated: 0 };

const failedToStart = (error: Error): ImportOutcome => ({
  status: "failed",
  counts: NO_COUNTS,
  lines: 0,
  linesNow: 0,
  resumedFromLine: undefined,
  error,
});

/** Loads the saved state, or begins at the first line. */
const openState = (options: ImportOptions, watch: ImportWatch): ImportState => {
  const { file, url, state, resume, rejected } = options;
  const kept = state !== undefined && resume ? loadState(state) : undefined;
  const now = new Date().toISOString();
  if (!kept) {
    return {
      version: 1,
      file,
      url,
      startedAt: now,
      updatedAt: now,
      lanes: Array.from({ length: options.concurrency }, () => 0),
      check: { line: 0, digest: "" },
      counts: { ...NO_COUNTS },
      rejected: { file: rejected, bytes: 0 },
    };
  }
  watch.onNote(`going on after line ${Math.min(...kept.lanes)} of an import begun ${kept.startedAt}`);
  if (kept.lanes.length !== options.concurrency) {
    watch.onNote(`--concurrency stays ${kept.lanes.length}: lanes are fixed when an import begins`);
  }
  // Another file is started anew.
  return kept.rejected.file === rejected ? kept : { ...kept, rejected: { file: rejected, bytes: 0 } };
};

const openRun = (options: ImportOptions, watch: ImportWatch, { stop, kill }: ImportSignals): Run => {
  const { file, url, key, retry = RETRY_TIMES } = options;
  const halt = new AbortController();
  stop.addEventListener("abort", () => halt.abort());
  if (stop.aborted) halt.abort();
  const onWait = (reason: string, waitMs: number) =>
    watch.onNote(`${reason}; trying again in ${(waitMs / 1_000).toFixed(1)} s`);
  const start = openState(options, watch);
  return {
    options,
    watch,
    send: createBatchClient({ url, key, retry, stop: halt.signal, kill, onWait }),
    halt,
    stop,
    lanes: start.lanes.map(newLane),
    digest: createDigest(),
    checks: [],
    skipTo: Math.min(...start.lanes),
    start,
    counts: { ...start.counts },
    rejected: openRejected(options.rejected, start.rejected.bytes),
    lastLine: 0,
    readBytes: 0,
    totalBytes: sizeOf(file),
    linesNow: 0,
    isDone: false,
    failure: undefined,
  };
};

const newLane = (acked: number): Lane => ({
  items: [],
  bytes: 0,
  acked,
  isBusy: false,
  sending: Promise.resolve(),
});

/** Undefined for inputs that can be read only once: standard input, a pipe. */
const sizeOf = (file: string): number | undefined => {
  if (file === "-") return undefined;
  const stats = statSync(file);
  return stats.isFile() ? stats.size : undefined;
};

const readAll = async (run: Run): Promise<void> => {
  const { options, halt } = run;
  const lines = openLines(options.file, halt.signal, (read) => (run.readBytes = read));
  try {
    for await (const some of lines) {
      for (const line of some) {
        const sending = feed(run, line);
        if (sending) await sending;
        if (halt.signal.aborted) return;
      }
    }
  } catch (error) {
    if (!halt.signal.aborted) throw asReadFailure(options.file, error as Error & { code?: string });
  }
};

const asReadFailure = (file: string, error: Error & { code?: string }): Error => {
  if (error instanceof ImportFailure) return error;
  const { code, message } = error;
  if (code === "Z_BUF_ERROR") return new ImportFailure(`${file} is cut short: its gzip data has no end`);
  if (code?.startsWith("Z_")) return new ImportFailure(`${file} is damaged: ${message}`);
  return new ImportFailure(`cannot read ${file}: ${message}`);
};

/** Adds a line to its lane; returns a promise when the caller must wait. */
const feed = (run: Run, line: Line): Promise<void> | undefined => {
  run.digest.add(line);
  const { number } = line;
  const { check } = run.start;
  if (check.line === number && check.digest !== run.digest.current()) throw changed(run);
  const item = number <= run.skipTo ? undefined : readItem(line);
  const lane = item && laneOf(run, item);
  if (!item || !lane || number <= lane.acked) {
    run.lastLine = number;
    return undefined;
  }
  return place(run, lane, item);
};

const changed = ({ options, start }: Run): ImportFailure =>
  new ImportFailure(
    `${options.file} has changed since the import began ${start.startedAt}: start over with --no-resume ` +
      "(events with an idempotencyKey are not applied twice)",
  );

/** Sends the remaining items after the end of the file. */
const finish = async (run: Run): Promise<void> => {
  if (run.lastLine < run.start.check.line) throw changed(run);
  for (const lane of run.lanes) await flush(run, lane);
  await Promise.all(run.lanes.map((lane) => lane.sending));
  run.isDone = run.lanes.every(({ items, isBusy }) => !isBusy && items.length === 0);
  if (run.isDone && run.options.state !== undefined) removeState(run.options.state);
};

const outcomeOf = (run: Run): ImportOutcome => {
  const { counts, failure, linesNow, skipTo } = run;
  return {
    status: run.isDone ? "done" : failure ? "failed" : "interrupted",
    counts,
    lines: linesOf(counts),
    linesNow,
    resumedFromLine: skipTo === 0 ? undefined : skipTo,
    error: failure,
  };
};
