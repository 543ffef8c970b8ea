import { get } from "node:http";
import type { Pool } from "./box.ts";
import type { Site } from "./setup.ts";
import { rounded, type Spread, spread, spreadText, table } from "./stats.ts";

const LINE_FEED = 0x0a;
/** What the first row of a file may take, in ms; what of the rate of COPY a file must keep. */
const GOALS = { firstRowMs: 200, ofCopy: 0.5 };

type Span = { from: string; to: string };
type File = { rows: number; bytes: number; firstRowMs: number; ms: number };

/** Reads a file of events to its end, or up to its first row. */
const readFile = (site: Site, query: Record<string, string>, isWhole: boolean): Promise<File> =>
  new Promise((resolve, reject) => {
    const startMs = performance.now();
    const search = new URLSearchParams({ report: "events", ...query }).toString();
    // A header is no row.
    const firstLine = query["format"] === "csv" ? 2 : 1;
    const file = { rows: 0, bytes: 0, firstRowMs: Number.NaN, ms: Number.NaN };
    // Nothing is compressed: COPY is not.
    const headers = { "X-API-Key": site.key, "Accept-Encoding": "identity" };
    const request = get(`${site.url}/api/v1/analytics/export?${search}`, { headers }, (response) => {
      if (response.statusCode !== 200) reject(new Error(`the export answers ${response.statusCode}`));
      response.on("data", (chunk: Buffer) => {
        file.bytes += chunk.length;
        for (let at = chunk.indexOf(LINE_FEED); at !== -1; at = chunk.indexOf(LINE_FEED, at + 1)) file.rows++;
        if (Number.isNaN(file.firstRowMs) && file.rows >= firstLine) {
          file.firstRowMs = performance.now() - startMs;
          if (!isWhole) {
            resolve(file);
            request.destroy();
          }
        }
      });
      response.on("end", () => {
        const { "x-export-rows": told } = response.trailers;
        file.rows -= firstLine - 1;
        if (Number(told) === file.rows) resolve({ ...file, ms: performance.now() - startMs });
        else reject(new Error(`${file.rows} rows, and not ${String(told)}`));
      });
      response.on("error", (error) => (isWhole ? reject(error) : undefined));
    });
    request.on("error", (error) => (isWhole || Number.isNaN(file.firstRowMs) ? reject(error) : undefined));
  });

/** Reads `COPY ... TO STDOUT` to its end, as pg's client takes it. Returns its bytes. */
const copyOut = async (pool: Pool, statement: string): Promise<number> => {
  const client = await pool.connect();
  let bytes = 0;
  let failure: Error | undefined;
  await new Promise<void>((resolve, reject) => {
    client.query({
      submit: (wire: { query(text: string): void }) => wire.query(statement),
      handleCopyData: ({ chunk }: { chunk: Buffer }) => void (bytes += chunk.length),
      handleCommandComplete: () => undefined,
      handleError: (error: Error) => void (failure = error),
      handleReadyForQuery: () => (failure ? reject(failure) : resolve()),
    });
  });
  client.release();
  return bytes;
};

const copyOf = (projectId: string, { from, to }: Span): string => `copy (
  select external_user_id, event_type, occurred_at, coalesce(idempotency_key, id::text), properties
  from tracked_events where project_id = '${projectId}'
    and occurred_at >= '${from}T00:00:00Z' and occurred_at < date '${to}' + interval '1 day'
  ) to stdout (format csv)`;

/** Of each format: ms to the first row of all, rows, and events a second beside those of COPY, in turns. */
export type ExportRate = {
  format: string;
  firstRowMs: Spread;
  rows: number;
  rate: Spread;
  copyRate: Spread;
  ofCopy: Spread;
};

/**
 * Reads events as files: the first row of all of them, and a week of them whole, in turns with the same rows
 * by `COPY … TO STDOUT`, in no order.
 */
export const measureExports = async (
  pool: Pool,
  site: Site,
  { all, week, rounds }: { all: Span; week: Span; rounds: number },
): Promise<ExportRate[]> => {
  const measured: ExportRate[] = [];
  for (const format of ["csv", "ndjson"]) {
    const [first, rates, copies]: [number[], number[], number[]] = [[], [], []];
    let rows = 0;
    for (let round = 0; round < rounds; round++) {
      first.push((await readFile(site, { format, ...all }, false)).firstRowMs);
      const file = await readFile(site, { format, ...week }, true);
      ({ rows } = file);
      rates.push((1_000 * rows) / file.ms);
      const startMs = performance.now();
      const bytes = await copyOut(pool, copyOf(site.projectId, week));
      if (bytes === 0) throw new Error("COPY gives nothing");
      copies.push((1_000 * rows) / (performance.now() - startMs));
    }
    const ofCopy = spread(rates.map((rate, i) => rate / copies[i]!));
    const found = { format, firstRowMs: spread(first), rows, rate: spread(rates), copyRate: spread(copies) };
    measured.push({ ...found, ofCopy });
  }
  return measured;
};

const said = (isMet: boolean, goal: number): string => `${isMet ? "met" : "MISSED"}: ${goal}`;

export const showExports = (rates: readonly ExportRate[]): void => {
  const heads = ["file", "first row ms", "goal", "rows", "rows/s", "COPY rows/s", "of COPY", "goal"];
  const lines = rates.map(({ format, firstRowMs, rows, rate, copyRate, ofCopy }) => [
    format,
    spreadText(firstRowMs),
    said(firstRowMs.median <= GOALS.firstRowMs, GOALS.firstRowMs),
    rounded(rows),
    rounded(rate.median),
    rounded(copyRate.median),
    spreadText(ofCopy),
    said(ofCopy.median >= GOALS.ofCopy, GOALS.ofCopy),
  ]);
  console.log(`\n${table(heads, lines)}\n`);
};
