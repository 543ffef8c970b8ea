import assert from "node:assert/strict";
import { join } from "node:path";
import { sql } from "kysely";
import { DEMO_CURVE } from "../../../src/cli/demo-game.ts";
import { buildCurve } from "../../../src/domain/evaluation/xp/levels.ts";
import { openEmbeddedDatabase } from "../../../src/platform/database.ts";
import { assertInvariants } from "../domain/invariants.ts";

type Counts = {
  events: number;
  keys: number;
  projects: number;
  tenants: number;
  players: number;
  tests: number;
};

/** What is in the database of a stopped server, after holding it against what is always true. */
export const examine = async (dataDir: string): Promise<Counts> => {
  const database = await openEmbeddedDatabase(join(dataDir, "pglite"));
  try {
    await assertInvariants(database.em, buildCurve(DEMO_CURVE));
    const result = await sql<Record<keyof Counts, string | number>>`
      select (select count(*) from tracked_events where idempotency_key like 'demo:%') as events,
        (select count(distinct idempotency_key) from tracked_events) as keys,
        (select count(*) from tracked_events where event_type = 'self_test') as tests,
        (select count(*) from projects) as projects, (select count(*) from tenants) as tenants,
        (select count(*) from players where display_name is not null) as players`.execute(
      database.em.fork().getKysely(),
    );
    const entries = Object.entries(result.rows[0]!).map(([name, value]) => [name, Number(value)]);
    return Object.fromEntries(entries) as Counts;
  } finally {
    await database.close();
  }
};

/** Puts the season into the past, as if this demo had last been started long ago. */
export const ageSeason = async (dataDir: string): Promise<void> => {
  const database = await openEmbeddedDatabase(join(dataDir, "pglite"));
  try {
    const past = JSON.stringify({ startsAt: "2026-01-01T00:00:00.000Z", endsAt: "2026-03-01T00:00:00.000Z" });
    const { numAffectedRows } = await sql`
      update definitions set definition = definition || ${past}::jsonb
      where kind = 'adventure' and key = 'season'`.execute(database.em.fork().getKysely());
    assert.equal(numAffectedRows, 2n);
  } finally {
    await database.close();
  }
};
