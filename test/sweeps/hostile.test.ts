import assert from "node:assert/strict";
import { sql } from "kysely";
import { fieldsOf } from "../../src/http/validate.ts";
import { startApp, type TestApp } from "../support/app/app.ts";
import { eventuallyHolds } from "../support/eventually.ts";
import { attackWith, methodOf, target } from "../support/http/attack.ts";
import { HOSTILE_BODIES, HOSTILE_TEXTS, HOSTILE_VALUES, type RawRequest } from "../support/http/hostile.ts";
import { unique } from "../support/operations/bodies.ts";
import { type Call, type Operation, operations } from "../support/operations/operations.ts";
import { MADE_TO_FAIL } from "../support/domain/failed-event.ts";
import { aSide, type Side } from "../support/app/sides.ts";

/** Stands where the hostile value goes: what is sent need not be a value that JSON.stringify can write. */
const PLACE = "\u0001here\u0001";

type Tree = Record<string, unknown>;
const isTree = (value: unknown): value is Tree => value !== null && typeof value === "object";

/** The paths of every value inside a body, and of the fields that the schema knows and the body lacks. */
const placesIn = (body: unknown, known: readonly string[]): string[][] => {
  const places: string[][] = known.map((name) => [name]);
  const walk = (value: unknown, path: string[]): void => {
    if (path.length > 0) places.push(path);
    if (isTree(value)) for (const name of Object.keys(value)) walk(value[name], [...path, name]);
  };
  walk(body, []);
  return [...new Map(places.map((path) => [path.join("\0"), path])).values()];
};

/** The body as JSON text with the value at `path` replaced by `text` as it stands. */
const withValue = (body: unknown, path: readonly string[], text: string): string => {
  const copy = structuredClone(isTree(body) ? body : {});
  let at = copy;
  for (const name of path.slice(0, -1)) at = at[name] as Tree;
  at[path.at(-1)!] = PLACE;
  return JSON.stringify(copy).replace(JSON.stringify(PLACE), () => text);
};

/** Else the second definition would be refused for its key alone. */
const withOwnKey = (body: unknown): unknown =>
  isTree(body) && "key" in body ? { ...body, key: unique("swept") } : body;

/** A quarter of the values for each place, so that four places in a row have met them all. */
const valuesFor = (place: number): string[] => HOSTILE_VALUES.filter((_, i) => (i + place) % 4 === 0);

const all = operations();

/** Each place meets a quarter of the texts, and its neighbours the others. */
const quarterOf = <T>(texts: readonly T[], place: number): T[] => texts.filter((_, i) => i % 4 === place % 4);

