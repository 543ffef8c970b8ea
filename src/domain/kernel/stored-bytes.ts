import { type RawBuilder, sql } from "kysely";

/**
 * Bytes of a jsonb column as it is stored, or as text where it is stored compressed: a list of nothings
 * compresses to a hundredth. What is parsed of them may take twenty times as much memory.
 */
export const storedBytes = (column: string): RawBuilder<number> =>
  sql.raw(`(case when pg_column_compression(${column}) is null
    then pg_column_size(${column}) else octet_length(${column}::text) end)`);
