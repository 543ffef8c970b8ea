import { type RawBuilder, sql } from "kysely";

/**
 * Returns the bytes of a jsonb column as stored, or as text where it is stored compressed: a list of nulls
 * compresses to a hundredth. Parsed, it may take twenty times as much memory.
 */
export const storedBytes = (column: string): RawBuilder<number> =>
  sql.raw(`(case when pg_column_compression(${column}) is null
    then pg_column_size(${column}) else octet_length(${column}::text) end)`);
