import assert from "node:assert/strict";
import { sql } from "kysely";
import { ensurePartitions } from "../../../src/domain/registries/partitions.ts";
import type { RowScope, Transact, TransactAs } from "../../../src/domain/kernel/work.ts";

export type Owner = { tenantId: string; projectId: string };

/** The migrator's own, and what holds no tenant's rows. */
const WITHOUT_OWNER = new Set(["mikro_orm_migrations"]);

/**
 * Rows of a tenant whose project says what they are about, and not who may see them: requests about webhooks
 * are of no project, and a webhook may be told of all of them.
 */
const BY_TENANT_ALONE = new Set(["webhooks", "webhook_feeds", "webhook_events", "webhook_deliveries"]);

type Column = { table: string; column: string };

/** Every table with a column that says whose its rows are. */
const owned = async (transact: Transact): Promise<Column[]> =>
  transact(async ({ db }) => {
    const { rows } = await sql<Column>`
      select c.relname as "table", a.attname as "column" from pg_class c
      join pg_attribute a on a.attrelid = c.oid and a.attname in ('tenant_id', 'project_id')
      where c.relnamespace = 'public'::regnamespace and c.relkind in ('r', 'p') and not c.relispartition
      order by 1, 2`.execute(db);
    return rows.filter(({ table, column }) => column === "tenant_id" || !BY_TENANT_ALONE.has(table));
  });

const scopeOf = ({ tenantId, projectId }: Owner): RowScope => ({
  role: "web",
  tenantId,
  projectIds: [projectId],
});

const refused = (error: Error): boolean => /row-level security|permission denied/.test(error.message);

/** Every table is behind the wall, so a new one cannot be forgotten. */
export const assertWalled = async (transact: Transact): Promise<void> => {
  const { rows } = await transact(({ db }) =>
    sql<{ name: string }>`
      select relname as name from pg_class
      where relnamespace = 'public'::regnamespace and relkind in ('r', 'p') and not relispartition
        and not relrowsecurity order by 1`.execute(db),
  );
  assert.deepEqual(
    rows.map(({ name }) => name).filter((name) => !WITHOUT_OWNER.has(name)),
    [],
    "tables without row-level security",
  );
};

/**
 * Statements that name nobody see the rows of `own` alone, in every table; and none reaches those of `other`.
 * Gives the number of tables that were looked into.
 */
export const assertHidden = async (
  { transact, transactAs }: { transact: Transact; transactAs: TransactAs },
  own: Owner,
  other: Owner,
): Promise<number> => {
  const asOwn = transactAs(scopeOf(own));
  const tables = await owned(transact);
  let seen = 0;
  for (const { table, column } of tables) {
    const id = (owner: Owner) => (column === "tenant_id" ? owner.tenantId : owner.projectId);
    const count = async (who: Transact, whose: string): Promise<number> =>
      who(async ({ db }) => {
        const { rows } = await sql<{ n: string }>`
          select count(*) as n from ${sql.ref(table)} where ${sql.ref(column)} = ${whose}::uuid`.execute(db);
        return Number(rows[0]!.n);
      }).catch((error: Error) => {
        if (refused(error)) return 0;
        throw error;
      });
    assert.equal(await count(asOwn, id(other)), 0, `${table} shows rows of another`);
    const everything = await asOwn(({ db }) =>
      sql<{
        id: string | null;
      }>`select distinct ${sql.ref(column)}::text as id from ${sql.ref(table)}`.execute(db),
    ).catch((error: Error) => {
      if (refused(error)) return { rows: [] };
      throw error;
    });
    // Projects of one tenant share the tables of accounts.
    const strangers = everything.rows.filter((row) => row.id !== id(own));
    assert.deepEqual(strangers, [], `${table} shows rows of others`);
    if ((await count(transact, id(other))) > 0) seen++;
  }
  await assertUntouchable(asOwn, other);
  return seen;
};

