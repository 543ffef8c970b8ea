import assert from "node:assert/strict";
import { sql } from "kysely";
import { idFor, newId } from "../../src/domain/kernel/ids.ts";
import { ensurePartitions, partitionsOf } from "../../src/domain/registries/partitions.ts";
import { reconcile } from "../../src/domain/registries/reconcile/reconcile.ts";
import { retention } from "../../src/jobs/retention.ts";
import type { Database } from "../../src/platform/database.ts";
import { startApp } from "../support/app/app.ts";
import { type Domain, openDomain } from "../support/domain/domain.ts";
import { openMemoryDatabase } from "../support/domain/memory-database.ts";

const DAY_MS = 86_400_000;

describe("retention", function () {
  this.timeout(60_000);
  let database: Database;
  let domain: Domain;
  let nowMs: number;

  beforeEach(async () => {
    database = await openMemoryDatabase();
    nowMs = Date.now();
    domain = openDomain(database, () => new Date(nowMs));
  });
  afterEach(() => database.close());

  const pass = async (days: number): Promise<void> => {
    nowMs += days * DAY_MS;
    await domain.transact(ensurePartitions);
  };
  const run = async (): Promise<void> => {
    const { app } = await startApp();
    await retention.run({ ...app, transact: domain.transact }, "*");
  };
  const setDays = (projectId: string, settings: object, plan = "ENTERPRISE") =>
    domain.transact(async ({ db }) => {
      await sql`update projects set settings = ${JSON.stringify(settings)}::jsonb
        where id = ${projectId}::uuid`.execute(db);
      await sql`update tenants set plan = ${plan} from projects p
        where p.tenant_id = tenants.id and p.id = ${projectId}::uuid`.execute(db);
    });
  const seqsOf = (projectId: string): Promise<number[]> =>
    domain.transact(async ({ db }) => {
      const { rows } = await sql<{ seq: string | number }>`
        select player_seq as seq from outbox
        where project_id = ${projectId}::uuid and player_seq is not null order by 1`.execute(db);
      return rows.map(({ seq }) => Number(seq));
    });
  /** Adds the next line of a player at the time of the test: ids of the process follow its own clock. */
  const addLine = (projectId: string, playerId: string): Promise<unknown> =>
    domain.transact(({ db, now }) =>
      sql`with p as (
          update players set seq = seq + 1 where project_id = ${projectId}::uuid and id = ${playerId}::uuid
          returning seq)
        insert into outbox (project_id, id, type, player_id, player_seq, data, created_at)
        select ${projectId}::uuid, ${idFor(nowMs, newId())}::uuid, 'player.level_up', ${playerId}::uuid, seq,
          '{}', ${now.toISOString()}::timestamptz from p`.execute(db),
    );
  const addExecution = (projectId: string, ruleId: string): Promise<unknown> =>
    domain.transact(({ db, now }) =>
      sql`insert into rule_executions
          (project_id, rule_id, id, rule_version, player_id, event_id, depth, mode, created_at)
        values (${projectId}::uuid, ${ruleId}::uuid, ${idFor(nowMs, newId())}::uuid, 1, ${newId()}::uuid,
          ${newId()}::uuid, 0, 'LIVE', ${now.toISOString()}::timestamptz)`.execute(db),
    );
  const executionsOf = (projectId: string): Promise<number> =>
    domain.transact(async ({ db }) => {
      const { rows } = await sql`
        select from rule_executions where project_id = ${projectId}::uuid`.execute(db);
      return rows.length;
    });
  const oldestWeek = async (table: string) => (await domain.transact(({ db }) => partitionsOf(db, table)))[0];
  const findings = async (projectId: string): Promise<unknown[]> => {
    const found: unknown[] = [];
    await reconcile(domain.transact, { projectId, repair: false, onFinding: (one) => void found.push(one) });
    return found;
  };

  it("drops weeks of streams after 30 days and of executions after 90, and keeps later ones", async () => {
    const projectId = await domain.addProject();
    const playerId = await domain.addPlayer(projectId, "ada");
    const ruleId = newId();
    await domain.grant(projectId, playerId, 10);
    await addExecution(projectId, ruleId);
    await domain.relay();
    await pass(60);
    await addLine(projectId, playerId);
    await addExecution(projectId, ruleId);
    const before = await seqsOf(projectId);
    await run();
    const left = await seqsOf(projectId);
    assert.equal(before[0], 1);
    assert.ok(left.length > 0 && left.length < before.length, left.join());
    assert.equal(left.at(-1), before.at(-1));
    assert.notEqual((await oldestWeek("outbox"))?.name, "outbox_before");
    assert.equal(await executionsOf(projectId), 2);
    await pass(60);
    await run();
    assert.deepEqual(await seqsOf(projectId), []);
    assert.equal(await executionsOf(projectId), 1);
    assert.deepEqual(await findings(projectId), [], "what is kept still agrees");
  });

  it("drops no week while lines of it wait for the relay", async () => {
    const projectId = await domain.addProject();
    await domain.grant(projectId, await domain.addPlayer(projectId, "ada"), 10);
    const lines = await seqsOf(projectId);
    await pass(60);
    await run();
    assert.deepEqual(await seqsOf(projectId), lines);
    await domain.relay();
    await run();
    assert.deepEqual(await seqsOf(projectId), []);
  });

  it("deletes older rows of a project that keeps less than others, and none of those", async () => {
    const [brief, long] = [await domain.addProject(), await domain.addProject()];
    await setDays(brief, { activityDays: 7, executionsDays: 7 });
    await setDays(long, { activityDays: 400, executionsDays: 400 });
    const lines = new Map<string, number[]>();
    for (const projectId of [brief, long]) {
      await domain.grant(projectId, await domain.addPlayer(projectId, "ada"), 10);
      await addExecution(projectId, newId());
      lines.set(projectId, await seqsOf(projectId));
    }
    await domain.relay();
    await pass(6);
    await run();
    assert.deepEqual(await seqsOf(brief), lines.get(brief));
    assert.equal(await executionsOf(brief), 1);
    await pass(60);
    await run();
    assert.deepEqual([await seqsOf(brief), await executionsOf(brief)], [[], 0]);
    assert.deepEqual([await seqsOf(long), await executionsOf(long)], [lines.get(long), 1]);
    assert.deepEqual(await findings(long), []);
  });

  it("keeps nothing for longer than the plan allows", async () => {
    const projectId = await domain.addProject();
    await setDays(projectId, { activityDays: 400, executionsDays: 400 }, "FREE");
    await domain.grant(projectId, await domain.addPlayer(projectId, "ada"), 10);
    await addExecution(projectId, newId());
    await domain.relay();
    await pass(60);
    await run();
    assert.deepEqual([await seqsOf(projectId), await executionsOf(projectId)], [[], 1]);
    await pass(60);
    await run();
    assert.equal(await executionsOf(projectId), 0);
  });

  it("refuses a second line of one number in a week of its own", async () => {
    const projectId = await domain.addProject();
    const playerId = await domain.addPlayer(projectId, "ada");
    await pass(21);
    await addLine(projectId, playerId);
    await domain.transact(({ db }) => sql`update players set seq = seq - 1`.execute(db));
    await assert.rejects(addLine(projectId, playerId), /unique constraint "outbox_\d{8}_player_key"/);
  });
});
