import { SingleBar } from "cli-progress";
import type { ImportWatch, Progress } from "./import-lanes.ts";
import type { ImportOutcome } from "./import-run.ts";
import type { Processing, ProcessingEnd, WaitOptions } from "./import-wait.ts";

export type ImportSummary = {
  type: "summary";
  status: ImportOutcome["status"];
  file: string;
  url: string;
  lines: number;
  accepted: number;
  skipped: number;
  rejected: number;
  /** Number of skipped events in batches that were repeated because an answer was lost. */
  repeated: number;
  seconds: number;
  eventsPerSecond: number;
  resumedFromLine: number | null;
  rejectedFile: string | null;
  /** How far the server has processed what it accepted; null where nobody looked. */
  processing: ProcessingEnd | null;
  /** How long that took after the last answer, in seconds. */
  processingSeconds: number;
  error: string | null;
};

/** Output streams: `out` for the result, `err` for progress. */
export type Terminal = { out: NodeJS.WritableStream; err: NodeJS.WritableStream & { isTTY?: boolean } };

export type Reporter = Pick<ImportWatch, "onProgress" | "onNote"> &
  Pick<WaitOptions, "onProcessing"> & { finish(summary: ImportSummary): void };

export type ReporterStyle = { json: boolean; quiet: boolean; name: string };

/** How every bar looks. */
export const BAR = {
  barsize: 20,
  barCompleteChar: "#",
  barIncompleteChar: "-",
  hideCursor: true,
  // Ctrl-C is handled by us: requests in progress complete.
  gracefulExit: false,
};

/** Interval of progress lines where there is no bar. */
export const LINE_EVERY_MS = 2_000;

/** Creates a reporter: a bar on a terminal, periodic lines elsewhere, JSON lines on request. */
export const createReporter = (style: ReporterStyle, terminal: Terminal): Reporter => {
  if (style.json) return jsonReporter(style, terminal);
  const finish = (summary: ImportSummary) => void terminal.out.write(`${summaryText(summary)}\n`);
  if (style.quiet) return { onProgress: () => {}, onProcessing: () => {}, onNote: () => {}, finish };
  return terminal.err.isTTY === true
    ? barReporter(style, terminal, finish)
    : lineReporter(style, terminal, finish);
};

type Finish = Reporter["finish"];

const jsonReporter = ({ quiet }: ReporterStyle, { out }: Terminal): Reporter => {
  const write = (value: unknown) => void out.write(`${JSON.stringify(value)}\n`);
  const speed = createSpeed();
  const isDue = every(LINE_EVERY_MS);
  return {
    onProgress: (progress) => {
      const now = speed(progress);
      if (quiet || !isDue()) return;
      const { counts, lines, bytes, totalBytes = null } = progress;
      write({ type: "progress", lines, ...counts, bytes, totalBytes, ...now });
    },
    onProcessing: (processing) => {
      if (!quiet && isDue()) write({ type: "processing", ...processing });
    },
    onNote: (message) => {
      if (!quiet) write({ type: "note", message });
    },
    finish: write,
  };
};

const lineReporter = ({ name }: ReporterStyle, { err }: Terminal, finish: Finish): Reporter => {
  const speed = createSpeed();
  const isDue = every(LINE_EVERY_MS);
  return {
    onProgress: (progress) => {
      const { eventsPerSecond, etaSeconds } = speed(progress);
      if (!isDue()) return;
      const { counts, bytes, totalBytes } = progress;
      const share = totalBytes === undefined ? "" : `  ${percent(bytes, totalBytes)} %`;
      const eta = etaSeconds === null ? "" : `  eta ${duration(etaSeconds)}`;
      err.write(`${name}${share}  ${count(eventsPerSecond)} ev/s${eta}  ${countsText(counts)}\n`);
    },
    onProcessing: (processing) => {
      if (isDue()) err.write(`${name}  processing: ${processingText(processing)}\n`);
    },
    onNote: (text) => void err.write(`${text}\n`),
    finish,
  };
};

const processingText = ({ waiting, commits, eventsPerSecond }: Processing): string =>
  waiting === 0
    ? `${count(commits)} commits wait to be published`
    : `${count(waiting)} events wait  ${count(eventsPerSecond)} ev/s`;

