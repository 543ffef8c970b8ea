import assert from "node:assert/strict";
import { CompiledQuery } from "kysely";
import type { Database } from "../../src/platform/database.ts";
import { memoryDomain } from "../support/domain/domain.ts";
import { postgresDomain } from "../support/processes/services.ts";

const VALUES: Readonly<Record<string, unknown>> = {
  "7::int": 7,
  "7::bigint": 7,
  "-9007199254740991::bigint": -9_007_199_254_740_991,
  "null::bigint": null,
  "(select count(*) from generate_series(1, 3))": 3,
  "(select sum(n) from generate_series(1, 3) n)": 6,
  "(select sum(n::bigint) from generate_series(1, 3) n)": 6,
  "1234.567890::numeric": 1234.56789,
  "'2026-01-31T12:00:00.123+02'::timestamptz": new Date("2026-01-31T10:00:00.123Z"),
  "'0850-06-01T12:00:00Z'::timestamptz": new Date("0850-06-01T12:00:00Z"),
  "null::timestamptz": null,
  "'2026-01-31'::date": "2026-01-31",
  "json_build_array(7::bigint, '2026-01-31T12:00:00Z'::timestamptz)": [7, "2026-01-31T12:00:00+00:00"],
};
const TOO_LARGE = "select 9007199254740992::bigint";

type Run = (text: string) => Promise<unknown[]>;

/** Every way in which rows are read. */
const waysOf = ({ em, readAs }: Database): Record<string, Run> => ({
  kysely: async (text) => (await em.fork().getKysely().executeQuery(CompiledQuery.raw(text))).rows,
  transaction: (text) =>
    em.fork().transactional(async (tx) => (await tx.getKysely().executeQuery(CompiledQuery.raw(text))).rows),
  ORM: (text) => em.fork().execute(text),
  ...(readAs && { message: (text) => readAs()({ text, values: [] }) }),
});

describe("values in rows", () => {
  const embedded = memoryDomain();
  const server = postgresDomain(1);

  for (const [engine, started] of Object.entries({ PGlite: embedded, PostgreSQL: server }))
    it(`arrive alike from ${engine}, whichever way they are read`, async () => {
      for (const [way, run] of Object.entries(waysOf(started.database))) {
        for (const [of, value] of Object.entries(VALUES))
          assert.deepEqual(await run(`select ${of} as value`), [{ value }], `${of} by ${way}`);
        await assert.rejects(run(TOO_LARGE), /too many digits/, way);
      }
    });
});
