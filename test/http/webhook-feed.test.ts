import assert from "node:assert/strict";
import { aKey, aTenant, startApp } from "../support/app/app.ts";
import { assertError } from "../support/http/assert-error.ts";
import { must } from "../support/http/client.ts";
import { eventually } from "../support/eventually.ts";
import { madeOnce } from "../support/made.ts";

// oxlint-disable-next-line typescript/no-explicit-any -- bodies are held against the API's description
type Body = any;

const WITHIN = { timeoutMs: 60_000 };

describe("the feed of webhook events", () => {
  const api = madeOnce(startApp);
  const tenant = madeOnce(() => aTenant(api));

  const read = (query = "", key = tenant.key) => api.get(`/api/v1/webhook-events${query}`, { key });
  const aPlayer = async (key = tenant.key): Promise<string> => {
    const externalUserId = `user-${crypto.randomUUID()}`;
    must(await api.post("/api/v1/players", { externalUserId }, { key }), 201);
    return externalUserId;
  };
  /** Reads on until there are so many events. */
  const readOn = async (cursor: string | undefined, count: number, key = tenant.key): Promise<Body[]> => {
    const found: Body[] = [];
    let at = cursor;
    await eventually(async () => {
      const page = must(await read(at === undefined ? "" : `?cursor=${at}`, key), 200);
      found.push(...page.data);
      at = page.pagination.nextCursor;
      return found.length >= count;
    }, WITHIN);
    return found;
  };

  it("begins when it is first read, and gives each event once, in order, to who reads on", async () => {
    const first = must(await read(), 200);
    assert.deepEqual([first.data, first.pagination.hasMore], [[], false]);
    const names = [];
    for (let i = 0; i < 5; i++) names.push(await aPlayer());
    const events = await readOn(first.pagination.nextCursor, 5);
    assert.deepEqual(events.map(({ data }) => data.externalUserId).toSorted(), names.toSorted());
    assert.equal(new Set(events.map(({ id }) => id)).size, 5);
    for (const { type, projectId } of events)
      assert.deepEqual([type, projectId], ["player.created", tenant.projectId]);

    const page = must(await read("?limit=2"), 200);
    assert.equal(page.data.length, 2);
    assert.equal(page.pagination.hasMore, true);
    const rest = must(await read(`?cursor=${page.pagination.nextCursor}`), 200);
    assert.deepEqual([...page.data, ...rest.data], events);
  });

  it("has what webhooks have: tests of a type, by key", async () => {
    const { nextCursor } = must(await read("?cursor=latest"), 200).pagination;
    const made = await api.post(
      "/api/v1/webhook-events/test",
      { eventType: "player.level_up" },
      { key: tenant.key },
    );
    const { event, deliveries } = must(made, 201);
    assert.equal(deliveries, 0);
    assert.deepEqual([event.type, event.data.test], ["player.level_up", true]);
    assert.deepEqual(await readOn(nextCursor, 1), [event]);
    assertError(
      await api.post("/api/v1/webhook-events/test", { eventType: "no.such" }, { key: tenant.key }),
      400,
    );
    assertError(await api.post("/api/v1/webhook-events/test", {}, { key: tenant.key }), 400);
  });

  it("is a project's own, and a sandbox has another one", async () => {
    const other = await aTenant(api);
    must(await read("", other.key), 200);
    const testKey = await aKey(api, { ...tenant, scopes: ["*"], environment: "test" });
    const sandbox = must(await read("", testKey), 200).pagination;
    const live = must(await read("?cursor=latest"), 200).pagination;
    const inSandbox = await aPlayer(testKey);
    const inLive = await aPlayer();
    const [ofSandbox, ofLive] = [
      await readOn(sandbox.nextCursor, 1, testKey),
      await readOn(live.nextCursor, 1),
    ];
    assert.deepEqual(
      [ofSandbox, ofLive].map((events) => events.map(({ data }) => data.externalUserId)),
      [[inSandbox], [inLive]],
    );
    assert.deepEqual(must(await read("", other.key), 200).data, []);
  });
});
