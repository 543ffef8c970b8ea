import assert from "node:assert/strict";
import { type RawBuilder, sql } from "kysely";
import { existsSync, readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { gunzipSync } from "node:zlib";
import { type DuckDBConnection, DuckDBInstance } from "@duckdb/node-api";
import type { App } from "../../../src/app.ts";
import type { WarehouseStore } from "../../../src/domain/analytics/warehouse/store.ts";
import { insertWarehouseChanges } from "../../../src/domain/kernel/events/warehouse-changes.ts";
import type { Transact } from "../../../src/domain/kernel/work.ts";
import { createExportWarehouse } from "../../../src/jobs/warehouse.ts";
import type { Database } from "../../../src/platform/database.ts";
import { createDirectoryStore } from "../../../src/platform/warehouse/directory.ts";
import { startApp } from "../app/app.ts";
import { type Domain, openDomain, openMemoryDatabase } from "../domain/domain.ts";
import { temporaryDir } from "../processes/process.ts";
import { aHistoryProject, play } from "../reverts/histories.ts";
import { blocksOf, textOf } from "../documents/documents.ts";

/** Writes all that there is to write, also what came just now. @throws what the job would log */
export const exportNow = async (app: App, store: WarehouseStore): Promise<void> => {
  const errors: unknown[] = [];
  const log = Object.create(app.log, {
    error: { value: ({ err }: { err: unknown }) => errors.push(err) },
  }) as App["log"];
  const warehouse = { store: async () => store, everyMs: -60_000, lagMs: -60_000 };
  await createExportWarehouse().run({ ...app, log, warehouse }, "*");
  if (errors.length > 0) throw new AggregateError(errors, String(errors[0]));
};

/** The files below a directory, by their path in it; gzip is undone. */
export const filesIn = (root: string): Map<string, string> => {
  const paths = readdirSync(root, { recursive: true, withFileTypes: true })
    .filter((entry) => entry.isFile())
    .map((entry) => join(entry.parentPath, entry.name));
  return new Map(
    paths.map((path) => {
      const body = readFileSync(path);
      return [path.slice(root.length + 1), (path.endsWith(".gz") ? gunzipSync(body) : body).toString()];
    }),
  );
};

/** What a test reads of an entry of the manifest. */
type Entry = {
  kind: string;
  path: string;
  rows: number;
  bytes: number;
  sha256: string;
  replaces: string | null;
};

/** The entries of the manifest of a directory, by project and in order. */
export const manifestIn = (root: string): Entry[] => {
  const folder = join(root, "manifest");
  return [...(existsSync(folder) ? filesIn(folder) : [])]
    .filter(([path]) => path.endsWith(".json"))
    .toSorted(([a], [b]) => (a < b ? -1 : 1))
    .map(([, text]) => JSON.parse(text) as Entry);
};

type Row = Record<string, unknown>;

/** A warehouse that is loaded as the guide says, with the statements of the guide. */
export type Warehouse = {
  /** Loads what is fresh. */
  load(): Promise<void>;
  /** Rows of a query. */
  ask(query: string): Promise<Row[]>;
  close(): void;
};

/** The statements of the guide: those of its files, `once` and `load`, or those that it shows. */
export const statementsOf = (name: string): string => {
  if (["once", "load"].includes(name)) return textOf(`docs/examples/warehouse-${name}.sql`);
  const found = blocksOf(textOf("docs/guides/warehouse.md")).filter(
    ({ info }) => info === `sql duckdb ${name}`,
  );
  assert.equal(found.length, 1, name);
  return found[0]!.text;
};

/** @param root the directory of the files */
export const openWarehouse = async (root: string): Promise<Warehouse> => {
  const instance = await DuckDBInstance.create(":memory:", { threads: "1" });
  const connection: DuckDBConnection = await instance.connect();
  await connection.run("set timezone = 'UTC'");
  await connection.run(statementsOf("once"));
  const load = statementsOf("load").replace("/var/lib/laurel/warehouse", root);
  return {
    load: async () => {
      try {
        await connection.run(load);
      } catch (error) {
        await connection.run("rollback").catch(() => undefined);
        throw error;
      }
    },
    ask: async (query) => (await connection.runAndReadAll(query)).getRowObjectsJson(),
    close: () => {
      connection.closeSync();
      instance.closeSync();
    },
  };
};

/** Parts of a worker that misbehave. */
export type Parts = { store?: WarehouseStore; transact?: Transact };

/** A database, and a warehouse in a directory that workers write, by a clock of the test. */
type WarehouseStage = {
  domain: Domain;
  /** The directory. */
  root: string;
  warehouse: Warehouse;
  nowMs: number;
  /** The app of a worker that writes the warehouse; it logs errors to `errors`. */
  worker(parts?: Parts): Promise<{ app: App; errors: unknown[] }>;
  /** Ten minutes later, a worker comes to it. Returns what it has logged. */
  run(parts?: Parts): Promise<unknown[]>;
  /** At this moment, a worker comes to it. */
  runNow(parts?: Parts): Promise<unknown[]>;
  exportAll(): Promise<void>;
  /** The parts of an event that is played now. */
  game(score: number): { at: Date; properties: { score: number; game: string } };
  /** A project with files of one event each. */
  aProjectWith(files: number): Promise<{ projectId: string; ids: string[] }>;
  /** Takes from events what identifies a person, as an erasure does. */
  erase(projectId: string, ids: readonly string[]): Promise<void>;
  /** Asserts that the directory has the files that are listed and not replaced, and no others. */
  assertListed(): void;
};

/** Opens a stage for each test of a `describe`. */
export const warehouseStage = (): WarehouseStage => {
  const stage = {} as WarehouseStage;
  let database: Database;
  let dir: Awaited<ReturnType<typeof temporaryDir>>;
  beforeEach(async () => {
    database = await openMemoryDatabase();
    stage.nowMs = Date.now();
    stage.domain = openDomain(database, () => new Date(stage.nowMs));
    dir = await temporaryDir();
    stage.root = dir.path;
    stage.warehouse = await openWarehouse(dir.path);
  });
  afterEach(async () => {
    stage.warehouse.close();
    await database.close();
    await dir.remove();
  });

  const worker: WarehouseStage["worker"] = async ({
    store = createDirectoryStore(stage.root),
    transact = stage.domain.transact,
  } = {}) => {
    const { app } = await startApp();
    const errors: unknown[] = [];
    const log = Object.create(app.log, {
      error: { value: ({ err }: { err: unknown }) => errors.push(err) },
    }) as App["log"];
    const warehouse = { store: async () => store, everyMs: 300_000, lagMs: 120_000 };
    return { app: { ...app, log, clock: () => new Date(stage.nowMs), transact, warehouse }, errors };
  };
  const runNow: WarehouseStage["runNow"] = async (parts) => {
    const { app, errors } = await worker(parts);
    await createExportWarehouse().run(app, "*");
    return errors;
  };
  const run: WarehouseStage["run"] = (parts) => {
    stage.nowMs += 600_000;
    return runNow(parts);
  };
  const exportAll = async (): Promise<void> => {
    assert.deepEqual([...(await run()), ...(await run())], []);
  };
  const game = (score: number) => ({ at: new Date(stage.nowMs), properties: { score, game: "a" } });
  return Object.assign(stage, {
    worker,
    run,
    runNow,
    exportAll,
    game,
    aProjectWith: async (files: number) => {
      const projectId = await aHistoryProject(stage.domain, { boards: [] });
      await run();
      const ids: string[] = [];
      for (let n = 0; n < files; n++) {
        ids.push(...(await play(stage.domain, projectId, { user: "ada", events: [game(n % 10)] })));
        assert.deepEqual(await run(), []);
      }
      assert.equal(manifestIn(stage.root).length, files);
      return { projectId, ids };
    },
    erase: (projectId: string, ids: readonly string[]) =>
      stage.domain.transact(async ({ db }) => {
        const refs = sql`unnest(${`{${ids.join(",")}}`}::uuid[])`;
        await sql`update tracked_events set properties = '{}'
          where project_id = ${projectId}::uuid and id in (select ${refs})`.execute(db);
        await insertWarehouseChanges(projectId, "ERASED", sql`select ${refs} as ref`).execute(db);
      }),
    assertListed: () => {
      const listed = manifestIn(stage.root);
      const replaced = new Set(listed.map(({ replaces }) => replaces));
      const due = listed.map(({ path }) => path).filter((path) => !replaced.has(path));
      const there = [...filesIn(stage.root).keys()].filter((path) => !path.startsWith("manifest/"));
      assert.deepEqual(there.toSorted(), due.toSorted());
    },
  });
};

const byText = (rows: readonly unknown[]): string[] => rows.map((row) => JSON.stringify(row)).toSorted();

/**
 * Asserts that the warehouse has the events of a project with their effects, and what belongs to no event, as
 * the database has them. @returns the number of events
 */
export const assertLoaded = async (
  { transact }: { transact: Transact },
  warehouse: Warehouse,
  projectId: string,
): Promise<number> => {
  const read = (query: RawBuilder<Row>): Promise<Row[]> =>
    transact(async ({ db }) => (await query.execute(db)).rows);
  const stored = await read(sql<Row>`
    select e.id::text as id, e.event_type as type, e.external_user_id as "user", p.id::text as player,
      (extract(epoch from e.occurred_at) * 1000)::bigint::text as at,
      (extract(epoch from e.received_at) * 1000)::bigint::text as received, e.idempotency_key as key,
      e.properties, coalesce(r.status, 'PROCESSED') as status, r.error
    from tracked_events e
    left join players p on p.project_id = e.project_id and p.external_user_id = e.external_user_id
    left join event_results r on r.project_id = e.project_id and r.event_id = e.id
    where e.project_id = ${projectId}::uuid`);
  const loaded = await warehouse.ask(`
    select "eventId" as id, "eventType" as type, "externalUserId" as user, "playerId" as player,
      epoch_ms("occurredAt")::varchar as at, epoch_ms("receivedAt")::varchar as received,
      "idempotencyKey" as key, "properties" as properties, "status" as status, "error" as error
    from events where "projectId" = '${projectId}'`);
  assert.deepEqual(
    byText(loaded.map((row) => ({ ...row, properties: JSON.parse(String(row["properties"])) as unknown }))),
    byText(stored),
  );
  await assertEffects(read, warehouse, projectId);
  await assertGiven(read, warehouse, projectId);
  return stored.length;
};

type Read = (query: RawBuilder<Row>) => Promise<Row[]>;

const assertEffects = async (read: Read, warehouse: Warehouse, projectId: string): Promise<void> => {
  const lists = await warehouse.ask(`
    select "eventId" as id, "effects" as effects, "ledger" as ledger from events
    where "projectId" = '${projectId}'`);
  const of = (name: string): Row[] =>
    lists.flatMap((row) =>
      (JSON.parse(String(row[name])) as Row[]).map((one) => ({ event: row["id"], ...one })),
    );
  const told = await read(sql<Row>`
    select event_id::text as event, id::text, type, player_id::text as player, data from outbox
    where project_id = ${projectId}::uuid and player_seq is not null and event_id in (
      select id from tracked_events where project_id = ${projectId}::uuid)`);
  assert.deepEqual(
    byText(
      of("effects").map(({ event, id, type, playerId: player, data }) => ({ event, id, type, player, data })),
    ),
    byText(told),
  );
  const lines = await read(sql<Row>`
    select event_id::text as event, player_id::text as player, seq::int, asset, currency_key as currency,
      amount::float8, balance_after::float8 as after, cause->>'ruleKey' as rule
    from ledger_entries where project_id = ${projectId}::uuid and event_id in (
      select id from tracked_events where project_id = ${projectId}::uuid)`);
  assert.deepEqual(
    byText(
      of("ledger").map((one) => ({
        event: one["event"],
        player: one["playerId"],
        seq: one["seq"],
        asset: one["asset"],
        currency: one["currency"],
        amount: one["amount"],
        after: one["balanceAfter"],
        rule: one["ruleKey"],
      })),
    ),
    byText(lines),
  );
};

const assertGiven = async (read: Read, warehouse: Warehouse, projectId: string): Promise<void> => {
  const lines = await read(sql<Row>`
    select id::text, player_id::text as player, seq::text, asset, currency_key as currency, amount::text,
      balance_after::text as after, cause->>'kind' as kind, cause->>'refKey' as ref, reverses::text,
      (extract(epoch from created_at) * 1000)::bigint::text as at
    from ledger_entries where project_id = ${projectId}::uuid and event_id is null`);
  const loaded = await warehouse.ask(`
    select "lineId" as id, "playerId" as player, "seq"::varchar as seq, "asset" as asset,
      "currency" as currency, "amount"::varchar as amount, "balanceAfter"::varchar as after, "kind" as kind,
      "refKey" as ref, "reverses" as reverses, epoch_ms("at")::varchar as at
    from ledger where "projectId" = '${projectId}'`);
  assert.deepEqual(byText(loaded), byText(lines));
  const strays = await read(sql<Row>`
    select id from ledger_entries l where l.project_id = ${projectId}::uuid and l.event_id is not null
      and not exists (
        select from tracked_events e where e.project_id = l.project_id and e.id = l.event_id)`);
  assert.deepEqual(strays, [], "each line belongs to an event that there is, or to none");
  // Files name players as they were.
  const grants = await read(sql<Row>`
    select g.id::text, g.player_id::text as player, g.reward_key as reward, g.quantity::text, g.status,
      g.event_id::text as event, (extract(epoch from g.updated_at) * 1000)::bigint::text as at
    from reward_grants g where g.project_id = ${projectId}::uuid`);
  const given = await warehouse.ask(`
    select "grantId" as id, coalesce(m."targetPlayerId", r."playerId") as player, "rewardKey" as reward,
      "quantity"::varchar as quantity, "status" as status, "eventId" as event,
      epoch_ms("updatedAt")::varchar as at
    from rewards r left join merges m on m."sourcePlayerId" = r."playerId"
    where r."projectId" = '${projectId}'`);
  // A merge of players is no change of a grant.
  const merged = new Set(
    (await warehouse.ask(`select "targetPlayerId" as id from merges`)).map(({ id }) => id),
  );
  const comparable = (rows: readonly Row[]): string[] =>
    byText(rows.map((row) => (merged.has(row["player"]) ? { ...row, at: "" } : row)));
  assert.deepEqual(comparable(given), comparable(grants));
};
