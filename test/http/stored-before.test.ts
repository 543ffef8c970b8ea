import assert from "node:assert/strict";
import { sql } from "kysely";
import { changeConfig } from "../../src/domain/kernel/work.ts";
import { must } from "../support/http/client.ts";
import { eventuallyHolds } from "../support/eventually.ts";
import { ownRules } from "../support/rules/rules-api.ts";

/** Documents that no request could store today, as SQL expressions of one. */
const DOCUMENTS: Record<string, string> = {
  "so large that reading it takes seconds": `definition || jsonb_build_object('description',
    (select string_agg(md5(i::text), '') from generate_series(1, 20000) i))`,
  "of more conditions than any event may evaluate": `jsonb_set(definition, '{conditions,all}',
    (select jsonb_agg('{"type": "event_property", "path": "n", "op": "eq", "value": 1}'::jsonb)
      from generate_series(1, 60000)))`,
  "of a shape that nothing knows": `'{"priority": 5}'::jsonb`,
};

describe("a definition that was stored before there were bounds", () => {
  const { api, tenant, rules } = ownRules();

  const give = (key: string) => ({ key, actions: [{ type: "grant_xp", amount: 10 }] });
  const xpOf = async (user: string): Promise<number> =>
    must(await api.get(`/api/v1/players/ext:${user}`, { key: tenant.key }), 200).xp as number;
  const run = (statement: string) =>
    api.app.transact(async (work) => {
      await sql.raw(statement).execute(work.db);
      await changeConfig(work, tenant.projectId);
    });

  for (const [name, document] of Object.entries(DOCUMENTS)) {
    it(`is left out and paused, as a rule ${name}, and all others go on`, async () => {
      const { id } = await rules.publish(give("old"));
      await rules.publish(give("sound"));
      await run(`update rule_versions set definition = ${document} where rule_id = '${id}'`);
      await rules.track("u1");
      assert.equal(await xpOf("u1"), 10);
      await eventuallyHolds(async () => {
        const rows = await api.sql`select status, pause_reason from rules where id = ${id}`;
        assert.deepEqual(rows, [{ status: "PAUSED", pause_reason: "UNFIT" }]);
      });
      await rules.track("u2");
      assert.equal(await xpOf("u2"), 10);
    });
  }

  it("is left out as a segment, and all others go on", async () => {
    for (const key of ["old", "sound"])
      await rules.define("segments", { key, kind: "DYNAMIC", definition: { all: [] } });
    await rules.publish(give("gives"));
    const where = `where project_id = '${tenant.projectId}' and key = 'old'`;
    const deep = `(repeat('{"all":[', 1500) || repeat(']}', 1500))::jsonb`;
    await run(`update definitions set definition = jsonb_set(definition, '{definition}', ${deep}) ${where}`);
    await rules.track("u1");
    assert.equal(await xpOf("u1"), 10);
    await run(`update definitions set definition = jsonb_set(definition, '{definition}', '7') ${where}`);
    await rules.track("u2");
    assert.equal(await xpOf("u2"), 10);
    const segments = must(await api.get("/api/v1/players/ext:u2?include=segments", { key: tenant.key }), 200);
    assert.match(JSON.stringify(segments), /"sound"/);
  });
});
