import { type RawBuilder, sql } from "kysely";

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
