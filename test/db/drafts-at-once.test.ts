import assert from "node:assert/strict";
import { sql } from "kysely";
import { RuleDocument } from "../../src/domain/evaluation/language/document.ts";
import { KEPT_MAX_BYTES } from "../../src/domain/kernel/limits.ts";
import { createRule } from "../../src/domain/rules/rules.ts";
import { startDatabase } from "../support/processes/services.ts";
import { madeOnce } from "../support/made.ts";
import { commitBeside } from "../support/races/uncommitted.ts";

const CONDITIONS = 40;

describe("drafts that are made at once", () => {
  const started = madeOnce(
    () => startDatabase(4),
    (made) => made.remove(),
  );

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
    const { domain } = started;
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
    const [two] = await commitBeside(
      started,
      (work) => createRule(work, projectId, aRule("one"), "test"),
      (work) => createRule(work, projectId, aRule("two"), "test"),
    );
    await assert.rejects(two!, { code: "CONFLICT", reason: "RULE_LIMIT" });
  });
});
