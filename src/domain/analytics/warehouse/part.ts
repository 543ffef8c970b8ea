import { once } from "node:events";
import { createHash } from "node:crypto";
import { createGunzip, createGzip } from "node:zlib";
import { Readable } from "node:stream";
import { timeOfId } from "../../kernel/ids.ts";
import type { Line } from "./records.ts";

/** Streams of files in the order of ids: each has how far it has come. */
export const STREAMS = ["events", "ledger", "rewards"] as const;
export type Stream = (typeof STREAMS)[number];

/**
 * Kinds of files: events as they came; what changed of them since; merges of players; lines of the ledger
 * that belong to no event; grants of rewards, as they came and what changed of them since.
 */
export type PartKind = Stream | "changes" | "merges";

/** A file that is full. */
const ROWS_MAX = 20_000;
const BYTES_MAX = 32 * 1024 * 1024;
const HOUR_MS = 3_600_000;
/** Hexadecimal digits of the hash that are part of a name: with the ids, the name says the content. */
const HASH_DIGITS = 16;
/**
 * Digits of the lease, random ones, that are part of a name: what a worker does that wakes up after it lost
 * the project does not touch the files of others.
 */
const LEASE_DIGITS = 10;
const LINE_FEED = 0x0a;

/** A file as it is stored, gzip of a line for each record. */
export type Part = {
  kind: PartKind;
  path: string;
  rows: number;
  sha256: string;
  /** The smallest and the largest id in it. */
  fromId: string;
  toId: string;
  body: Buffer;
};

export const hourOf = (ms: number): number => Math.floor(ms / HOUR_MS);

/** The end of the hour in which an id was made, in ms. */
export const endOfHour = (id: string): number => (hourOf(timeOfId(id)) + 1) * HOUR_MS;

const pathOf = (kind: PartKind, { projectId, lease, atMs, fromId, toId, sha256 }: Named): string => {
  const [date, time] = new Date(atMs).toISOString().split("T");
  const hash = sha256.slice(0, HASH_DIGITS);
  const name = `part-${fromId}-${toId}-${hash}-${lease.slice(-LEASE_DIGITS)}.ndjson.gz`;
  return `${kind}/project_id=${projectId}/date=${date}/hour=${time!.slice(0, 2)}/${name}`;
};

/** A file of a project, which a worker writes under its lease, and the hour that it belongs to. */
export type Place = { projectId: string; lease: string; atMs: number };

type Named = Pick<Part, "fromId" | "toId" | "sha256"> & Place;

/**
 * Writes the lines of one file, in memory and compressed: it knows when it is full. Each line begins with the
 * version, which rises with each file of a project: of several records of one thing, the last one holds.
 */
export class PartWriter {
  readonly #gzip = createGzip();
  readonly #chunks: Buffer[] = [];
  readonly #hash = createHash("sha256");
  #bytes = 0;
  #fromId = "";
  #toId = "";
  #rows = 0;

  constructor() {
    this.#gzip.on("data", (chunk: Buffer) => {
      this.#chunks.push(chunk);
      this.#hash.update(chunk);
    });
  }

  get rows(): number {
    return this.#rows;
  }

  get isFull(): boolean {
    return this.#rows >= ROWS_MAX || this.#bytes >= BYTES_MAX;
  }

  async add(version: number, lines: readonly Line[]): Promise<void> {
    for (const { id, text } of lines) await this.addRaw(id, `{"version":${version},${text.slice(1)}`);
  }

  /** Adds a line that has its version. */
  async addRaw(id: string, line: string): Promise<void> {
    if (this.#fromId === "" || id < this.#fromId) this.#fromId = id;
    if (id > this.#toId) this.#toId = id;
    this.#rows++;
    this.#bytes += line.length;
    if (!this.#gzip.write(`${line}\n`)) await once(this.#gzip, "drain");
  }

  /** Ends the file. */
  async end(kind: PartKind, place: Place): Promise<Part> {
    this.#gzip.end();
    await once(this.#gzip, "end");
    const sha256 = this.#hash.digest("hex");
    const named = { ...place, fromId: this.#fromId, toId: this.#toId, sha256 };
    const { fromId, toId } = named;
    const body = Buffer.concat(this.#chunks);
    return { kind, path: pathOf(kind, named), rows: this.#rows, sha256, fromId, toId, body };
  }
}

/**
 * Reads the lines of a file. Only a line feed ends one: node:readline also takes U+2028 and U+2029 for ends,
 * which texts in JSON may have.
 */
export async function* linesOf(body: Buffer): AsyncGenerator<string> {
  let begun: Buffer[] = [];
  for await (const chunk of Readable.from([body]).pipe(createGunzip()) as AsyncIterable<Buffer>) {
    let from = 0;
    for (let end = chunk.indexOf(LINE_FEED); end !== -1; end = chunk.indexOf(LINE_FEED, from)) {
      yield Buffer.concat([...begun, chunk.subarray(from, end)]).toString();
      begun = [];
      from = end + 1;
    }
    begun.push(chunk.subarray(from));
  }
}
