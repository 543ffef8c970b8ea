import {
  appendFileSync,
  existsSync,
  readFileSync,
  renameSync,
  rmSync,
  statSync,
  truncateSync,
  writeFileSync,
} from "node:fs";
import { fnv1a } from "../domain/kernel/ids.ts";
import { BATCH_MAX_BYTES } from "../domain/tracking/event-input.ts";
import { keyHeader } from "./api-flags.ts";
import { ApiFailure } from "./call-api.ts";
import {
  type BatchClient,
  createBatchClient,
  IMPORT_API,
  type ImportedEvent,
  RETRY_TIMES,
  type RetryTimes,
  type Verdict,
} from "./import-client.ts";
import { createDigest, type Item, type Line, openLines, readItem, withKey } from "./import-file.ts";
import { createHash } from "node:crypto";
import { z } from "zod";

/** Maximum number of characters kept of a rejected line. */
const REJECTED_TEXT_MAX = 4_000;

/** How far an import has come: every line up to `line` is answered. */
const State = z.object({
  version: z.literal(2),
  startedAt: z.string(),
  line: z.int().min(0),
  /** Of the file up to the line: proof that it is unchanged. */
  digest: z.string(),
  counts: z.object({
    accepted: z.int(),
    skipped: z.int(),
    rejected: z.int(),
    /** Skipped events in batches that were sent twice because an answer was lost. */
    repeated: z.int(),
  }),
  rejected: z.object({ file: z.string(), bytes: z.int() }),
});
type ImportState = z.infer<typeof State>;
export type Counts = ImportState["counts"];

/** The state of an import that begins. */
const newState = (rejected: string): ImportState => ({
  version: 2,
  startedAt: new Date().toISOString(),
  line: 0,
  digest: "",
  counts: { accepted: 0, skipped: 0, rejected: 0, repeated: 0 },
  rejected: { file: rejected, bytes: 0 },
});

/**
 * Path of a file's state for one destination. The key is only part of a hash, so that two projects have two
 * state files and neither reveals a key.
 */
export const statePath = (file: string, url: string, key: string): string => {
  const id = createHash("sha256").update(`${url}\0${key}`).digest("hex").slice(0, 8);
  return `${file}.${id}.laurel-import.json`;
};

/** Undefined when there is none. @throws ApiFailure when it cannot be read */
const loadState = (path: string): ImportState | undefined => {
  if (!existsSync(path)) return undefined;
  try {
    return State.parse(JSON.parse(readFileSync(path, "utf8")));
  } catch {
    throw new ApiFailure(`${path} is not the state of an import: delete it, or start over with --no-resume`);
  }
};

/** Replaces the state file atomically: a crash leaves the old or the new one. */
const saveState = (path: string, state: ImportState): void => {
  try {
    writeFileSync(`${path}.new`, JSON.stringify(state));
    renameSync(`${path}.new`, path);
  } catch (error) {
    throw new ApiFailure(
      `cannot write ${path}: ${(error as Error).message} (--state FILE puts it elsewhere)`,
    );
  }
};

const removeState = (path: string): void => rmSync(path, { force: true });

type RejectedLine = { line: number; reason: string; text: string };

/**
 * Returns what adds lines to the file of rejected ones, which is created with the first, and returns its
 * size.
 * @param keepBytes how much of an earlier part of the same import to keep; anything that an interrupted run
 * wrote after its last saved state is truncated, since those lines will be repeated
 */
const openRejected = (path: string, keepBytes: number): ((lines: RejectedLine[]) => number) => {
  let isOpen = false;
  let bytes = keepBytes;
  return (lines) => {
    if (lines.length === 0) return bytes;
    if (!isOpen && keepBytes > 0 && existsSync(path))
      truncateSync(path, Math.min(keepBytes, statSync(path).size));
    else if (!isOpen) writeFileSync(path, "");
    isOpen = true;
    appendFileSync(path, lines.map(recordOf).join(""));
    return (bytes = statSync(path).size);
  };
};

const recordOf = ({ line, reason, text: whole }: RejectedLine): string => {
  const text = whole.slice(0, REJECTED_TEXT_MAX);
  const isCut = text.length < whole.length;
  return `${JSON.stringify({ line, reason, text, ...(isCut ? { truncated: true } : {}) })}\n`;
};

export type ImportOptions = {
  /** A path, or "-" for standard input. */
  file: string;
  url: string;
  key: string;
  /** Events per request, 1..1000. */
  batch: number;
  /** Requests in flight. Lines of one player share a lane, which sends one at a time. */
  concurrency: number;
  /**
   * "stable": an event without a key gets one derived from the file's content; "asis": it is sent without.
   */
  keyless: "stable" | "asis";
  /** Path of the state file; undefined keeps none. */
  state: string | undefined;
  /** Whether to continue from a saved state. */
  resume: boolean;
  rejected: string;
  retry?: RetryTimes;
};

