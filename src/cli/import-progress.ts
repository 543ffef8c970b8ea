import type { ImportOutcome, ImportWatch, Progress } from "./import-run.ts";
import type { Processing, ProcessingEnd, WaitOptions } from "./import-client.ts";
import { count, createProgressLine, every, percent, type Terminal } from "./progress.ts";

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

export type Reporter = Pick<ImportWatch, "onProgress" | "onNote"> &
  Pick<WaitOptions, "onProcessing"> & { finish(summary: ImportSummary): void };

type ReporterStyle = { json: boolean; quiet: boolean; name: string };

/** Creates a reporter: lines of progress on `err` and a summary on `out`, or all as JSON lines on `out`. */
export const createReporter = ({ json, quiet, name }: ReporterStyle, { out, err }: Terminal): Reporter => {
  const line = createProgressLine(err);
  const isDue = every();
  const speed = createSpeed();
  const write = (value: object) => void out.write(`${JSON.stringify(value)}\n`);
  const show = (value: () => object, text: () => string): void => {
    if (quiet) return;
    if (!json) line.show(text);
    else if (isDue()) write(value());
  };
  return {
    onProgress: (progress) => {
      const now = speed(progress);
      const { counts, lines, bytes, totalBytes = null } = progress;
      show(
        () => ({ type: "progress", lines, ...counts, bytes, totalBytes, ...now }),
        () => `${name}  ${progressText(progress, now)}`,
      );
    },
    onProcessing: (processing) =>
      show(
        () => ({ type: "processing", ...processing }),
        () => `${name}  processing: ${processingText(processing)}`,
      ),
    onNote: (message) => {
      if (quiet) return;
      if (json) return write({ type: "note", message });
      line.clear();
      err.write(`${message}\n`);
    },
    finish: (summary) => {
      line.clear();
      if (json) write(summary);
      else out.write(`${summaryText(summary)}\n`);
    },
  };
};

const progressText = (
  { counts, bytes, totalBytes }: Progress,
  { eventsPerSecond, etaSeconds }: Speed,
): string => {
  const { accepted, skipped, rejected } = counts;
  const parts = [
    ...(totalBytes === undefined ? [] : [percent(bytes, totalBytes)]),
    `${count(eventsPerSecond)} ev/s`,
    ...(etaSeconds === null ? [] : [`eta ${duration(etaSeconds)}`]),
    `accepted ${count(accepted)}  skipped ${count(skipped)}  rejected ${count(rejected)}`,
  ];
  return parts.join("  ");
};

const processingText = ({ waiting, commits, eventsPerSecond }: Processing): string =>
  waiting === 0
    ? `${count(commits)} commits wait to be published`
    : `${count(waiting)} events wait  ${count(eventsPerSecond)} ev/s`;

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
    const isKnown = totalBytes !== undefined && bytesPerMs > 0;
    return {
      eventsPerSecond,
      etaSeconds: isKnown ? Math.ceil((totalBytes - bytes) / bytesPerMs / 1_000) : null,
    };
  };
};

const duration = (seconds: number): string =>
  seconds < 100 ? `${seconds} s` : `${Math.round(seconds / 60)} min`;

const PROCESSING_TEXTS: Readonly<Record<ProcessingEnd, (summary: ImportSummary) => string>> = {
  DONE: ({ processingSeconds }) =>
    `processed and published ${processingSeconds.toFixed(1)} s after the last answer`,
  WAITING: () => "the server goes on processing: GET /events/backlog says how far it is",
  STALLED: () =>
    "nothing was processed for two minutes: does a worker run? GET /events/backlog says what waits",
  UNKNOWN: () => "the server does not say how far it has processed the events",
};

/** Returns the final lines for people. */
const summaryText = (summary: ImportSummary): string => {
  const { status, accepted, skipped, rejected, repeated, lines, seconds, eventsPerSecond } = summary;
  const counts = `${count(accepted)} accepted, ${count(skipped)} skipped, ${count(rejected)} rejected`;
  const speed = `${count(lines)} lines, ${seconds.toFixed(1)} s, ${count(eventsPerSecond)} events/s`;
  const text = [`${status}: ${counts} (${speed})`];
  if (summary.processing !== null) text.push(PROCESSING_TEXTS[summary.processing](summary));
  if (repeated > 0)
    text.push(`${count(repeated)} of the skipped were in batches sent again because an answer was lost`);
  if (summary.rejectedFile !== null) text.push(`rejected lines: ${summary.rejectedFile}`);
  if (summary.error !== null) text.push(status === "failed" ? `error: ${summary.error}` : summary.error);
  return text.join("\n");
};
