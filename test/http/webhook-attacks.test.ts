import assert from "node:assert/strict";
import type { ServerResponse } from "node:http";
import { planTest } from "../../src/domain/delivery/webhooks/delivery-list.ts";
import { aTenant, startApp, type Tenant } from "../support/app/app.ts";
import { assertError } from "../support/http/assert-error.ts";
import { must } from "../support/http/client.ts";
import { eventually, eventuallyHolds } from "../support/eventually.ts";
import { putOnPlan } from "../support/app/plans.ts";
import { type Receiver, startReceiver } from "../support/webhooks/receiver.ts";
import { madeOnce } from "../support/made.ts";

// oxlint-disable-next-line typescript/no-explicit-any -- bodies are held against the API's description
type Body = any;

const WITHIN = { timeoutMs: 60_000 };

describe("webhooks in hostile hands", () => {
  let owner: { token: string };
  let receiver: Receiver;
  const held: ServerResponse[] = [];

  const api = madeOnce(startApp);
  const tenant = madeOnce(() => aTenant(api));
  before(async () => {
    owner = { token: tenant.token };
    receiver = await startReceiver((response, { path: at }) => {
      if (at === "/held") held.push(response);
      else response.end("ok");
    });
  });
  after(() => receiver?.close());

  const path = (id: string, rest = ""): string => `/api/v1/webhooks/${id}${rest}`;
  const create = (body: object = {}, by = owner) =>
    api.post("/api/v1/webhooks", { url: `${receiver.url}/x`, events: ["*"], ...body }, by);
  const aWebhook = async (body: object = {}): Promise<Body> =>
    must(await create({ url: `${receiver.url}/${crypto.randomUUID()}`, ...body }), 201);
  const list = async (id: string): Promise<Body[]> =>
    must(await api.get(path(id, "/deliveries"), owner), 200).data;
  const feed = (query: string, key: string) => api.get(`/api/v1/webhook-events${query}`, { key });

  it("send no type that rules could not emit: none that would never pass as a header", async () => {
    const hook = await aWebhook({ events: ["custom.*"] });
    const made = (eventType: string) =>
      api.post("/api/v1/webhook-events/test", { eventType }, { key: tenant.key });
    const test = (eventType: string) => api.post(path(hook.id, "/test"), { eventType }, owner);
    for (const type of ["a\r\nX-Evil: 1", "é😀", "a b", "x.*", ".a", "y".repeat(101)]) {
      assertError(await test(`custom.${type}`), 400);
      assertError(await made(`custom.${type}`), 400);
    }
    assert.deepEqual(await list(hook.id), []);
    for (const type of ["a", "order.paid", "y".repeat(100)]) {
      assert.equal(must(await test(`custom.${type}`), 200).success, true);
      assert.equal(must(await made(`custom.${type}`), 201).deliveries, 1);
    }
  });

  it("have no test of one webhook made into an event of the project", async () => {
    const made = await api.post(
      "/api/v1/webhook-events/test",
      { eventType: "webhook.test" },
      { key: tenant.key },
    );
    assertError(made, 400);
  });

  it("take no secret that a verifier of Standard Webhooks decodes to another key, or to none", async () => {
    const hook = await aWebhook();
    const good = Buffer.from("0123456789abcdef").toString("base64");
    for (const text of ["!!!!!!!!!!!!!!!!", "AAAAAAAAAA", `${good}!`, good.slice(0, -4)]) {
      const secret = `whsec_${text}`;
      assertError(await create({ secret }), 400);
      assertError(await api.post(path(hook.id, "/rotate-secret"), { secret }, owner), 400);
    }
    const rotated = await api.post(path(hook.id, "/rotate-secret"), { secret: `whsec_${good}` }, owner);
    assert.equal(must(rotated, 200).secret, `whsec_${good}`);
  });

  it("show a test whose process died as failed, and not as pending for ever", async () => {
    const hook = await aWebhook();
    await api.app.transact((work) => planTest(work, { tenantId: tenant.tenantId, webhookId: hook.id }));
    const [delivery] = await list(hook.id);
    assert.equal(delivery.status, "failed");
    assert.match(delivery.error, /interrupted/);
  });

  it("tell who tests one whose secret can no longer be read, and are well again by a new one", async () => {
    const hook = await aWebhook();
    await api.sql`update webhooks set secret = 'sealed under a lost key' where id = ${hook.id}`;
    const test = async (): Promise<Body> => must(await api.post(path(hook.id, "/test"), {}, owner), 200);
    assert.match((await test()).error, /secret/);
    must(await api.post(path(hook.id, "/rotate-secret"), {}, owner), 200);
    assert.equal((await test()).success, true);
  });

  it("are sent of what rules emit only what is for them, and not where else it went", async () => {
    const own = await aTenant(api);
    const url = `${receiver.url}/${crypto.randomUUID()}`;
    must(await create({ url, events: ["custom.*"] }, { token: own.token }), 201);
    const rules = { one: ["realtime"], two: ["inbox", "rules"], three: ["webhook", "realtime"] };
    for (const [key, channels] of Object.entries(rules)) {
      const action = {
        type: "emit_event",
        eventType: `told.${key}`,
        channels,
        properties: { text: "Zoë 🏆" },
      };
      const triggers = [{ kind: "EVENT", eventTypes: ["go"] }];
      const rule = { key, name: key, triggers, actions: [action] };
      must(await api.post("/api/v1/rules", rule, { key: own.key }), 201);
      must(await api.post(`/api/v1/rules/${key}/publish`, {}, { key: own.key }), 200);
    }
    const event = { eventType: "go", externalUserId: "ada" };
    must(await api.post("/api/v1/events?wait=true", event, { key: own.key }), 200);
    const arrived = () => receiver.received.filter(({ path: at }) => url.endsWith(at));
    await eventually(() => arrived().length > 0, WITHIN);
    const told = arrived().map(({ body }) => JSON.parse(body.toString()));
    assert.deepEqual(
      told.map(({ type, data }) => [type, data.channels, data.properties]),
      [["custom.told.three", undefined, { text: "Zoë 🏆" }]],
    );
    const inFeed = must(await feed("?types=custom.*", own.key), 200).data;
    assert.deepEqual(inFeed, told);
  });

  it("are as many as the plan says, however many are made at once", async () => {
    const own = await aTenant(api);
    await putOnPlan(api, own.tenantId, "PRO");
    await eventuallyHolds(
      async () => assert.equal(must(await api.get("/api/v1/tenant", { token: own.token }), 200).plan, "PRO"),
      WITHIN,
    );
    const answers = await Promise.all(Array.from({ length: 11 }, () => create({}, { token: own.token })));
    const statuses = answers.map(({ status }) => status).toSorted();
    assert.deepEqual(statuses, [...Array.from({ length: 10 }, () => 201), 402]);
  });

  describe("and their feed", () => {
    const aPlayer = async (key: string): Promise<void> =>
      void must(await api.post("/api/v1/players", { externalUserId: crypto.randomUUID() }, { key }), 201);
    /** A tenant with a feed of so many events. */
    const aFeed = async (count: number): Promise<Tenant & { cursor: string }> => {
      const own = await aTenant(api);
      const { nextCursor: cursor } = must(await feed("", own.key), 200).pagination;
      for (let i = 0; i < count; i++) await aPlayer(own.key);
      await eventually(async () => must(await feed("", own.key), 200).data.length === count, WITHIN);
      return { ...own, cursor };
    };

    it("refuse a cursor from ahead of it, which would miss what comes", async () => {
      const { key } = await aFeed(2);
      const { nextCursor } = must(await feed("", key), 200).pagination;
      must(await feed(`?cursor=${nextCursor}`, key), 200);
      const ahead = await feed("?cursor=e999", key);
      assertError(ahead, 400);
    });

    it("tell a reader of what it has missed though nothing is kept, and let it begin anew", async () => {
      const own = await aFeed(3);
      await api.sql`delete from webhook_events where project_id = ${own.projectId}`;
      assertError(await feed(`?cursor=${own.cursor}`, own.key), 410, "CURSOR_EXPIRED");
      const { nextCursor } = must(await feed("", own.key), 200).pagination;
      await aPlayer(own.key);
      await eventually(
        async () => must(await feed(`?cursor=${nextCursor}`, own.key), 200).data.length === 1,
        WITHIN,
      );
    });
  });
});