export type Progress = {
  counts: Counts;
  /** Answered lines: in all runs of this import, and in this one. */
  lines: number;
  linesNow: number;
  /** Bytes of the file on disk. */
  bytes: number;
  totalBytes: number | undefined;
};

/** Callbacks that observe an import. */
export type ImportWatch = {
  onProgress(progress: Progress): void;
  onNote(text: string): void;
  onLine?(line: number, verdict: Verdict): void;
};

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

/** One request: its events are in file order. */
type Lane = { items: { item: Item; text: string }[]; bytes: number };
/** The next lines of the file, which are sent at the same time, and where they end. */
type Window = { lanes: Lane[]; line: number; digest: string; readBytes: number };

type Run = {
  options: ImportOptions;
  watch: ImportWatch;
  /** Aborted when nothing more is to be read or sent. */
  halt: AbortController;
  start: ImportState;
  state: ImportState;
  send: BatchClient;
  addRejected: ReturnType<typeof openRejected>;
  totalBytes: number | undefined;
};

/** Number of answered lines. */
const linesOf = ({ accepted, skipped, rejected }: Counts): number => accepted + skipped + rejected;

/** Sends a file's events and returns their results. Never throws: see `error`. */
export const runImport = async (
  options: ImportOptions,
  watch: ImportWatch,
  signals: ImportSignals,
): Promise<ImportOutcome> => {
  let run: Run | undefined;
  let error: Error | undefined;
  try {
    run = openRun(options, watch, signals);
    await sendFile(run);
    if (options.state !== undefined && !run.halt.signal.aborted) removeState(options.state);
  } catch (caught) {
    // After a stop, delays, reading and requests end with errors of their own.
    const isOfStop = signals.kill.aborted || (signals.stop.aborted && !(caught instanceof ApiFailure));
    if (!isOfStop) error = caught as Error;
  }
  return outcomeOf(run, error);
};

const outcomeOf = (run: Run | undefined, error: Error | undefined): ImportOutcome => {
  const { counts, start, isStopped } = run
    ? { counts: run.state.counts, start: run.start, isStopped: run.halt.signal.aborted }
    : { counts: newState("").counts, start: newState(""), isStopped: true };
  return {
    status: error ? "failed" : isStopped ? "interrupted" : "done",
    counts,
    lines: linesOf(counts),
    linesNow: linesOf(counts) - linesOf(start.counts),
    resumedFromLine: start.line === 0 ? undefined : start.line,
    error,
  };
};

const openRun = (options: ImportOptions, watch: ImportWatch, { stop, kill }: ImportSignals): Run => {
  const { file, url, key, rejected, retry = RETRY_TIMES } = options;
  const kept = options.state !== undefined && options.resume ? loadState(options.state) : undefined;
  if (kept) watch.onNote(`going on after line ${kept.line} of an import begun ${kept.startedAt}`);
  const start = kept ?? newState(rejected);
  // Another file of rejected lines is started anew.
  const keepBytes = start.rejected.file === rejected ? start.rejected.bytes : 0;
  const halt = new AbortController();
  stop.addEventListener("abort", () => halt.abort());
  if (stop.aborted) halt.abort();
  const api = { url, headers: keyHeader(key), stop: kill, ...IMPORT_API };
  const onWait = (reason: string, waitMs: number) =>
    watch.onNote(`${reason}; trying again in ${(waitMs / 1_000).toFixed(1)} s`);
  return {
    options,
    watch,
    halt,
    start,
    state: { ...start, counts: { ...start.counts }, rejected: { file: rejected, bytes: keepBytes } },
    send: createBatchClient({ api, retry, stop: halt.signal, onWait }),
    addRejected: openRejected(rejected, keepBytes),
    totalBytes: sizeOf(file),
  };
};

/** Undefined for inputs that can be read only once: standard input, a pipe. */
const sizeOf = (file: string): number | undefined => {
  if (file === "-") return undefined;
  const stats = statSync(file);
  return stats.isFile() ? stats.size : undefined;
};

/** Sends a window while the next one is read. */
const sendFile = async (run: Run): Promise<void> => {
  let sending: Promise<void> = Promise.resolve();
  try {
    for await (const window of windowsOf(run)) {
      await sending;
      if (run.halt.signal.aborted) break;
      sending = deliver(run, window);
      // Thrown where it is waited for; until then nothing more need be read.
      sending.catch(() => run.halt.abort());
    }
  } finally {
    await sending;
  }
};

/** Sizes of `{"events":[]}`, and of a generated key and a comma at most. */
const [ENVELOPE_BYTES, KEY_MAX_BYTES] = [16, 96];
const bytesOf = (item: Item): number => item.bytes + KEY_MAX_BYTES;

