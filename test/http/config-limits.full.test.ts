import assert from "node:assert/strict";
import { sql } from "kysely";
import {
  KEPT_MAX_BYTES,
  LARGE_BODY_PARTS_MAX,
  PROJECT_MAX_BYTES,
  RULE_MAX_BYTES,
} from "../../src/domain/kernel/limits.ts";
import { bytesOf } from "../../src/domain/kernel/oversize.ts";
import { countParts } from "../../src/http/json-parse.ts";
import { aTenant, type Answer, startApp, type Tenant } from "../support/app/app.ts";
import { assertError } from "../support/http/assert-error.ts";
import { must } from "../support/http/client.ts";
import { madeOnce } from "../support/made.ts";

type Item = { status: "ACTIVE" | "DRAFT"; rule: { key: string; conditions: object } };

const listOf = <T>(length: number, make: (n: number) => T): T[] => Array.from({ length }, (_, n) => make(n));

/** A rule of nearly as many bytes, and of as many names and values in them, as one may have. */
const aRule = (n: number, status: Item["status"]): Item => {
  const value = listOf(140, (i) => i % 10);
  const all = listOf(50, () => ({ type: "event_property", path: "p", op: "in", value }));
  const triggers = [{ kind: "EVENT", eventTypes: ["go"] }];
  const key = `${status.toLowerCase()}${n}`;
  const actions = [{ type: "grant_xp", amount: 1 }];
  return { status, rule: { key, name: "Rule", triggers, conditions: { all }, actions } as Item["rule"] };
};

describe("the configuration of a project at its limits", () => {
  const api = madeOnce(startApp);
  const tenant = madeOnce(() => aTenant(api));

  const importTo = ({ key }: Tenant, rules: readonly Item[]): Promise<Answer> =>
    api.post("/api/v1/config/import", { document: { format: "laurel/1", rules } }, { key });

  /** Bytes of the only rule there is, as they are counted. */
  const bytesOfStored = async (): Promise<number> =>
    api.app.transact(async ({ db }) => {
      const { rows } = await sql<{ bytes: number }>`
        select octet_length(draft::text) as bytes from rules
        where project_id = ${tenant.projectId}`.execute(db);
      return rows[0]!.bytes;
    });

  it("can be imported again as it was exported", async () => {
    assert.ok(bytesOf(aRule(0, "DRAFT")) <= RULE_MAX_BYTES);
    must(await importTo(tenant, [aRule(1_000, "ACTIVE")]), 200);
    const count = Math.floor(PROJECT_MAX_BYTES / (await bytesOfStored()));
    const [active, drafts] = [
      listOf(count, (n) => aRule(1_000 + n, "ACTIVE")),
      listOf(count, (n) => aRule(1_000 + n, "DRAFT")),
    ];
    must(await importTo(tenant, active), 200);
    assertError(await importTo(tenant, [aRule(2_000, "ACTIVE")]), 409, "DEFINITION_LIMIT");
    must(await importTo(tenant, drafts), 200);
    const few = listOf(3, (n) => aRule(2_000 + n, "DRAFT"));
    assertError(await importTo(tenant, few), 409, "DEFINITION_LIMIT");
    const one = few[0]!.rule;
    const answers: Answer[] = [];
    for (const { rule } of few) answers.push(await api.post("/api/v1/rules", rule, { key: tenant.key }));
    assertError(answers.at(-1)!, 409, "RULE_LIMIT");
    const small = { ...one, key: "small", conditions: { all: [] } };
    const { draftVersion } = must(await api.post("/api/v1/rules", small, { key: tenant.key }), 201);
    const grown = { draftVersion, conditions: one.conditions };
    assertError(await api.patch("/api/v1/rules/small", grown, { key: tenant.key }), 409, "RULE_LIMIT");

    const document = must(await api.get("/api/v1/config/export", { key: tenant.key }), 200);
    const text = JSON.stringify(document);
    const { parts } = countParts(Buffer.from(text), Infinity);
    assert.ok(
      parts > 2 * LARGE_BODY_PARTS_MAX && text.length > KEPT_MAX_BYTES / 2,
      `${parts}, ${text.length}`,
    );
    const other = await aTenant(api);
    const imported = must(await api.post("/api/v1/config/import", { document }, { key: other.key }), 200);
    assert.equal(imported.changes.length, document.rules.length);
    assert.deepEqual(must(await api.get("/api/v1/config/export", { key: other.key }), 200), document);
  });
});
