import assert from "node:assert/strict";
import { flushEventTypes } from "../../src/jobs/jobs.ts";
import { type Answer, aTenant, startApp } from "../support/app/app.ts";
import { assertError } from "../support/http/assert-error.ts";
import { must } from "../support/http/client.ts";
import { eventually } from "../support/eventually.ts";
import { madeForEach, madeOnce } from "../support/made.ts";
import { callsBy } from "../support/app/game.ts";
import { pluck } from "../support/pluck.ts";

const SCHEMA = {
  type: "object",
  required: ["amount"],
  properties: { amount: { type: "number", minimum: 1 }, kind: { enum: ["card", "cash"] } },
};

describe("event types", () => {
  const api = madeOnce(startApp);
  const tenant = madeForEach(() => aTenant(api));

  const { get, post } = callsBy(api, tenant);
  const put = (name: string, body: unknown, key = tenant.key): Promise<Answer> =>
    api.request("PUT", `/api/v1/event-types/${name}`, { key, body });
  const event = (externalUserId: string, properties: object, eventType = "paid") => ({
    externalUserId,
    eventType,
    properties,
  });
  const batch = (...events: object[]) => post("/events/batch", { events });
  const seen = async (name: string, total: number): Promise<Answer["body"]> => {
    const find = async () => {
      await flushEventTypes.run(api.app, "*");
      return (await get(`/event-types/${name}`)).body;
    };
    await eventually(async () => (await find()).total === total, { timeoutMs: 60_000 });
    return find();
  };

  it("appear with what was sent: counted, with paths, types and values of several players", async () => {
    const startMs = Date.now();
    await batch(
      event("a", { amount: 5, kind: "card", to: { mail: "a@x.example" } }),
      event("b", { amount: 6, kind: "card", to: { mail: "b@x.example" } }),
      event("c", { amount: "7", kind: "card" }),
      event("c", {}, "seen"),
    );
    const paid = await seen("paid", 3);
    assert.deepEqual(paid.properties, [
      { path: "amount", types: ["number", "string"], samples: [] },
      { path: "kind", types: ["string"], samples: ["card"] },
      { path: "to.mail", types: ["string"], samples: [] },
    ]);
    assert.ok(Date.parse(paid.firstSeenAt) >= startMs && paid.firstSeenAt <= paid.lastSeenAt);
    assert.deepEqual([paid.schema, paid.enforcement], [null, "OFF"]);
    await batch(event("d", { amount: 1 }));
    const later = await seen("paid", 4);
    assert.equal(later.firstSeenAt, paid.firstSeenAt);
    const list = await get("/event-types");
    assert.deepEqual(pluck(list.body.data, "name"), ["paid", "seen"]);
    assert.equal((await get("/event-types?search=AI")).body.pagination.total, 1);
    assert.equal((await get("/event-types?search=nothing")).body.pagination.total, 0);
    assert.equal((await get("/event-types?enforcement=OFF")).body.pagination.total, 2);
    assert.equal((await get("/event-types?enforcement=REJECT")).body.pagination.total, 0);
  });

  it("with a schema that REJECTs take no event that does not fit, and name where", async () => {
    must(await put("paid", { schema: SCHEMA, enforcement: "REJECT" }), 200);
    const { body } = await batch(
      event("a", { amount: 5, kind: "card" }),
      event("a", { amount: 0, kind: "gold" }),
      event("a", {}),
      event("a", { amount: 0 }, "other"),
    );
    assert.deepEqual([body.accepted, body.rejected], [2, 2]);
    const messages = body.results.map((one: { message: string }) => one.message);
    assert.equal(
      messages[1],
      'properties.amount is less than 1; properties.kind does not match any of ["card","cash"]',
    );
    assert.equal(messages[2], "properties must have amount");
    const single = await post("/events", event("a", { amount: "5" }));
    assertError(single, 400, "SCHEMA_MISMATCH");
    assert.deepEqual(single.body.error.details, [{ field: "properties.amount", message: "must be number" }]);
  });

  it("with a schema that WARNs take the event and say what does not fit", async () => {
    must(await put("paid", { schema: SCHEMA, enforcement: "WARN" }), 200);
    const { body } = await post("/events?wait=true", event("a", { amount: 0 }));
    assert.equal(body.status, "PROCESSED");
    assert.deepEqual(body.warnings, ["properties.amount is less than 1"]);
    const good = await post("/events", event("a", { amount: 1 }));
    assert.equal(good.body.warnings, undefined);
  });

  it("follow a schema that changes, and are free again without it", async () => {
    const reject = (schema: object) => put("paid", { schema, enforcement: "REJECT" });
    const status = async () => (await post("/events", event("a", { amount: 5 }))).status;
    await reject({ properties: { amount: { maximum: 4 } } });
    assert.equal(await status(), 400);
    await reject({ properties: { amount: { maximum: 5 } } });
    assert.equal(await status(), 200);
    await reject({ properties: { amount: { maximum: 4 } } });
    assert.equal(await status(), 400);
    const off = await put("paid", { schema: { properties: { amount: false } }, enforcement: "OFF" });
    assert.equal(off.body.enforcement, "OFF");
    assert.equal(await status(), 200);
    await put("paid", { schema: null, enforcement: "OFF" });
    assert.equal(await status(), 200);
    assert.equal((await get("/event-types/paid")).body.schema, null);
  });

  it("refuse schemas that are none, are hostile or too large, and names that no event can have", async () => {
    const cases: [field: string, body: object][] = [
      ["schema", { enforcement: "OFF" }],
      ["schema", { schema: null, enforcement: "WARN" }],
      ["schema.pattern", { schema: { pattern: "(a+)+$" }, enforcement: "WARN" }],
      [
        "schema.properties.a.$ref",
        { schema: { properties: { a: { $ref: "http://x" } } }, enforcement: "WARN" },
      ],
      ["schema.properties.a.minimun", { schema: { properties: { a: { minimun: 1 } } }, enforcement: "OFF" }],
      ["schema", { schema: { description: "x".repeat(17_000) }, enforcement: "OFF" }],
      ["enforcement", { schema: {}, enforcement: "MAYBE" }],
    ];
    for (const [field, body] of cases) {
      const answer = await put("paid", body);
      assertError(answer, 400);
      assert.equal(answer.body.error.details[0].field, field, JSON.stringify(answer.body));
    }
    assertError(await put("a%20b", { schema: {}, enforcement: "OFF" }), 400);
    assertError(await put("player.level_up", { schema: {}, enforcement: "OFF" }), 400);
    assertError(await put("system.x", { schema: {}, enforcement: "OFF" }), 400);
    assert.equal((await get("/event-types/never")).status, 404);
  });
});
