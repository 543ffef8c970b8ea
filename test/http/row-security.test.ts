import assert from "node:assert/strict";
import { sql } from "kysely";
import { once } from "node:events";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { z } from "zod";
import { ensurePartitions } from "../../src/domain/registries/retention.ts";
import type { RowScope, Transact, TransactAs } from "../../src/domain/kernel/work.ts";
import { route } from "../../src/http/route.ts";
import { createHttp } from "../../src/http/server.ts";
import { aTenant, startApp, type Tenant } from "../support/app/app.ts";
import { clientOf } from "../support/http/client.ts";
import { boardDefinition, ruleDocument, unique } from "../support/operations/bodies.ts";
import { madeOnce } from "../support/made.ts";

type Owner = { tenantId: string; projectId: string };

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
const assertWalled = async (transact: Transact): Promise<void> => {
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
const assertHidden = async (
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
        const { rows } = await sql<{ n: number }>`
          select count(*) as n from ${sql.ref(table)} where ${sql.ref(column)} = ${whose}::uuid`.execute(db);
        return rows[0]!.n;
      }).catch((error: Error) => {
        if (refused(error)) return 0;
        throw error;
      });
    assert.equal(await count(asOwn, id(other)), 0, `${table} shows rows of another`);
    const everything = await asOwn(({ db }) =>
      sql<{ id: string | null }>`
        select distinct ${sql.ref(column)}::text as id from ${sql.ref(table)}`.execute(db),
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
const assertAccountsOnly = async (transactAs: TransactAs): Promise<void> => {
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
const assertPartitionsShut = async (transact: Transact, transactAs: TransactAs): Promise<void> => {
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
const assertUnmovable = async (transact: Transact, transactAs: TransactAs, own: Owner): Promise<number> => {
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
const assertNoBackDoors = async (transact: Transact): Promise<void> => {
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

/** What a developer who forgets the filter might write. */
const forgetful = route({
  method: "get",
  path: "/forgetful",
  id: "forgetful",
  tag: "Test",
  summary: "All players",
  access: { scope: "players:read", roles: ["OWNER"] },
  project: "caller",
  response: z.object({ ids: z.array(z.string()) }),
  run: async ({ db }) => {
    const { rows } = await sql<{ project_id: string }>`select project_id from players`.execute(db);
    return { ids: [...new Set(rows.map((row) => row.project_id))] };
  },
});

/** Definitions and accounts, which stay few, and what is found by its webhook, which has one tenant. */
const KEYED_OTHERWISE = new Set([
  "api_keys",
  "rules",
  "leaderboards",
  "definitions",
  "webhooks",
  "webhook_deliveries",
]);

describe("keys of tables", () => {
  const api = madeOnce(startApp);

  it("are in each table, and those of a project's rows begin with the project", async () => {
    const rows = await api.sql<{ name: string; isKeyed: boolean; others: string[] }>`
      select c.relname as name, coalesce(bool_or(i.indisprimary), false) as "isKeyed",
        coalesce(array_agg(i.indexrelid::regclass::text) filter (where first.attname <> 'project_id'
          and exists (select from pg_attribute where attrelid = c.oid and attname = 'project_id')),
          '{}') as others
      from pg_class c
      left join pg_index i on i.indrelid = c.oid and i.indisunique
      left join pg_attribute first on first.attrelid = c.oid and first.attnum = i.indkey[0]
      where c.relnamespace = 'public'::regnamespace and c.relkind in ('r', 'p') and not c.relispartition
      group by c.relname`;
    assert.ok(rows.length > 60, `${rows.length} tables`);
    const wrong = rows.filter(
      ({ name, isKeyed, others }) => !isKeyed || (!KEYED_OTHERWISE.has(name) && others.length > 0),
    );
    assert.deepEqual(wrong, []);
  });
});

describe("row-level security", () => {
  const api = madeOnce(startApp);
  let own: Tenant;
  let other: Tenant;

  const fill = async ({ key, token }: Tenant): Promise<void> => {
    const externalUserId = unique("user");
    const webhook = { url: "http://127.0.0.1:9/hooks", events: ["player.*"] };
    await api.post("/api/v1/webhooks", webhook, { token });
    await api.post("/api/v1/webhook-events/test", { eventType: "player.level_up" }, { key });
    await api.post("/api/v1/rules", ruleDocument(), { key });
    const board = await api.post("/api/v1/leaderboards", boardDefinition(), { key });
    const player = await api.post("/api/v1/players", { externalUserId }, { key });
    await api.post(`/api/v1/players/${player.body.id}/xp`, { amount: 5 }, { key });
    const score = { playerId: player.body.id, score: 5 };
    await api.post(`/api/v1/leaderboards/${board.body.id}/scores`, score, { key });
    await api.post("/api/v1/events?wait=true", { externalUserId, eventType: "seen" }, { key });
  };

  before(async () => {
    [own, other] = [await aTenant(api), await aTenant(api)];
    for (const tenant of [own, other]) await fill(tenant);
  });

  it("is on for every table", () => assertWalled(api.app.transact));

  it("hides what belongs to another from statements that forget to filter, in every table", async () => {
    const seen = await assertHidden(api.app, own, other);
    assert.ok(seen >= 20, `only ${seen} tables had rows of the other`);
  });

  it("lets look-ups of accounts see no players", () => assertAccountsOnly(api.app.transactAs));

  it("lets no row be given to another", async () => {
    const tried = await assertUnmovable(api.app.transact, api.app.transactAs, own);
    assert.ok(tried >= 12, `only ${tried} tables had rows`);
  });

  it("has no way around it by a partition, those to come included", () =>
    assertPartitionsShut(api.app.transact, api.app.transactAs));

  it("has no way around it by functions, views, policies or roles", () =>
    assertNoBackDoors(api.app.transact));

  it("stands behind a route whose statement forgot to filter", async () => {
    const server = createServer(createHttp(api.app, [forgetful])).listen(0, "127.0.0.1");
    await once(server, "listening");
    const client = clientOf(`http://127.0.0.1:${(server.address() as AddressInfo).port}`);
    try {
      const answer = await client.get("/api/v1/forgetful", { key: own.key });
      assert.deepEqual(answer.body, { ids: [own.projectId] });
      const user = await client.get("/api/v1/forgetful", { token: other.token });
      assert.deepEqual(user.body, { ids: [other.projectId] });
    } finally {
      server.closeAllConnections();
      server.close();
    }
  });

  it("ends with its transaction, whatever became of it", async () => {
    const asOwn = api.app.transactAs({ role: "web", tenantId: own.tenantId, projectIds: [own.projectId] });
    await assert.rejects(
      asOwn(() => Promise.reject(new Error("undone"))),
      /undone/,
    );
    const rows = await api.sql<{ role: string; n: number }>`
      select current_user as role, (select count(distinct project_id) from players) as n`;
    assert.ok(!rows[0]!.role.startsWith("laurel_"));
    assert.ok(rows[0]!.n >= 2);
  });
});
