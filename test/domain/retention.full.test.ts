import { type Domain, findingsOf, openDomain, openMemoryDatabase } from "../support/domain/domain.ts";
import assert from "node:assert/strict";
import { sql } from "kysely";
import { idFloor, idFor, newId, NIL_ID } from "../../src/domain/kernel/ids.ts";
import { ensurePartitions } from "../../src/domain/registries/retention.ts";
import { retention } from "../../src/jobs/sweeps.ts";
import { startApp } from "../support/app/app.ts";
import { madeForEach } from "../support/made.ts";

const DAY_MS = 86_400_000;

describe("retention", () => {
  let domain: Domain;
  let nowMs: number;

  const database = madeForEach(openMemoryDatabase);
  beforeEach(async () => {
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
  const seqsOf = async (projectId: string): Promise<number[]> => {
    const rows = await domain.sql<{ seq: number }>`
      select player_seq as seq from outbox
      where project_id = ${projectId}::uuid and player_seq is not null order by 1`;
    return rows.map(({ seq }) => seq);
  };
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
  const executionsOf = async (projectId: string): Promise<number> => {
    const rows = await domain.sql`
      select from rule_executions where project_id = ${projectId}::uuid`;
    return rows.length;
  };
  const findings = (projectId: string) => findingsOf(domain, projectId);

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

  /** Adds rows of the time of the test, and of a day later: lines that are in no stream, and executions. */
  const addMany = (projectId: string, count: number, days = 0): Promise<unknown> =>
    domain.transact(async ({ db }) => {
      const atMs = nowMs + days * DAY_MS;
      const id = sql`(left(${idFloor(atMs)}, 24) || lpad(to_hex(n), 12, '0'))::uuid`;
      const at = sql`${new Date(atMs).toISOString()}::timestamptz`;
      await sql`
        insert into outbox (project_id, id, type, data, created_at)
        select ${projectId}::uuid, ${id}, 'rule.paused', '{}', ${at}
        from generate_series(1, ${count}::int) as n`.execute(db);
      await sql`
        insert into rule_executions
          (project_id, rule_id, id, rule_version, player_id, event_id, depth, mode, created_at)
        select ${projectId}::uuid, ${NIL_ID}::uuid, ${id}, 1, ${NIL_ID}::uuid, ${NIL_ID}::uuid, 0, 'LIVE',
          ${at}
        from generate_series(1, ${count}::int) as n`.execute(db);
    });
  const countOf = async (table: string, projectIds: readonly string[]): Promise<number> => {
    const rows = await domain.sql<{ n: number }>`
      select count(*) as n from ${sql.table(table)}
      where project_id = any(${`{${projectIds.join(",")}}`}::uuid[])`;
    return rows[0]!.n;
  };

  it("deletes what nobody keeps of weeks that began while no worker ran, and nothing else", async () => {
    const ids = [await domain.addProject(), await domain.addProject(), await domain.addProject()];
    const [waiting] = ids as [string, string, string];
    nowMs += 100 * DAY_MS;
    for (const projectId of ids) {
      await addMany(projectId, 700);
      await addMany(projectId, 5, 95);
    }
    await domain.sql`insert into outbox_q (project_id, part, outbox_ids)
      values (${waiting}::uuid, 0, array[${idFor(nowMs, "line")}]::uuid[])`;
    const counts = async () =>
      Promise.all(["outbox_default", "rule_executions_default"].map((table) => countOf(table, ids)));
    assert.deepEqual(await counts(), [2_115, 2_115]);
    await run();
    assert.deepEqual(await counts(), [2_115, 2_115]);
    nowMs += 95 * DAY_MS;
    await run();
    assert.deepEqual(await counts(), [715, 15], "lines that wait for the relay are left");
    await domain.sql`delete from outbox_q`;
    await run();
    assert.deepEqual(await counts(), [15, 15]);
  });

  it("deletes what a brief project no longer keeps of such weeks, as of others", async () => {
    const [brief, long] = [await domain.addProject(), await domain.addProject()];
    await setDays(brief, { activityDays: 7, executionsDays: 7 });
    await setDays(long, { activityDays: 400, executionsDays: 400 });
    nowMs += 100 * DAY_MS;
    for (const projectId of [brief, long]) await addMany(projectId, 3);
    // The oldest week that there is begins after the rows.
    nowMs += 30 * DAY_MS;
    await pass(0);
    await run();
    assert.deepEqual([await countOf("outbox", [brief]), await executionsOf(brief)], [0, 0]);
    assert.deepEqual([await countOf("outbox", [long]), await executionsOf(long)], [3, 3]);
  });

  it("refuses a second line of one number in a week of its own", async () => {
    const projectId = await domain.addProject();
    const playerId = await domain.addPlayer(projectId, "ada");
    await pass(21);
    await addLine(projectId, playerId);
    await domain.sql`update players set seq = seq - 1`;
    await assert.rejects(addLine(projectId, playerId), /unique constraint "outbox_\d{8}_player_key"/);
  });
});
