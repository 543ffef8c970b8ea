import assert from "node:assert/strict";
import type { SqlEntityManager } from "@mikro-orm/sql";
import { type RawBuilder, sql } from "kysely";
import { buildCurve, DEFAULT_CURVE, levelOf } from "../../src/domain/progression/levels.ts";

const one = async <T>(em: SqlEntityManager, query: RawBuilder<T>): Promise<T> =>
  (await query.execute(em.fork().getKysely())).rows[0]!;

const count = async (em: SqlEntityManager, query: RawBuilder<{ n: string | number }>): Promise<number> =>
  Number((await one(em, query)).n);

/** Holds a whole database, at rest, against what must always be true of it. */
export const assertInvariants = async (em: SqlEntityManager): Promise<void> => {
  const zero = async (what: string, query: RawBuilder<{ n: string | number }>) =>
    assert.equal(await count(em, query), 0, what);
  await zero("events left in the queue", sql`select count(*) as n from event_q`);
  await zero("events left for a retry", sql`select count(*) as n from event_due`);
  await zero("failed events", sql`select count(*) as n from event_results`);
  await zero("commits left in the outbox queue", sql`select count(*) as n from outbox_q`);
  await zero(
    "players whose XP is not the sum of their ledger",
    sql`select count(*) as n from players p where p.xp <> coalesce((select sum(amount) from ledger_entries l
      where l.project_id = p.project_id and l.player_id = p.id), 0)`,
  );
  await zero(
    "players whose ledger has gaps",
    sql`select count(*) as n from players p where p.ledger_seq <> (select count(*) from ledger_entries l
      where l.project_id = p.project_id and l.player_id = p.id)
      or p.ledger_seq <> coalesce((select max(seq) from ledger_entries l
        where l.project_id = p.project_id and l.player_id = p.id), 0)`,
  );
  await zero(
    "players whose stream has gaps",
    sql`select count(*) as n from players p where p.seq <> (select count(*) from outbox o
      where o.project_id = p.project_id and o.player_id = p.id and o.player_seq between 1 and p.seq)`,
  );
  await zero(
    "ledger gains that did not make exactly one player.xp_granted",
    sql`select count(*) as n from ledger_entries l where l.amount > 0 and 1 <> (select count(*) from outbox o
      where o.project_id = l.project_id and o.player_id = l.player_id and o.type = 'player.xp_granted'
      and o.data->>'ledgerEntryId' = l.id::text)`,
  );
  await zero(
    "players that were not announced exactly once",
    sql`select count(*) as n from players p where 1 <> (select count(*) from outbox o
      where o.project_id = p.project_id and o.player_id = p.id and o.type = 'player.created')`,
  );
  await assertLevels(em);
};

const assertLevels = async (em: SqlEntityManager): Promise<void> => {
  const rows = await sql<{
    xp: string | number;
    level: number;
  }>`select distinct xp, level from players`.execute(em.fork().getKysely());
  const curve = buildCurve(DEFAULT_CURVE);
  for (const { xp, level } of rows.rows) assert.equal(level, levelOf(curve, Number(xp)), `level at ${xp} XP`);
};
