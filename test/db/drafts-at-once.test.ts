import assert from "node:assert/strict";
import { sql } from "kysely";
import { RuleDocument } from "../../src/domain/evaluation/language/document.ts";
import { KEPT_MAX_BYTES } from "../../src/domain/kernel/limits.ts";
import { createRule } from "../../src/domain/rules/rules.ts";
import { eventually } from "../support/eventually.ts";
import { type StartedDatabase, startDatabase } from "../support/processes/services.ts";

const CONDITIONS = 40;

describe("drafts that are made at once", function () {
  this.timeout(60_000);
  let started: StartedDatabase;
  before(async () => {
    started = await startDatabase(4);
  });
  after(() => started.remove());

  /** Of some twenty kilobytes. */
  const aRule = (key: string) =>
    RuleDocument.parse({
      key,
      name: key,
      triggers: [{ kind: "EVENT", eventTypes: ["lesson.completed"] }],
      conditions: {
        all: Array.from({ length: CONDITIONS }, (_, n) => ({
          type: "event_property",
          path: `p${n}`,
          op: "eq",
          value: `${n}${"x".repeat(450)}`,
        })),
      },
      actions: [{ type: "grant_xp", amount: 1 }],
    });

  it("are together no more than a project may keep", async () => {
    const { database, domain } = started;
    const projectId = await domain.addProject();
    const { transact } = domain;
    await transact((work) => createRule(work, projectId, aRule("first"), "test"));
    // Room for one more of the size, and not for two.
    await transact(({ db }) =>
      sql`
        insert into rules (project_id, id, key, name, status, draft, draft_version, created_by, created_at,
          updated_at)
        select project_id, gen_random_uuid(), 'r' || n, name, status, draft, draft_version, created_by,
          created_at, updated_at
        from rules, generate_series(1, ${KEPT_MAX_BYTES} / draft_bytes - 2) as n
        where project_id = ${projectId}::uuid`.execute(db),
    );
    const isMade = Promise.withResolvers<void>();
    const mayCommit = Promise.withResolvers<void>();
    const one = transact(async (work) => {
      await createRule(work, projectId, aRule("one"), "test");
      isMade.resolve();
      await mayCommit.promise;
    });
    await isMade.promise;
    let isOver = false;
    const two = transact((work) => createRule(work, projectId, aRule("two"), "test")).finally(() => {
      isOver = true;
    });
    await eventually(async () => {
      if (isOver) return true;
      const { rows } = await sql`
        select from pg_locks l join pg_database d on d.oid = l.database
        where not l.granted and d.datname = current_database()`.execute(database.em.fork().getKysely());
      return rows.length > 0;
    });
    mayCommit.resolve();
    await one;
    await assert.rejects(two, { code: "CONFLICT", reason: "RULE_LIMIT" });
  });
});
