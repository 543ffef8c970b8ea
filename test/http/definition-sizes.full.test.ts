import assert from "node:assert/strict";
import { sql } from "kysely";
import { COUNTERS_MAX, PROJECT_MAX_BYTES, RULE_MAX_BYTES } from "../../src/domain/kernel/limits.ts";
import { bytesOf } from "../../src/domain/kernel/hostile-json.ts";
import { aTenant, startApp } from "../support/app/app.ts";
import { assertError } from "../support/http/assert-error.ts";
import { must } from "../support/http/client.ts";
import { unique } from "../support/operations/bodies.ts";
import { aLessonRule, reasonOf, RULES, rulesOf } from "../support/rules/rules-api.ts";
import { madeForEach, madeOnce } from "../support/made.ts";

type Json = Record<string, unknown>;

/** A rule with about `bytes` bytes of texts, none of which is too long by itself. */
const aRuleOf = (bytes: number, more: Json = {}): Json => {
  const texts = Array.from({ length: Math.ceil(bytes / 900) }, (_, i) =>
    "x".repeat(Math.min(900, bytes - i * 900)),
  );
  const actions = Array.from({ length: Math.ceil(texts.length / 50) }, (_, i) => ({
    type: "emit_event",
    eventType: "told",
    channels: ["rules"],
    properties: Object.fromEntries(texts.slice(i * 50, i * 50 + 50).map((text, j) => [`p${j}`, text])),
  }));
  return aLessonRule({ actions, ...more });
};

/** A segment with about `bytes` bytes of texts. */
const aSegmentOf = (bytes: number, key = "large"): Json => {
  const texts = Array.from({ length: Math.ceil(bytes / 100) }, (_, i) =>
    "x".repeat(Math.min(100, bytes - i * 100)),
  );
  const path = { type: "player_property", field: "attributes.a", op: "in" };
  const all = Array.from({ length: Math.ceil(texts.length / 50) }, (_, i) => ({
    ...path,
    value: texts.slice(i * 50, i * 50 + 50),
  }));
  return { key, name: "Large", kind: "DYNAMIC", definition: { all } };
};

