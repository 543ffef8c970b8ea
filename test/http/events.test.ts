import assert from "node:assert/strict";
import { randomUUID } from "node:crypto";
import { aKey, type Answer, aTenant, startApp } from "../support/app/app.ts";
import { eventually } from "../support/eventually.ts";
import { madeForEach, madeOnce } from "../support/made.ts";
import { pluck } from "../support/pluck.ts";

const event = (more: Record<string, unknown> = {}) => ({
  externalUserId: "u1",
  eventType: "level_finished",
  properties: { level: 1 },
  timestamp: "2026-01-10T18:00:00.000Z",
  idempotencyKey: randomUUID(),
  ...more,
});

const statuses = (answer: Answer): string[] =>
  answer.body.results.map(({ status }: { status: string }) => status);
const messages = (answer: Answer): string[] =>
  answer.body.results.map(({ message }: { message: string }) => message);

describe("event ingestion", () => {
  const api = madeOnce(startApp);
  const tenant = madeForEach(() => aTenant(api));
  let key: string;
  beforeEach(() => {
    key = tenant.key;
  });
  const batch = (events: unknown[], query = "") =>
    api.post(`/api/v1/events/batch${query}`, { events }, { key });
  const stored = async (): Promise<number> =>
    (await api.get("/api/v1/events?limit=100", { key })).body.data.length as number;

  it("stores a batch, answers in order, and processes every event once", async () => {
    const answer = await batch([
      event(),
      event({ externalUserId: "u2" }),
      event({ properties: undefined, timestamp: undefined }),
    ]);
    assert.equal(answer.status, 200);
    assert.deepEqual(statuses(answer), ["PENDING", "PENDING", "PENDING"]);
    assert.deepEqual([answer.body.accepted, answer.body.rejected, answer.body.skipped], [3, 0, 0]);
    const ids = answer.body.results.map(({ eventId }: { eventId: string }) => eventId);
    await eventually(async (): Promise<boolean> => {
      const list = (await api.get("/api/v1/events", { key })).body.data;
      return list.length === 3 && list.every(({ status }: { status: string }) => status === "PROCESSED");
    });
    const one = await api.get(`/api/v1/events/${ids[0]}`, { key });
    assert.equal(one.body.externalUserId, "u1");
    assert.deepEqual(one.body.properties, { level: 1 });
    assert.deepEqual(pluck(one.body.effects, "type"), ["player.created"]);
  });

  it("names fields that no event has, alone and in a batch, and takes the event without them", async () => {
    const misspelt = event({ propertes: { level: 2 }, mood: "good" });
    const warnings = ["propertes, mood: not a field of an event, and ignored"];
    const alone = await api.post("/api/v1/events", { ...misspelt, name: "x" }, { key });
    assert.deepEqual(alone.body.warnings, warnings);
    const many = Object.fromEntries(
      Array.from({ length: 1_000 }, (_, n) => [`field-${n}${"x".repeat(90)}`, n]),
    );
    const { results } = (await batch([{ ...misspelt, idempotencyKey: "other" }, event(), event(many)])).body;
    assert.deepEqual(results[0].warnings, warnings);
    assert.equal(results[1].warnings, undefined);
    assert.match(results[2].warnings[0], /^field-0x+…, .* and 995 more: not a field of an event/);
    assert.ok(results[2].warnings[0].length < 300);
    const { body } = await api.get(`/api/v1/events/${alone.body.eventId}`, { key });
    assert.deepEqual(body.properties, { level: 1 });
  });

  it("answers the effects of an event when asked to wait", async () => {
    const answer = await api.post("/api/v1/events?wait=true", event(), { key });
    assert.equal(answer.status, 200);
    assert.equal(answer.body.status, "PROCESSED");
    assert.equal(answer.body.effects[0].type, "player.created");
    assert.equal(answer.body.effects[0].data.externalUserId, "u1");
  });

  it("takes name for eventType and playerId for the player", async () => {
    const made = await api.post("/api/v1/players", { externalUserId: "someone" }, { key });
    for (const playerId of [made.body.id, "ext:someone", "newcomer"]) {
      const answer = await api.post("/api/v1/events?wait=true", { name: "opened", playerId }, { key });
      assert.equal(answer.body.status, "PROCESSED");
    }
    const list = (await api.get("/api/v1/events", { key })).body.data;
    assert.deepEqual(pluck(list, "externalUserId"), ["newcomer", "someone", "someone"]);
  });

  it("skips a key it has seen, in a batch or on its own, and says when the body differs", async () => {
    const first = event();
    const answer = await batch([first, first, { ...first, properties: { level: 9 } }]);
    assert.deepEqual(statuses(answer), ["PENDING", "DUPLICATE", "DUPLICATE"]);
    const [{ eventId }, same, other] = answer.body.results;
    assert.deepEqual([same.skipped, same.existingEventId, other.existingEventId], [true, eventId, eventId]);
    assert.match(other.message, /different body/);
    assert.doesNotMatch(same.message, /different body/);

    const single = await api.post(
      "/api/v1/events",
      { ...first, timestamp: "2026-01-10T19:00:00.000+01:00" },
      { key },
    );
    assert.equal(single.status, 200);
    assert.equal(single.body.status, "DUPLICATE");
    assert.doesNotMatch(
      single.body.message,
      /different body/,
      "the same instant in another zone is the same body",
    );
    assert.equal((await batch([first])).body.skipped, 1);
    assert.equal(await stored(), 1);
  });

  it("never takes an event without a key for a duplicate", async () => {
    const bare = event({ idempotencyKey: undefined });
    assert.deepEqual(statuses(await batch([bare, bare])), ["PENDING", "PENDING"]);
  });

  it("stores each of two concurrent overlapping batches' events once", async () => {
    const events = Array.from({ length: 150 }, () => event());
    const [a, b] = await Promise.all([batch(events.slice(0, 100)), batch(events.slice(50).toReversed())]);
    assert.equal(a.body.accepted + b.body.accepted, 150);
    assert.equal(a.body.skipped + b.body.skipped, 50);
    assert.equal(await stored(), 100);
  });

  it("rejects a bad item in its place and stores its neighbours", async () => {
    const loneSurrogate = JSON.parse('"\\ud800"') as string;
    const deep = JSON.parse(`${"[".repeat(40)}${"]".repeat(40)}`) as unknown;
    const cases: [unknown, RegExp][] = [
      [{ ...event(), externalUserId: undefined }, /externalUserId:? is required/],
      [{ ...event(), eventType: "" }, /eventType:? must not be empty/],
      [{ ...event(), eventType: "player.level_up" }, /reserved/],
      [{ ...event(), timestamp: "yesterday" }, /timestamp:? must be an ISO 8601/],
      [{ ...event(), timestamp: "2999-01-01T00:00:00Z" }, /24 hours ahead/],
      [{ ...event(), properties: [1, 2] }, /properties:? must be an object/],
      [{ ...event(), properties: { text: "x".repeat(20 * 1024) } }, /16 KiB/],
      [{ ...event(), properties: { deep } }, /nested deeper than 32/],
      [{ ...event(), properties: { text: "a\0b" } }, /properties\.text contains a NUL/],
      [{ ...event(), properties: { text: loneSurrogate } }, /properties\.text contains half of a surrogate/],
      [{ ...event(), externalUserId: "a\0b" }, /externalUserId contains a NUL/],
      [{ ...event(), properties: { [loneSurrogate]: 1 } }, /surrogate/],
      [{ ...event(), properties: { constructor: 1 } }, /properties\.constructor is a forbidden key/],
      [{ ...event(), projectId: randomUUID() }, /projectId is not a project of these credentials/],
      ["text", /JSON object/],
      [null, /JSON object/],
    ];
    const answer = await batch([event(), ...cases.map(([item]) => item), event({ externalUserId: "last" })]);
    assert.equal(answer.status, 200);
    assert.deepEqual([answer.body.accepted, answer.body.rejected], [2, cases.length]);
    cases.forEach(([, message], index) => assert.match(messages(answer)[index + 1]!, message));
    for (const result of answer.body.results.slice(1, -1))
      assert.deepEqual([result.eventId, result.status], [null, "REJECTED"]);
    assert.equal(await stored(), 2);
    for (const [item, message] of cases.slice(0, 13)) {
      const single = await api.post("/api/v1/events", item, { key });
      assert.equal(single.status, 400);
      assert.match(single.body.error.message, message);
    }
  });

  it("rejects a __proto__ key in its place", async () => {
    const text = JSON.stringify({ events: [event(), event()] }).replace(
      '"level":1',
      '"__proto__":{"polluted":true}',
    );
    const answer = await api.request("POST", "/api/v1/events/batch", { key, body: text });
    assert.deepEqual(statuses(answer), ["REJECTED", "PENDING"]);
    assert.match(messages(answer)[0]!, /properties\.__proto__ is a forbidden key/);
    assert.equal(({} as { polluted?: boolean }).polluted, undefined);
  });

  it("takes a batch of 1,000, and answers 413 over 5 MiB", async () => {
    const large = await api.post(
      "/api/v1/events/batch",
      { events: [event({ properties: { t: "x".repeat(6 * 1024 * 1024) } })] },
      { key },
    );
    assert.equal(large.status, 413);
    assert.equal(large.body.error.code, "PAYLOAD_TOO_LARGE");
    assert.equal((await batch(Array.from({ length: 1_000 }, () => event()))).body.accepted, 1_000);
  });

  it("answers a foreign project exactly as an unknown one", async () => {
    const other = await aTenant(api);
    const ids = [other.projectId, randomUUID()];
    for (const credentials of [{ key }, { token: tenant.token }]) {
      const answers = await Promise.all(
        ids.map((projectId) =>
          api.post("/api/v1/events/batch", { events: [event({ projectId })] }, credentials),
        ),
      );
      assert.deepEqual(messages(answers[0]!), messages(answers[1]!));
      assert.deepEqual(statuses(answers[0]!), ["REJECTED"]);
    }
    const mine = (await batch([event()])).body.results[0].eventId;
    assert.equal((await api.get(`/api/v1/events/${mine}`, { key: other.key })).status, 404);
    assert.equal((await api.get("/api/v1/events/not-an-id", { key })).status, 404);
  });

  it("sends a test key's events to the sandbox, whose data a live key does not see", async () => {
    const testKey = await aKey(api, { ...tenant, environment: "test" });
    const answer = await api.post("/api/v1/events", event({ projectId: tenant.projectId }), { key: testKey });
    assert.equal(answer.body.status, "PENDING");
    assert.equal(await stored(), 0);
    assert.equal((await api.get("/api/v1/events", { key: testKey })).body.data.length, 1);
  });

  it("takes a console user's events that name their project, and wants the name of who has two", async () => {
    const second = await api.post("/api/v1/projects", { name: "Second" }, { token: tenant.token });
    const events = [event({ projectId: tenant.projectId }), event({ projectId: second.body.id }), event()];
    const answer = await api.post("/api/v1/events/batch", { events }, { token: tenant.token });
    assert.deepEqual(statuses(answer), ["PENDING", "PENDING", "REJECTED"]);
    assert.match(messages(answer)[2]!, /projectId is required/);
    const named = `/api/v1/events/batch?projectId=${second.body.id}`;
    const told = await api.post(named, { events: [event()] }, { token: tenant.token });
    assert.deepEqual(statuses(told), ["PENDING"]);
  });

  it("finds an event by its idempotency key, in its own project alone", async () => {
    const sent = [event({ idempotencyKey: "order-1" }), event({ idempotencyKey: "order-10" }), event()];
    const { results } = (await batch(sent)).body;
    const find = async (idempotencyKey: string, more = "", by = key) =>
      (
        await api.get(`/api/v1/events?idempotencyKey=${encodeURIComponent(idempotencyKey)}${more}`, {
          key: by,
        })
      ).body.data.map(({ id }: { id: string }) => id);
    assert.deepEqual(await find("order-1"), [results[0].eventId]);
    assert.deepEqual(await find("order-1", "&externalUserId=u2"), []);
    assert.deepEqual(await find("order-"), []);
    const other = await aTenant(api);
    assert.deepEqual(await find("order-1", "", other.key), []);
    await api.post("/api/v1/events", event({ idempotencyKey: "order-1" }), { key: other.key });
    assert.equal((await find("order-1", "", other.key)).length, 1);
    assert.deepEqual(await find("order-1"), [results[0].eventId]);
    assert.equal((await api.get(`/api/v1/events?idempotencyKey=${"x".repeat(256)}`, { key })).status, 400);
  });

  it("lists events newest first with a cursor and filters", async () => {
    await batch([
      event({ eventType: "a" }),
      event({ eventType: "b", externalUserId: "u2" }),
      event({ eventType: "a" }),
    ]);
    const first = await api.get("/api/v1/events?limit=2", { key });
    assert.equal(first.body.data.length, 2);
    const second = await api.get(`/api/v1/events?limit=2&cursor=${first.body.pagination.nextCursor}`, {
      key,
    });
    assert.equal(second.body.data.length, 1);
    assert.equal(second.body.pagination.nextCursor, null);
    assert.equal((await api.get("/api/v1/events?eventType=a", { key })).body.data.length, 2);
    assert.equal((await api.get("/api/v1/events?externalUserId=u2", { key })).body.data.length, 1);
    assert.equal((await api.get("/api/v1/events?from=2027-01-01T00:00:00Z", { key })).body.data.length, 0);
    assert.equal((await api.get("/api/v1/events?unknown=1", { key })).status, 400);
    assert.equal((await api.get("/api/v1/events?limit=101", { key })).status, 400);
  });
});