const barReporter = ({ name }: ReporterStyle, { err }: Terminal, finish: Finish): Reporter => {
  const speed = createSpeed();
  let bar: SingleBar | undefined;
  let second: SingleBar | undefined;
  return {
    onProgress: (progress) => {
      const { eventsPerSecond, etaSeconds } = speed(progress);
      const { counts, lines, bytes, totalBytes } = progress;
      const payload = {
        rate: count(eventsPerSecond),
        left: etaSeconds === null ? "-" : duration(etaSeconds),
        counts: countsText(counts),
        lines: count(lines),
      };
      if (!bar) {
        bar = newBar(name, err, totalBytes !== undefined);
        bar.start(totalBytes ?? 0, 0, payload);
      }
      bar.update(bytes, payload);
    },
    onProcessing: (processing) => {
      const payload = { state: processingText(processing) };
      if (!second) {
        bar?.stop();
        second = processingBar(err);
        second.start(processing.most, 0, payload);
      }
      second.setTotal(processing.most);
      second.update(processing.most - processing.waiting, payload);
    },
    onNote: (text) => void err.write(`${(second ?? bar) ? "\r\u001b[K" : ""}${text}\n`),
    finish: (summary) => {
      (second ?? bar)?.stop();
      finish(summary);
    },
  };
};

const processingBar = (stream: NodeJS.WritableStream): SingleBar =>
  new SingleBar({ ...BAR, stream, format: "processing [{bar}] {percentage} %  {state}" });

const newBar = (name: string, stream: NodeJS.WritableStream, hasTotal: boolean): SingleBar =>
  new SingleBar({
    ...BAR,
    stream,
    format: hasTotal
      ? `${name} [{bar}] {percentage} %  {rate} ev/s  eta {left}  {counts}`
      : `${name}  {lines} lines  {rate} ev/s  {counts}`,
  });

type Speed = { eventsPerSecond: number; etaSeconds: number | null };

/**
 * Computes the rate since the start, and the remaining time by bytes since the first answer: lines skipped on
 * resuming are quick.
 */
const createSpeed = (): ((progress: Progress) => Speed) => {
  const startMs = performance.now();
  let first: { ms: number; bytes: number } | undefined;
  return ({ linesNow, bytes, totalBytes }) => {
    const ms = performance.now();
    first ??= { ms, bytes };
    const eventsPerSecond = Math.round(linesNow / Math.max(0.001, (ms - startMs) / 1_000));
    const bytesPerMs = (bytes - first.bytes) / (ms - first.ms);
    const leftMs =
      totalBytes === undefined || !(bytesPerMs > 0) ? undefined : (totalBytes - bytes) / bytesPerMs;
    return { eventsPerSecond, etaSeconds: leftMs === undefined ? null : Math.ceil(leftMs / 1_000) };
  };
};

/** Returns a function that is true once in each period, first at its end. */
export const every = (periodMs: number): (() => boolean) => {
  let lastMs = performance.now();
  return () => {
    const ms = performance.now();
    if (ms - lastMs < periodMs) return false;
    lastMs = ms;
    return true;
  };
};

export const count = (value: number): string => value.toLocaleString("en-US");

export const percent = (part: number, whole: number): number =>
  whole === 0 ? 100 : Math.floor((part / whole) * 100);

const countsText = ({ accepted, skipped, rejected }: Progress["counts"]): string =>
  `accepted ${count(accepted)}  skipped ${count(skipped)}  rejected ${count(rejected)}`;

const duration = (seconds: number): string => {
  if (seconds < 60) return `${seconds} s`;
  const minutes = Math.floor(seconds / 60);
  return minutes < 60
    ? `${minutes} min ${seconds % 60} s`
    : `${Math.floor(minutes / 60)} h ${minutes % 60} min`;
};

const PROCESSING_TEXTS: Readonly<Record<ProcessingEnd, (summary: ImportSummary) => string>> = {
  DONE: ({ processingSeconds }) =>
    `processed and published ${processingSeconds.toFixed(1)} s after the last answer`,
  WAITING: () => "the server goes on processing: GET /events/backlog says how far it is",
  STALLED: () =>
    "nothing was processed for two minutes: does a worker run? GET /events/backlog says what waits",
  UNKNOWN: () => "the server does not say how far it has processed the events",
};

/** Returns the final lines for people. */
export const summaryText = (summary: ImportSummary): string => {
  const { status, accepted, skipped, rejected, repeated, lines, seconds, eventsPerSecond } = summary;
  const counts = `${count(accepted)} accepted, ${count(skipped)} skipped, ${count(rejected)} rejected`;
  const speed = `${count(lines)} lines, ${seconds.toFixed(1)} s, ${count(eventsPerSecond)} events/s`;
  const text = [`${status}: ${counts} (${speed})`];
  if (summary.processing !== null) text.push(PROCESSING_TEXTS[summary.processing](summary));
  if (repeated > 0) {
    text.push(`${count(repeated)} of the skipped were in batches sent again because an answer was lost`);
  }
  if (summary.rejectedFile !== null) text.push(`rejected lines: ${summary.rejectedFile}`);
  if (summary.error !== null) text.push(status === "failed" ? `error: ${summary.error}` : summary.error);
  return text.join("\n");
};