describe("hostile input", function () {
  let api: TestApp;
  let side: Side;
  before(async () => {
    api = await startApp();
    side = await aSide(api);
    const { key } = side.tenant;
    // What events say is evaluated too: attributes from properties, comparisons, expressions, sums.
    const rule = await api.post(
      "/api/v1/rules",
      {
        key: "listens",
        name: "Listens",
        triggers: [{ kind: "EVENT", eventTypes: ["*"] }],
        conditions: {
          any: [
            { type: "event_property", path: "v", op: "gt", value: { $ref: "player.xp" } },
            { type: "event_property", path: "v", op: "exists" },
          ],
        },
        limits: { perPlayer: [{ max: 1_000_000, window: "DAY" }], cooldownSeconds: 1 },
        actions: [
          { type: "grant_xp", amount: { op: "mul", args: [{ $ref: "event.properties.v" }, 3] } },
          { type: "update_player", set: { last: { $ref: "event.properties.v" } }, increment: { n: 1 } },
        ],
      },
      { key },
    );
    assert.equal(rule.status, 201, JSON.stringify(rule.body));
    assert.equal((await api.post("/api/v1/rules/listens/publish", {}, { key })).status, 200);
    for (const aggregate of ["sum", "latest", "max"]) {
      const metric = { source: "EVENT", event: { eventTypes: ["*"] }, aggregate, property: "v" };
      await api.post(
        "/api/v1/leaderboards",
        { key: aggregate, name: "V", metric, scoreDecimals: 6 },
        { key },
      );
    }
  });

  const problems: string[] = [];
  afterEach(() => assert.deepEqual(problems.splice(0), []));

  const attack = (operation: Operation, requests: Iterable<RawRequest>): Promise<number> =>
    attackWith({ api, side, problems }, operation, requests);
  const targetOf = (operation: Operation): Promise<Call> => target(side, operation);

  it("in a path parameter is refused or finds nothing", async () => {
    for (const operation of all.filter(({ route }) => route.path.includes("{"))) {
      const { path, body } = await targetOf(operation);
      const names = operation.route.path.split("/");
      const parts = path.split("/").slice(3);
      const requests = names.flatMap((name, at) =>
        name.startsWith("{")
          ? HOSTILE_TEXTS.map((text) => ({
              method: methodOf(operation),
              path: `/api/v1/${parts.with(at - 1, text).join("/")}`,
              ...(body === undefined || methodOf(operation) === "GET" ? {} : { body: JSON.stringify(body) }),
            }))
          : [],
      );
      await attack(operation, requests);
    }
  });

  it("in a query parameter is refused or read as what it is, once or twice", async () => {
    let places = 0;
    for (const operation of all) {
      const { path, body } = await targetOf(operation);
      const { query, project } = operation.route;
      const names = [
        ...fieldsOf(query),
        ...(project === "caller" ? ["projectId"] : []),
        "nobody",
        "__proto__",
      ];
      const queries = names.flatMap((name) => [
        ...quarterOf(HOSTILE_TEXTS, places++).flatMap((text) => [
          `${name}=${text}`,
          `${name}=${text}&${name}=${text}`,
        ]),
        ...["", "[]=1", "[a][b]=1", ".a=1", "=", "=1&&&&;"].map((rest) => `${name}${rest}`),
      ]);
      const requests = queries.map((text) => ({
        method: methodOf(operation),
        path: `${path}?${text}`,
        ...(body === undefined || methodOf(operation) === "GET" ? {} : { body: JSON.stringify(body) }),
      }));
      await attack(operation, requests);
    }
  });

  it("in place of a body is refused", async () => {
    for (const operation of all.filter(({ route }) => !["get", "delete"].includes(route.method))) {
      const { path } = await targetOf(operation);
      await attack(
        operation,
        HOSTILE_BODIES.map((body) => ({ method: methodOf(operation), path, body })),
      );
    }
  });

  it("in place of any value of a body is refused, or stored as what it is", async () => {
    let sent = 0;
    const targets: [Operation, Call][] = [];
    // First of all: what is accepted fills the project up to its limits.
    for (const operation of all.filter(({ route }) => route.body !== undefined))
      targets.push([operation, await targetOf(operation)]);
    for (const [operation, { path, body }] of targets) {
      for (const valid of [body, ...(operation.also ?? []).map((make) => make())]) {
        const requests = placesIn(valid, fieldsOf(operation.route.body)).flatMap((place, n) =>
          valuesFor(n).map((text) => ({
            method: methodOf(operation),
            path,
            body: withValue(withOwnKey(valid), place, text),
          })),
        );
        sent += await attack(operation, requests);
      }
    }
    assert.ok(sent > 10_000, `only ${sent} requests`);
  });

  it("in rules and leaderboards that were accepted harms no evaluation", async () => {
    const { key } = side.tenant;
    const drafts = await api.app.transact(({ db }) =>
      sql<{ id: string }>`select id from rules
        where project_id = ${side.tenant.projectId} and status = 'DRAFT' order by id limit 900`.execute(db),
    );
    assert.ok(drafts.rows.length > 50, `only ${drafts.rows.length} rules were accepted`);
    for (const { id } of drafts.rows) {
      const { status } = await api.post(`/api/v1/rules/${id}/publish`, {}, { key });
      assert.ok(status === 200 || status === 400, `${id}: ${status}`);
    }
    const events = ["swept", "hostile", "__proto__", "constructor", "toString"].flatMap((eventType, n) =>
      [{}, { v: 1, a: { b: "y" } }, { v: "1", a: [] }].map((properties) => ({
        externalUserId: `evaluated-${n}`,
        eventType,
        properties,
      })),
    );
    const { body } = await api.post("/api/v1/events/batch?wait=true", { events }, { key });
    for (const { status, message } of body.results) assert.equal(status, "PROCESSED", message);
  });

  it("in the properties of events harms no evaluation", async () => {
    const { route, ...operation } = all.find((one) => one.route.id === "trackEvents")!;
    const path = "/api/v1/events/batch";
    const bodies = HOSTILE_VALUES.map((text) => {
      const one = (user: string) =>
        `{"externalUserId":"${user}","eventType":"hostile","properties":{"v":${text}}}`;
      return `{"events":[${["good", "bad", "good"].map(one).join()}]}`;
    });
    await attack(
      { route, ...operation },
      bodies.map((body) => ({ method: "POST", path, body })),
    );
  });

  it("in headers is refused or ignored", async () => {
    const operation = all.find((one) => one.route.id === "identifyPlayer")!;
    const { path, body } = await targetOf(operation);
    const names = [
      "X-Project-ID",
      "X-API-Key",
      "Authorization",
      "X-Request-Id",
      "X-Forwarded-For",
      "Content-Type",
    ];
    const values = [
      "",
      " ",
      "null",
      "__proto__",
      "é".repeat(50),
      "x".repeat(5_000),
      "Bearer ",
      "Bearer a b",
      "1,2,3",
    ];
    const requests = names.flatMap((name) =>
      values.map((value) => ({
        method: "POST",
        path,
        headers: { [name]: Buffer.from(value).toString("latin1") },
        body: JSON.stringify(body),
      })),
    );
    await attack(operation, requests);
  });

  it("leaves the server alive, its queue empty, no event failed and no prototype changed", async () => {
    assert.equal((await fetch(`${api.url}/health/ready`)).status, 200);
    const { key, projectId } = side.tenant;
    const made = await api.post("/api/v1/players", { externalUserId: "afterwards" }, { key });
    assert.equal(made.status, 201);
    await eventuallyHolds(
      async () => {
        const rows = await api.app.transact(({ db }) =>
          sql<{ queued: number; postponed: number; failed: string | null }>`
            select (select count(*) from event_q where project_id = ${projectId})::int as queued,
              (select count(*) from event_due where project_id = ${projectId})::int as postponed,
              (select max(error) from event_results
                where project_id = ${projectId} and status = 'FAILED'
                  and error <> ${MADE_TO_FAIL}) as failed`.execute(db),
        );
        assert.deepEqual({ ...rows.rows[0] }, { queued: 0, postponed: 0, failed: null });
      },
      { timeoutMs: 60_000 },
    );
    assert.equal(({} as { polluted?: unknown }).polluted, undefined);
  });
});
