import type { EventType } from "./events/domain-events.ts";
import type { Json } from "./events/events.ts";
import { linesPart, newId, ranksPart } from "./ids.ts";
import { type RawBuilder, sql } from "kysely";

export type EmitOptions = {
  playerId?: string;
  playerSeq?: number;
  eventId?: string;
  /** The id of the row if it must be known; default: a new one. */
  id?: string;
};

/** A row of the outbox to be written. */
export type OutboxRow = {
  id: string;
  projectId: string;
  type: string;
  playerId: string | null;
  playerSeq: number | null;
  eventId: string | null;
  data: unknown;
  /** Of a row that holds several lines: how many; `playerSeq` is that of the last. */
  lines?: number;
};

export const outboxRow = (
  projectId: string,
  type: string,
  data: unknown,
  options: EmitOptions = {},
): OutboxRow => ({
  id: options.id ?? newId(),
  projectId,
  type,
  playerId: options.playerId ?? null,
  playerSeq: options.playerSeq ?? null,
  eventId: options.eventId ?? null,
  data,
});

/** Maximum number of lines that one row holds. */
export const PACKED_MAX = 16;

/** Types of lines that come several at once. Who reads such rows by SQL reads `OUTBOX_LINES`. */
const PACKED_TYPES: ReadonlySet<string> = new Set<EventType>(["quest.updated"]);

/** Returns the id of a line, from 0, of a row that holds several: the row's, but for its last byte. */
const lineId = (rowId: string, place: number): string =>
  rowId.slice(0, -2) + (place + 1).toString(16).padStart(2, "0");

const follows = (row: OutboxRow, before: OutboxRow): boolean =>
  before.playerSeq !== null &&
  row.playerSeq === before.playerSeq + 1 &&
  row.playerId === before.playerId &&
  row.eventId === before.eventId &&
  row.type === before.type &&
  row.projectId === before.projectId &&
  PACKED_TYPES.has(row.type);

const packed = (rows: readonly OutboxRow[]): OutboxRow => {
  const last = rows.at(-1)!;
  if (rows.length === 1) return last;
  return { ...last, data: { lines: rows.map(({ data }) => data) }, lines: rows.length };
};

/** Returns rows in which a player's lines of one kind that follow one another share a row. */
export const packLines = (rows: readonly OutboxRow[]): OutboxRow[] => {
  const all: OutboxRow[] = [];
  let open: OutboxRow[] = [];
  for (const row of rows) {
    const before = open.at(-1);
    if (before && (open.length === PACKED_MAX || !follows(row, before))) {
      all.push(packed(open));
      open = [];
    }
    open.push(row);
  }
  if (open.length > 0) all.push(packed(open));
  return all;
};

/** A row as it is read; `seq` is that of its last line. */
type StoredRow = { id: string; seq: number | null; lines: number | null };

/** A line of a row; `place`: among those of the row, null where it is the only one. */
export type Line = { id: string; seq: number | null; place: number | null };

/** Returns the lines of a row, oldest first: one where it does not hold several. */
export const linesOf = ({ id, seq, lines }: StoredRow): Line[] => {
  if (lines === null) return [{ id, seq, place: null }];
  const before = Number(seq) - lines;
  return Array.from({ length: lines }, (_, place) => ({
    id: lineId(id, place),
    seq: before + 1 + place,
    place,
  }));
};

/** Returns the data of a line out of that of its row; that of an erased row is empty. */
export const lineData = (data: Json, { place }: Pick<Line, "place">): Json =>
  place === null ? data : ((data["lines"] as Json[] | undefined)?.[place] ?? {});

/** The type of changes of boards. Versions decide, so they need no order. */
export const OF_RANKS = "leaderboard.entries_changed" satisfies EventType;

/** Returns the partition of a row; a player's lines share one, so that one relay sends them in order. */
export const outboxPart = ({
  type,
  playerId,
  projectId,
}: Pick<OutboxRow, "type" | "playerId" | "projectId">): number =>
  type === OF_RANKS ? ranksPart(projectId) : linesPart(playerId ?? projectId);

export type OutboxQueueRow = { project_id: string; part: number; ids: string[] };

/** Builds the queue rows that announce `rows`: one for each project and partition, ids in order. */
export const outboxQueueRows = (rows: readonly OutboxRow[]): OutboxQueueRow[] => {
  const byPart = new Map<string, OutboxQueueRow>();
  for (const row of rows) {
    const part = outboxPart(row);
    const key = `${row.projectId}:${part}`;
    const queued = byPart.get(key);
    if (queued) queued.ids.push(row.id);
    else byPart.set(key, { project_id: row.projectId, part, ids: [row.id] });
  }
  return [...byPart.values()];
};

type Sql = RawBuilder<unknown>;

/** Inserts outbox rows. @param rows a JSON list of `OutboxRow`s @param now time of creation */
export const insertOutbox = (rows: Sql, now: Sql): Sql => sql`
  insert into outbox (project_id, id, type, player_id, player_seq, event_id, data, lines, bytes, created_at)
  select "projectId", id, type, "playerId", "playerSeq", "eventId", data, lines, octet_length(data::text),
    ${now}
  from jsonb_to_recordset(${rows}::jsonb) as x("projectId" uuid, id uuid, type text, "playerId" uuid,
    "playerSeq" bigint, "eventId" uuid, data jsonb, lines smallint)`;

/** Inserts the queue rows of outbox rows. @param rows a JSON list of `OutboxQueueRow`s */
export const insertOutboxQueue = (rows: Sql): Sql => sql`
  insert into outbox_q (project_id, part, outbox_ids)
  select project_id, part, ids from json_to_recordset(${rows}::json)
    as x(project_id uuid, part smallint, ids uuid[])`;

/**
 * Returns the bytes of a jsonb column as stored, or as text where it is stored compressed: a list of nulls
 * compresses to a hundredth. Parsed, it may take twenty times as much memory.
 */
export const storedBytes = (column: string): RawBuilder<number> =>
  sql.raw(`(case when pg_column_compression(${column}) is null
    then pg_column_size(${column}) else octet_length(${column}::text) end)`);

/**
 * The outbox with a row for each line, to be named in a `from`: as the table, but for `bytes`, which are the
 * line's part of its row's. Conditions on project, player, event, type and time reach the indexes; those on
 * id and seq do not. A line that was erased has no data. As `linesOf` and `lineData` have it.
 */
export const OUTBOX_LINES: RawBuilder<unknown> = sql`(
  select s.project_id,
    case when s.lines is null then s.id
      else (left(s.id::text, 34) || lpad(to_hex(l.n), 2, '0'))::uuid end as id,
    s.type, s.player_id,
    case when s.lines is null then s.player_seq else s.player_seq - s.lines + l.n end as player_seq,
    s.event_id,
    case when s.lines is null then s.data else coalesce(s.data -> 'lines' -> (l.n - 1), '{}') end as data,
    s.created_at,
    case when s.lines is null then s.bytes else s.bytes / s.lines end as bytes
  from outbox s cross join lateral generate_series(1, coalesce(s.lines, 1)) as l(n))`;