/** Rows of another can be neither changed, nor deleted, nor made. */
const assertUntouchable = async (asOwn: Transact, other: Owner): Promise<void> => {
  const changed = await asOwn(async ({ db }) => {
    const updated = await sql`update players set xp = 0 where project_id = ${other.projectId}::uuid`.execute(
      db,
    );
    const deleted = await sql`delete from users where tenant_id = ${other.tenantId}::uuid`.execute(db);
    return Number(updated.numAffectedRows ?? 0) + Number(deleted.numAffectedRows ?? 0);
  });
  assert.equal(changed, 0);
  const insert = asOwn(({ db, now }) =>
    sql`insert into projects (id, tenant_id, name, created_at, updated_at)
      values (gen_random_uuid(), ${other.tenantId}::uuid, 'Mine', ${now.toISOString()}::timestamptz,
        ${now.toISOString()}::timestamptz)`.execute(db),
  );
  await assert.rejects(insert, /row-level security/);
};

/** Look-ups of accounts never see what players did. */
export const assertAccountsOnly = async (transactAs: TransactAs): Promise<void> => {
  for (const table of ["players", "tracked_events", "ledger_entries", "outbox", "rules", "leaderboards"]) {
    const read = transactAs({ role: "accounts" })(({ db }) =>
      sql`select 1 from ${sql.ref(table)} limit 1`.execute(db),
    );
    await assert.rejects(read, /permission denied/, table);
  }
};

/**
 * A partition has no wall of its own, so no request may name one: neither those that there are, nor those
 * that will be made.
 */
export const assertPartitionsShut = async (transact: Transact, transactAs: TransactAs): Promise<void> => {
  const { rows } = await transact(async (work) => {
    const later = new Date(work.now.getTime() + 60 * 86_400_000);
    await ensurePartitions({ ...work, now: later });
    return sql<{ name: string }>`
      select relname as name from pg_class
      where relnamespace = 'public'::regnamespace and relispartition and relkind = 'r'`.execute(work.db);
  });
  assert.ok(rows.length >= 8, `${rows.length} partitions`);
  const scopes: RowScope[] = [{ role: "accounts" }, { role: "web", tenantId: "", projectIds: [] }];
  for (const { name } of rows)
    for (const scope of scopes) {
      const read = transactAs(scope)(({ db }) => sql`select 1 from ${sql.ref(name)} limit 1`.execute(db));
      await assert.rejects(read, /permission denied/, `${name} as ${scope.role}`);
    }
};

/** A row cannot be given away: neither to another tenant nor to another project. */
export const assertUnmovable = async (
  transact: Transact,
  transactAs: TransactAs,
  own: Owner,
): Promise<number> => {
  let tried = 0;
  for (const { table, column } of await owned(transact)) {
    const mine = column === "tenant_id" ? own.tenantId : own.projectId;
    const move = transactAs(scopeOf(own))(async ({ db }) => {
      const moved = await sql`
        update ${sql.ref(table)} set ${sql.ref(column)} = gen_random_uuid()
        where ${sql.ref(column)} = ${mine}::uuid`.execute(db);
      return Number(moved.numAffectedRows ?? 0);
    });
    const moved = await move.catch((error: Error) => {
      if (refused(error)) return -1;
      throw error;
    });
    assert.ok(moved <= 0, `${moved} rows of ${table} were given away`);
    if (moved < 0) tried++;
  }
  return tried;
};

/** What a request's role may run or reach besides tables: nothing that acts with another's rights. */
export const assertNoBackDoors = async (transact: Transact): Promise<void> => {
  const { rows } = await transact(({ db }) =>
    sql<{ name: string }>`
      select proname as name from pg_proc where pronamespace = 'public'::regnamespace and prosecdef
      union all
      select relname from pg_class where relnamespace = 'public'::regnamespace
        and relkind in ('v', 'm', 'f')
      union all
      select rolname from pg_roles where rolname in ('laurel_web', 'laurel_accounts')
        and (rolsuper or rolbypassrls or rolcreaterole or rolcreatedb or rolcanlogin)
      union all
      select tablename || ' has a policy for everybody' from pg_policies
      where schemaname = 'public' and not (roles <@ array['laurel_web', 'laurel_accounts']::name[])`.execute(
      db,
    ),
  );
  assert.deepEqual(rows, []);
};
