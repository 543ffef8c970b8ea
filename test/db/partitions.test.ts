import assert from "node:assert/strict";
import { sql } from "kysely";
import { linesOfPlayer } from "../support/app/player-lines.ts";
import { ensurePartitions } from "../../src/domain/registries/partitions.ts";
import { idFor, newId } from "../../src/domain/kernel/ids.ts";
import { eventually } from "../support/eventually.ts";
import { startDatabase } from "../support/processes/services.ts";
import { madeOnce } from "../support/made.ts";
import { migrateAlone } from "../support/domain/migrate-alone.ts";
import { findingsOf } from "../support/reverts/histories.ts";

const PARTITIONED = "20261123000002-weekly-partitions";

describe("a database whose streams were one table", () => {
  const started = madeOnce(
    () => startDatabase(4),
    (made) => made.remove(),
  );

  const migrate = (direction: "up" | "down") => migrateAlone(started.database, PARTITIONED, direction);

  it("keeps every line when they are divided by week, and when they are put together again", async () => {
    const { domain } = started;
    await migrate("down");
    const projectId = await domain.addProject();
    const playerId = await domain.addPlayer(projectId, "ada");
    const linesOf = () => domain.transact((work) => linesOfPlayer(work, { projectId, playerId }));
    await domain.grant(projectId, playerId, 10);
    const first = await linesOf();
    assert.ok(first.length > 0);
    await migrate("up");
    assert.deepEqual(await linesOf(), first);
    await domain.transact(ensurePartitions);
    await domain.grant(projectId, playerId, 20);
    await domain.relay();
    const both = await linesOf();
    assert.ok(both.length > first.length);
    await migrate("down");
    assert.deepEqual(await linesOf(), both);
    await domain.grant(projectId, playerId, 30);
    await migrate("up");
    assert.equal((await linesOf()).length, both.length + 1);
    assert.deepEqual(await findingsOf(domain, projectId), []);
  });

  it("keeps a line that is committed while they are put together again", async () => {
    const { database, domain } = started;
    const projectId = await domain.addProject();
    const playerId = await domain.addPlayer(projectId, "eve");
    await domain.grant(projectId, playerId, 10);
    const id = newId();
    const written = Promise.withResolvers<void>();
    const mayCommit = Promise.withResolvers<void>();
    const writing = database.em.fork().transactional(async (em) => {
      await sql`
        insert into outbox select (jsonb_populate_record(o, jsonb_build_object('id', ${id}::text,
          'player_id', null, 'player_seq', null))).*
        from outbox o where project_id = ${projectId}::uuid limit 1`.execute(em.getKysely());
      written.resolve();
      await mayCommit.promise;
    });
    await written.promise;
    const reverting = (async () => {
      await migrate("down");
    })();
    await eventually(async () => {
      const { rows } = await sql`
        select from pg_locks l join pg_database d on d.oid = l.database
        where not l.granted and d.datname = current_database()`.execute(database.em.fork().getKysely());
      return rows.length > 0;
    });
    mayCommit.resolve();
    await Promise.all([writing, reverting]);
    const { rows } = await sql`select from outbox where id = ${id}::uuid`.execute(
      database.em.fork().getKysely(),
    );
    assert.equal(rows.length, 1);
    await migrate("up");
  });

  it("is divided also when the clock was three weeks ahead for a while", async () => {
    const { database, domain } = started;
    await migrate("down");
    const projectId = await domain.addProject();
    const playerId = await domain.addPlayer(projectId, "zoe");
    await domain.grant(projectId, playerId, 10);
    const db = database.em.fork().getKysely();
    const id = idFor(Date.now() + 21 * 86_400_000, "ahead");
    await sql`update outbox set id = ${id}::uuid
      where id = (select id from outbox where project_id = ${projectId}::uuid limit 1)`.execute(db);
    await migrate("up");
    await domain.transact(ensurePartitions);
    const { rows } = await sql`select from outbox where id = ${id}::uuid`.execute(db);
    assert.equal(rows.length, 1);
    await sql`delete from outbox where id = ${id}::uuid`.execute(db);
  });

  it("is read by week alone where a row is looked up by its id", async () => {
    const { domain } = started;
    const plan = await domain.transact(async (work) => {
      await ensurePartitions(work);
      const { rows } = await sql<{ "QUERY PLAN": string }>`
        explain select from outbox where project_id = gen_random_uuid()
          and id = '019aaf00-0000-7000-8000-000000000000'`.execute(work.db);
      return rows.map((row) => row["QUERY PLAN"]).join("\n");
    });
    assert.equal(plan.match(/ on outbox/g)?.length, 1, plan);
  });
});
