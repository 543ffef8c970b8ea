import { BATCH_MAX_BYTES } from "../domain/tracking/event-input.ts";
import { fnv1a } from "../domain/kernel/ids.ts";
import {
  type BatchClient,
  type ImportedEvent,
  ImportFailure,
  type RetryTimes,
  type Verdict,
} from "./import-client.ts";
import { type Digest, eventText, type Item } from "./import-lines.ts";
import { type ImportState, type RejectedFile, saveState } from "./import-state.ts";

export type ImportOptions = {
  /** A path, or "-" for standard input. */
  file: string;
  url: string;
  key: string;
  /** Events per request, 1..1000. */
  batch: number;
  /** Number of lanes; each sends one request at a time. Lines of one player share a lane. */
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

export type Counts = ImportState["counts"];

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

/** A sequence of requests, one at a time: its items are in file order, and so are the requests. */
export type Lane = { items: Item[]; bytes: number; acked: number; isBusy: boolean; sending: Promise<void> };
type Check = ImportState["check"];

export type Run = {
  options: ImportOptions;
  watch: ImportWatch;
  send: BatchClient;
  halt: AbortController;
  stop: AbortSignal;
  lanes: Lane[];
  digest: Digest;
  /** Digests at lines that not every lane has acknowledged yet. */
  checks: Check[];
  /** Lines up to here are done in every lane. */
  skipTo: number;
  /** The state with which this run began. */
  start: ImportState;
  counts: Counts;
  rejected: RejectedFile;
  lastLine: number;
  readBytes: number;
  totalBytes: number | undefined;
  linesNow: number;
  isDone: boolean;
  failure: Error | undefined;
};

/** Size of `{"events":[]}`, and of `"idempotencyKey":"",`. */
const ENVELOPE_BYTES = 16;
const KEY_BYTES = 24;

/** Number of answered lines. */
export const linesOf = ({ accepted, skipped, rejected }: Counts): number => accepted + skipped + rejected;

/**
 * Selects the lane: a player's events share one, which keeps their order. Lines without a player go to the
 * first.
 */
export const laneOf = ({ lanes }: Run, { userId }: Item): Lane =>
  lanes[userId === undefined ? 0 : fnv1a(userId) % lanes.length]!;

export const place = (run: Run, lane: Lane, item: Item): Promise<void> | undefined => {
  const { batch, keyless } = run.options;
  if (item.reason === undefined && !item.hasKey && keyless === "stable") {
    item.key = `import:${run.digest.current()}:${item.line}`;
    item.bytes += KEY_BYTES + item.key.length;
  }
  const push = () => {
    lane.items.push(item);
    lane.bytes += item.bytes;
    run.lastLine = item.line;
  };
  if (lane.bytes + item.bytes > BATCH_MAX_BYTES - ENVELOPE_BYTES) return flush(run, lane).then(push);
  push();
  return lane.items.length >= batch ? flush(run, lane) : undefined;
};

/** Sends a lane's items after its previous request was answered; reading continues meanwhile. */
export const flush = async (run: Run, lane: Lane): Promise<void> => {
  await lane.sending;
  if (run.halt.signal.aborted || lane.items.length === 0) return;
  const { items } = lane;
  lane.items = [];
  lane.bytes = 0;
  lane.isBusy = true;
  run.checks.push({ line: run.lastLine, digest: run.digest.current() });
  const bytes = run.readBytes;
  lane.sending = deliver(run, lane, items).then(
    () => report(run, bytes),
    (error: Error) => fail(run, error),
  );
};

const report = ({ counts, linesNow, totalBytes, watch }: Run, bytes: number): void =>
  watch.onProgress({ counts, lines: linesOf(counts), linesNow, bytes, totalBytes });

export const fail = (run: Run, error: Error): void => {
  // After a stop, delays end with an error of their own.
  if (error instanceof ImportFailure || !run.stop.aborted) run.failure ??= error;
  run.halt.abort();
};

const deliver = async (run: Run, lane: Lane, items: readonly Item[]): Promise<void> => {
  const events = items.filter(({ reason }) => reason === undefined);
  const answer =
    events.length === 0 ? { results: [], isRepeated: false } : await run.send(events.map(eventText));
  const results = answer.results.values();
  for (const item of items) {
    const result: ImportedEvent =
      item.reason === undefined ? results.next().value! : { verdict: "rejected", message: item.reason };
    settle(run, item, result);
  }
  const skipped = answer.results.filter(({ verdict }) => verdict === "skipped").length;
  if (answer.isRepeated) run.counts.repeated += skipped;
  lane.acked = items.at(-1)!.line;
  save(run);
  lane.isBusy = false;
};

const settle = (run: Run, item: Item, { verdict, message }: ImportedEvent): void => {
  run.counts[verdict] += 1;
  run.linesNow += 1;
  if (verdict === "rejected") run.rejected.add({ line: item.line, reason: message, text: item.text });
  run.watch.onLine?.(item.line, verdict);
};

const isIdle = (lane: Lane): boolean => !lane.isBusy && lane.items.length === 0;

const save = (run: Run): void => {
  const { options, counts, rejected, start } = run;
  if (options.state === undefined) return;
  const lanes = run.lanes.map((lane) => Math.max(lane.acked, isIdle(lane) ? run.lastLine : 0));
  const done = Math.min(...lanes);
  const check = run.checks.findLast(({ line }) => line <= done) ?? start.check;
  run.checks = run.checks.filter(({ line }) => line >= check.line);
  saveState(options.state, {
    ...start,
    updatedAt: new Date().toISOString(),
    lanes,
    check,
    counts,
    rejected: { file: rejected.path, bytes: rejected.bytes() },
  });
};