async function* windowsOf(run: Run): AsyncGenerator<Window> {
  const { options, halt, start } = run;
  const filling = startFilling(run);
  try {
    for await (const lines of openLines(options.file, halt.signal, filling.onBytes))
      for (const line of lines) {
        const item = line.number > start.line ? readItem(line) : undefined;
        if (item && !filling.hasRoom(item)) yield filling.close();
        filling.add(line, item);
      }
    yield filling.close();
  } catch (error) {
    throw halt.signal.aborted ? error : asReadFailure(options.file, error as Error & { code?: string });
  }
}

/** The window that is being filled with lines, the next one once it is closed. */
const startFilling = (run: Run) => {
  const { options, start } = run;
  const digest = createDigest();
  let [lanes, line, readBytes] = [newLanes(options), 0, 0];
  return {
    onBytes: (read: number): void => void (readBytes = read),
    hasRoom: (item: Item): boolean => {
      const { items, bytes } = laneOf(item, lanes);
      return items.length < options.batch && bytes + bytesOf(item) <= BATCH_MAX_BYTES - ENVELOPE_BYTES;
    },
    /** @throws ApiFailure where the file is not what an earlier run has read */
    add: (one: Line, item: Item | undefined): void => {
      digest.add(one);
      line = one.number;
      if (line === start.line && digest.current() !== start.digest) throw changed(run);
      if (!item) return;
      const lane = laneOf(item, lanes);
      const isKeyed = item.hasKey || options.keyless === "asis";
      const text = isKeyed ? item.text : withKey(item.text, `import:${digest.current()}:${line}`);
      lane.items.push({ item, text });
      lane.bytes += bytesOf(item);
    },
    /** @throws ApiFailure where the file is shorter than what an earlier run has read */
    close: (): Window => {
      if (line < start.line) throw changed(run);
      const window = { lanes, line, digest: digest.current(), readBytes };
      lanes = newLanes(options);
      return window;
    },
  };
};

const newLanes = ({ concurrency }: ImportOptions): Lane[] =>
  Array.from({ length: concurrency }, () => ({ items: [], bytes: 0 }));

/** A player's events share a lane, which keeps their order. Lines without a player go to the first. */
const laneOf = ({ userId }: Item, lanes: readonly Lane[]): Lane =>
  lanes[userId === undefined ? 0 : fnv1a(userId) % lanes.length]!;

const changed = ({ options, start }: Run): ApiFailure =>
  new ApiFailure(
    `${options.file} has changed since the import began ${start.startedAt}: start over with --no-resume ` +
      "(events with an idempotencyKey are not applied twice)",
  );

const asReadFailure = (file: string, error: Error & { code?: string }): Error => {
  if (error instanceof ApiFailure) return error;
  const { code, message } = error;
  if (code === "Z_BUF_ERROR") return new ApiFailure(`${file} is cut short: its gzip data has no end`);
  if (code?.startsWith("Z_")) return new ApiFailure(`${file} is damaged: ${message}`);
  return new ApiFailure(`cannot read ${file}: ${message}`);
};

/** Sends the requests of a window at the same time, and records what became of each line. */
const deliver = async (run: Run, { lanes, line, digest, readBytes }: Window): Promise<void> => {
  const { options, watch, state, totalBytes, start } = run;
  const sent = await Promise.allSettled(lanes.map((lane) => sendLane(run, lane)));
  for (const one of sent) if (one.status === "rejected") throw one.reason;
  const results = sent.flatMap((one) => (one.status === "fulfilled" ? one.value : []));
  results.sort((a, b) => a.item.line - b.item.line);
  for (const { item, verdict, isRepeated } of results) {
    state.counts[verdict]++;
    if (isRepeated && verdict === "skipped") state.counts.repeated++;
    watch.onLine?.(item.line, verdict);
  }
  const rejected = results.filter(({ verdict }) => verdict === "rejected");
  state.rejected.bytes = run.addRejected(
    rejected.map(({ item, message }) => ({ line: item.line, reason: message, text: item.text })),
  );
  Object.assign(state, { line, digest });
  if (options.state !== undefined) saveState(options.state, state);
  const lines = linesOf(state.counts);
  const linesNow = lines - linesOf(start.counts);
  watch.onProgress({ counts: state.counts, lines, linesNow, bytes: readBytes, totalBytes });
};

type Settled = ImportedEvent & { item: Item; isRepeated: boolean };

const sendLane = async ({ send }: Run, { items }: Lane): Promise<Settled[]> => {
  const events = items.filter(({ item }) => item.reason === undefined).map(({ text }) => text);
  const { results, isRepeated } = events.length > 0 ? await send(events) : { results: [], isRepeated: false };
  const answers = results.values();
  return items.map(({ item }): Settled => {
    const { reason } = item;
    const answer: ImportedEvent =
      reason === undefined ? answers.next().value! : { verdict: "rejected", message: reason };
    return { ...answer, item, isRepeated };
  });
};