describe("the size of definitions", () => {
  const api = madeOnce(startApp);
  const tenant = madeForEach(() => aTenant(api));
  let key: string;
  beforeEach(() => {
    key = tenant.key;
  });
  const post = (path: string, body: unknown) => api.post(`/api/v1/${path}`, body, { key });
  const validity = async (rule: Json): Promise<boolean> =>
    must(await post("rules/validate", rule), 200).valid;
  /** A rule that has just as many bytes as it may have, and one more for each of `more`. */
  const theLargest = async (ruleKey: string, more = 0): Promise<Json> => {
    const rule = aRuleOf(31_000, { key: ruleKey, description: "" });
    const { draft } = must(await post("rules", { ...rule, key: `${ruleKey}${unique("")}` }), 201);
    const room = RULE_MAX_BYTES - bytesOf({ ...draft, key: ruleKey });
    return { ...rule, description: "x".repeat(room + more) };
  };

  it("of a rule is bounded to the byte, whichever way it comes", async () => {
    const { description } = await theLargest("base", 1);
    const most = must(await post("rules", await theLargest("most")), 201);
    assert.equal(bytesOf(most.draft), RULE_MAX_BYTES);
    const tooMany = await theLargest("more", 1);
    assertError(await post("rules", tooMany), 400, "TOO_LARGE");
    assert.equal(await validity(await theLargest("more")), true);
    assert.equal(await validity(tooMany), false);

    must(await post("rules", aRuleOf(31_000, { key: "base" })), 201);
    assertError(
      await api.patch(`${RULES}/base`, { draftVersion: 1, description }, { key }),
      400,
      "TOO_LARGE",
    );
    // What was as large as it may be can be sent whole, and copied under a key that is no longer.
    const again = { ...most.draft, draftVersion: 1 };
    must(await api.patch(`${RULES}/most`, again, { key }), 200);
    assertError(await post("rules/most/duplicate", {}), 400, "TOO_LARGE");
    must(await post("rules/most/duplicate", { key: "mos2", name: "A lesson" }), 201);

    const importOf = (rule: unknown) =>
      post("config/import", { document: { format: "laurel/1", rules: [{ status: "ACTIVE", rule }] } });
    assertError(await importOf(tooMany), 400, "TOO_LARGE");
    assertError(await api.get(`${RULES}/more`, { key }), 404);
    must(await importOf({ ...most.draft, key: "imp1" }), 200);
  });

  it("is bounded for rules that are only tried", async () => {
    const simulation = (rule: Json) => ({
      event: { eventType: "lesson.completed" },
      player: { snapshot: {} },
      inline: [aLessonRule({ key: "small" }), rule],
    });
    must(await post("rules/simulate", simulation(aRuleOf(30_000))), 200);
    const refused = await post("rules/simulate", simulation(aRuleOf(60_000)));
    assertError(refused, 400);
    assert.match(refused.body.error.details[0].field, /^inline\.1\.actions/);
    assert.equal(await validity(aRuleOf(900_000)), false);
  });

  it("is bounded for a rule that was larger before, and it goes on running", async () => {
    const rules = rulesOf(api, tenant);
    const { id } = await rules.publish();
    await api.app.transact(async ({ db }) => {
      const large = JSON.stringify(aRuleOf(40_000)["actions"]);
      await sql`update rules
        set draft = draft || jsonb_build_object('actions', ${large}::jsonb)
        where id = ${id}`.execute(db);
      await sql`update rule_versions
        set definition = (select draft from rules where id = ${id})
        where rule_id = ${id}`.execute(db);
    });
    must(await rules.act(id, "pause"), 200);
    must(await rules.act(id, "resume"), 200);
    assert.equal((await rules.track("u1")).status, "PROCESSED");
    assert.equal(reasonOf(await rules.act(id, "publish"))[1], "TOO_LARGE");
    assertError(
      await api.patch(`${RULES}/${id}`, { draftVersion: 1, name: "Other" }, { key }),
      400,
      "TOO_LARGE",
    );
    must(
      await api.patch(`${RULES}/${id}`, { draftVersion: 1, actions: aLessonRule()["actions"] }, { key }),
      200,
    );
    must(await rules.act(id, "publish"), 200);
  });

  it("of a segment is bounded when it is made, changed and imported", async () => {
    must(await post("segments", aSegmentOf(25_000)), 201);
    assertError(await post("segments", aSegmentOf(40_000, "larger")), 400);
    const { definition } = aSegmentOf(40_000);
    assertError(await api.patch("/api/v1/segments/large", { definition }, { key }), 400);
    const document = {
      format: "laurel/1",
      segments: [{ key: "larger", name: "Larger", kind: "DYNAMIC", definition }],
    };
    assertError(await post("config/import", { document }), 400);
    assert.equal(must(await api.get("/api/v1/segments", { key }), 200).data.length, 1);
  });

  it("of all that runs in a project is bounded, and what shrinks it is let through", async () => {
    const { id } = must(await post("segments", aSegmentOf(25_000, "first")), 201);
    must(await post("segments", aSegmentOf(25_000, "second")), 201);
    const copies = Math.floor(PROJECT_MAX_BYTES / 25_000);
    await api.sql`insert into definitions (id, project_id, kind, key, name, definition, status, version, created_by,
        created_at, updated_at)
      select gen_random_uuid(), project_id, kind, 'copy' || n, name, definition, status, version,
        created_by,
        created_at, updated_at from definitions, generate_series(1, ${copies}::int) n
      where id = ${id}`;
    assertError(await post("segments", aSegmentOf(100, "third")), 409, "DEFINITION_LIMIT");
    assertError(
      await api.patch("/api/v1/segments/first", { name: "A longer name" }, { key }),
      409,
      "DEFINITION_LIMIT",
    );
    const { definition } = aSegmentOf(24_000);
    must(await api.patch("/api/v1/segments/first", { definition }, { key }), 200);
    const board = {
      key: "b",
      name: "Board",
      metric: { source: "XP" },
      period: { kind: "ALL_TIME" },
      sort: "DESC",
    };
    assert.equal((await post("leaderboards", board)).body.error?.reason, "LEADERBOARD_LIMIT");
    must(await post("rules", aLessonRule()), 201);
    assertError(await post("rules/lesson/publish", {}), 409, "RULE_LIMIT");
    const rules = [{ status: "ACTIVE", rule: aLessonRule({ key: "imported" }) }];
    const document = { format: "laurel/1", rules };
    assertError(await post("config/import", { document }), 409, "DEFINITION_LIMIT");
    assertError(await api.get(`${RULES}/imported`, { key }), 404);
    for (let i = 1; i <= 20; i++)
      must(await api.request("DELETE", `/api/v1/segments/copy${i}`, { key }), 200);
    must(await post("rules/lesson/publish", {}), 200);
    must(await post("config/import", { document }), 200);
  });

  it("of all that runs in a project reads a bounded number of different metrics", async () => {
    const count = (window: object) => ({
      type: "event_aggregate",
      metric: { eventTypes: ["lesson"], aggregate: "count", window },
      op: "gte",
      value: 1,
    });
    const all = Array.from({ length: 50 }, (_, n) => count({ type: "ROLLING", seconds: 100_000 + n }));
    const many = { key: "many", name: "Many", kind: "DYNAMIC", definition: { all } };
    const { id } = must(await post("segments", many), 201);
    const copies = Math.floor(COUNTERS_MAX / all.length) - 1;
    await api.sql`insert into definitions (id, project_id, kind, key, name, definition, status, version, created_by,
        created_at, updated_at)
      select gen_random_uuid(), project_id, kind, 'copy' || n, name,
        replace(definition::text, '"seconds": 1', '"seconds": ' || n + 1)::jsonb, status, version,
        created_by, created_at, updated_at from definitions, generate_series(1, ${copies}::int) n
      where id = ${id}`;
    const more = (ruleKey: string, window: object) =>
      post("rules", aLessonRule({ key: ruleKey, conditions: { all: [count(window)] } }));
    must(await more("known", { type: "ROLLING", seconds: 100_000 }), 201);
    must(await post("rules/known/publish", {}), 200);
    must(await more("another", { type: "LIFETIME" }), 201);
    assertError(await post("rules/another/publish", {}), 409, "RULE_LIMIT");
    must(await api.request("DELETE", "/api/v1/segments/copy1", { key }), 200);
    must(await post("rules/another/publish", {}), 200);
  });
});
