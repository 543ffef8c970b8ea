import assert from "node:assert/strict";
import { sql } from "kysely";
import { SNAPSHOT } from "../../src/domain/kernel/cursor.ts";
import { createTransact, NO_WAKE_UPS, type TransactParts } from "../../src/domain/kernel/transact.ts";
import { asOneMessage, unanswered } from "../../src/domain/kernel/statements.ts";
import { savepoint } from "../../src/domain/kernel/work.ts";
import type { Db } from "../../src/domain/kernel/db.ts";
import { type Database, openPostgres } from "../../src/platform/database.ts";
import { type Services, startServices } from "../support/processes/services.ts";
import { temporaryDir } from "../support/processes/process.ts";

describe("a transaction on PostgreSQL, with a scope or without", () => {
  let directory: Awaited<ReturnType<typeof temporaryDir>>;
  let services: Services;
  let database: Database;
  let parts: TransactParts;
  before(async () => {
    directory = await temporaryDir();
    services = await startServices(directory.path);
    database = await openPostgres(services.databaseUrl, 2);
    await database.em.getConnection().execute("create table marks (n int)");
    parts = {
      em: database.em,
      clock: () => new Date(),
      wakeUps: NO_WAKE_UPS,
      onError: (error) => assert.fail(String(error)),
    };
  });
  after(async () => {
    await database?.close();
    await services?.remove();
    await directory?.remove();
  });

  const mark = (db: Db) => sql`insert into marks values (${1}::int)`.execute(db);
  const marks = () =>
    createTransact(parts)(async ({ db }) => (await sql`select from marks`.execute(db)).rows);

  it("has begun before its first statement: what it did is undone", async () => {
    const undone = createTransact(parts)(async ({ db }) => {
      await mark(db);
      throw new Error("undo");
    });
    await assert.rejects(undone, /undo/);
    assert.deepEqual(await marks(), []);
  });

  it("is over when nothing was done in it", async () => {
    await createTransact(parts)(async () => undefined);
    await createTransact(parts)(({ db }) => mark(db));
    assert.equal((await marks()).length, 1);
    await database.em.getConnection().execute("truncate marks");
  });

  it("writes nothing where it asks for a snapshot to read", async () => {
    const writing = createTransact(parts)(async ({ db }) => {
      await asOneMessage(db, SNAPSHOT);
      await mark(db);
    });
    await assert.rejects(writing, { code: "25006" });
  });

  it("does nothing at all where its scope cannot be entered", async () => {
    const lost = createTransact(parts)(async ({ db }) => {
      await asOneMessage(db, sql`set local role laurel_nobody`);
      // The statement behind it is told of what failed first.
      await assert.rejects(mark(db), /laurel_nobody/);
    });
    await assert.rejects(lost, /laurel_nobody/);
    assert.deepEqual(await marks(), []);
  });

  /** Fails, and nobody waits for it. */
  const markWrong = (db: Db) => unanswered(db, sql`insert into marks values (${"x"}::text::int)`);

  it("fails as a whole, by its commit at the latest, when a statement nobody waits for does", async () => {
    const early = createTransact(parts)(async ({ db }) => {
      await markWrong(db);
      await mark(db);
    });
    await assert.rejects(early, /invalid input syntax for type integer/);
    const late = createTransact(parts)(async ({ db }) => {
      await mark(db);
      await markWrong(db);
    });
    await assert.rejects(late, /invalid input syntax for type integer/);
    assert.deepEqual(await marks(), []);
  });

  it("goes on behind a savepoint when one that nobody waits for fails in it", async () => {
    await createTransact(parts)(async (work) => {
      await assert.rejects(
        savepoint(work, () => markWrong(work.db)),
        /invalid input syntax/,
      );
      await mark(work.db);
    });
    assert.equal((await marks()).length, 1);
    await database.em.getConnection().execute("truncate marks");
  });

  it("does not pass for committed when a failure in it was caught", async () => {
    const caught = createTransact(parts)(async ({ db }) => {
      await mark(db);
      await sql`select ${"x"}::int`.execute(db).catch(() => undefined);
    });
    await assert.rejects(caught, /failed transaction/);
    assert.deepEqual(await marks(), []);
    // The connections are as good as new.
    await Promise.all([1, 2, 3].map(() => createTransact(parts)(({ db }) => mark(db))));
    assert.equal((await marks()).length, 3);
    await database.em.getConnection().execute("truncate marks");
  });
});
