import { createHash } from "node:crypto";
import { once } from "node:events";
import { Readable } from "node:stream";
import { createGunzip, createGzip } from "node:zlib";
import { type RawBuilder, sql } from "kysely";
import { timeOfId } from "../../kernel/ids.ts";
import { OUTBOX_LINES, storedBytes } from "../../kernel/outbox.ts";
import type { Work } from "../../kernel/work.ts";
import { EVENT_STATUS, STATUS_JOINS } from "../../tracking/events.ts";

/** Records that one statement reads, and the bytes of their properties and effects as stored. */
const RECORDS_AT_ONCE = 500;
const BYTES_AT_ONCE = 4 * 1024 * 1024;

/** A line of a file without its version; `id` is that of its event or merge. */
export type Line = { id: string; text: string };

/** An instant as text: ISO 8601 with ms, in UTC. */
export const iso = (of: string): RawBuilder<string> =>
  sql.raw(`to_char(${of} at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"')`);

/** What players were told, which is what an event shows as its effects. */
const EFFECTS = sql`coalesce((
  select json_agg(json_build_object('id', o.id, 'type', o.type, 'playerId', o.player_id, 'seq', o.player_seq,
    'at', ${iso("o.created_at")}, 'data', o.data) order by o.id)
  from ${OUTBOX_LINES} o
  where o.project_id = e.project_id and o.event_id = e.id and o.player_seq is not null), '[]')`;

const LEDGER = sql`coalesce((
  select json_agg(json_build_object('playerId', l.player_id, 'seq', l.seq, 'asset', l.asset,
    'currency', l.currency_key, 'amount', l.amount, 'balanceAfter', l.balance_after,
    'kind', l.cause->>'kind', 'ruleKey', l.cause->>'ruleKey', 'at', ${iso("l.created_at")})
    order by l.player_id, l.seq)
  from ledger_entries l where l.project_id = e.project_id and l.event_id = e.id), '[]')`;

const LINE = sql`json_build_object(
  'eventId', e.id, 'projectId', e.project_id, 'eventType', e.event_type,
  'playerId', p.id, 'externalUserId', e.external_user_id,
  'occurredAt', ${iso("e.occurred_at")}, 'receivedAt', ${iso("e.received_at")},
  'source', case when e.event_type = 'system.schedule' then 'SCHEDULE'
    when starts_with(e.event_type, 'system.') then 'SYSTEM' else 'API' end,
  'idempotencyKey', e.idempotency_key, 'properties', e.properties,
  'status', ${EVENT_STATUS}, 'error', r.error, 'effects', ${EFFECTS}, 'ledger', ${LEDGER})::text`;

const BYTES = sql`${storedBytes("e.properties")} + coalesce((
  select sum(coalesce(o.bytes, octet_length(o.data::text))) from ${OUTBOX_LINES} o
  where o.project_id = e.project_id and o.event_id = e.id and o.player_seq is not null), 0)`;

/** Reads the records of the events that `where` selects, by id, as many as fit into a page. */
const readLines = async ({ db }: Work, projectId: string, where: RawBuilder<unknown>): Promise<Line[]> => {
  const { rows } = await sql<Line>`
    with page as materialized (
      select e.id, ${BYTES} as bytes from tracked_events e
      where e.project_id = ${projectId}::uuid and ${where}
      order by e.id limit ${sql.lit(RECORDS_AT_ONCE)}),
    summed as (select id, bytes, sum(bytes) over (order by id) as upto from page)
    select e.id::text as id, ${LINE} as text
    from summed s
    join tracked_events e on e.project_id = ${projectId}::uuid and e.id = s.id
    left join players p on p.project_id = e.project_id and p.external_user_id = e.external_user_id
    ${STATUS_JOINS}
    where s.upto <= ${sql.lit(BYTES_AT_ONCE)} or s.upto = s.bytes
    order by e.id`.execute(db);
  return rows;
};

/** A page of ids: after one and before another. */
export type IdPage = { after: string; until: string };

/** Reads the records of a page of events by id; none: it was the last. */
export const readEventLines = (work: Work, projectId: string, { after, until }: IdPage): Promise<Line[]> =>
  readLines(work, projectId, sql`e.id > ${after}::uuid and e.id < ${until}::uuid`);

/** Reads the records of some of the events; the others are left for the next call. */
export const readLinesOf = (work: Work, projectId: string, eventIds: readonly string[]): Promise<Line[]> =>
  readLines(work, projectId, sql`e.id = any(${`{${eventIds.join(",")}}`}::uuid[])`);

/** Returns the ids behind those that were read; without any, none of the rest exists. */
export const restAfter = (ids: readonly string[], read: readonly Line[]): string[] => {
  const last = read.at(-1)?.id;
  return last === undefined ? [] : ids.filter((id) => id > last);
};

/** Reads the records of merges. */
export const readMergeLines = async (
  { db }: Work,
  projectId: string,
  ids: readonly string[],
): Promise<Line[]> => {
  const { rows } = await sql<Line>`
    select m.id::text as id, json_build_object('mergeId', m.id, 'projectId', m.project_id,
      'sourcePlayerId', m.source_id, 'targetPlayerId', m.target_id,
      'at', ${iso("m.created_at")})::text as text
    from player_merges m
    where m.project_id = ${projectId}::uuid and m.id = any(${`{${ids.join(",")}}`}::uuid[])
    order by m.id`.execute(db);
  return rows;
};

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

const hourOf = (ms: number): number => Math.floor(ms / HOUR_MS);

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
