import assert from "node:assert/strict";
import { aTenant, startApp } from "../support/app/app.ts";
import { assertError } from "../support/http/assert-error.ts";
import { must } from "../support/http/client.ts";
import { eventually } from "../support/eventually.ts";
import { aMember } from "../support/app/member.ts";
import { isSigned, type Receiver, startReceiver } from "../support/webhooks/receiver.ts";
import { madeOnce } from "../support/made.ts";
import { pluck } from "../support/pluck.ts";

// oxlint-disable-next-line typescript/no-explicit-any -- bodies are held against the API's description
type Body = any;

describe("deliveries of webhooks", () => {
  /** Who asks: no key beside the token. */
  let owner: { token: string };
  let receiver: Receiver;
  /** What the receiver answers next, and with what. */
  let answer = { status: 200, text: "thanks" };

  const api = madeOnce(startApp);
  const tenant = madeOnce(() => aTenant(api));
  before(async () => {
    owner = { token: tenant.token };
    receiver = await startReceiver((response) => {
      response.statusCode = answer.status;
      response.end(answer.text);
    });
  });
  beforeEach(() => {
    answer = { status: 200, text: "thanks" };
  });
  after(() => receiver?.close());

  const aWebhook = async (body: object = {}): Promise<Body> => {
    const whole = { url: `${receiver.url}/${crypto.randomUUID()}`, events: ["player.created"], ...body };
    return must(await api.post("/api/v1/webhooks", whole, { token: tenant.token }), 201);
  };
  const path = (id: string, rest = ""): string => `/api/v1/webhooks/${id}${rest}`;
  const aPlayer = async (): Promise<string> => {
    const externalUserId = `user-${crypto.randomUUID()}`;
    must(await api.post("/api/v1/players", { externalUserId }, { key: tenant.key }), 201);
    return externalUserId;
  };
  const list = async (id: string, query = "", token = tenant.token): Promise<Body[]> =>
    must(await api.get(path(id, `/deliveries${query}`), { token }), 200).data;
  const ended = (id: string, status: string): Promise<Body> => one(id, status, () => true);
  /** The newest of that status, once it is as told. */
  const one = async (id: string, status: string, isSo: (delivery: Body) => boolean): Promise<Body> => {
    let found: Body;
    await eventually(
      async () => {
        [found] = await list(id, `?status=${status}`);
        return found !== undefined && isSo(found);
      },
      { timeoutMs: 60_000 },
    );
    return found;
  };
  const toHook = (hook: Body) => receiver.received.filter(({ path: at }) => hook.url.endsWith(at));

  it("bring an event to its receiver, signed, and keep what was sent and answered", async () => {
    const hook = await aWebhook();
    const externalUserId = await aPlayer();
    const delivery = await ended(hook.id, "success");
    const [received, ...more] = toHook(hook);
    assert.equal(more.length, 0);
    assert.ok(isSigned(received!, hook.secret));
    const payload = JSON.parse(received!.body.toString());
    assert.equal(payload.type, "player.created");
    assert.equal(payload.projectId, tenant.projectId);
    assert.equal(payload.data.externalUserId, externalUserId);
    assert.equal(payload.id, delivery.eventId);
    assert.equal(received!.headers["x-service-delivery"], delivery.id);
    assert.equal(received!.headers["x-service-attempt"], "1");
    assert.equal(received!.headers["x-service-event"], "player.created");
    assert.deepEqual(
      [delivery.retryCount, delivery.responseCode, delivery.responseBody, delivery.error],
      [0, 200, "thanks", null],
    );
    const detail = must(await api.get(path(hook.id, `/deliveries/${delivery.id}`), owner), 200);
    assert.deepEqual(detail.payload, payload);
    assert.equal(detail.attempts.length, 1);
    assert.equal(detail.nextAttemptAt, null);
    assert.ok(must(await api.get(path(hook.id), owner), 200).lastSuccessAt);
  });

  it("are filtered by status, type, event and time", async () => {
    const hook = await aWebhook({ events: ["player.created", "player.xp_granted"] });
    const externalUserId = await aPlayer();
    const grant = { amount: 5 };
    must(await api.post(`/api/v1/players/ext:${externalUserId}/xp`, grant, { key: tenant.key }), 201);
    await eventually(async () => (await list(hook.id, "?status=success")).length === 2, {
      timeoutMs: 60_000,
    });
    const [granted] = await list(hook.id, "?eventType=player.xp_granted");
    assert.equal(granted.eventType, "player.xp_granted");
    assert.deepEqual(await list(hook.id, `?eventId=${granted.eventId}`), [granted]);
    assert.deepEqual(await list(hook.id, "?status=failed"), []);
    const later = new Date(Date.now() + 60_000).toISOString();
    assert.deepEqual(await list(hook.id, `?from=${later}`), []);
    assert.equal((await list(hook.id, `?to=${later}`)).length, 2);
    assertError(await api.get(path(hook.id, "/deliveries?status=lost"), owner), 400);
  });

  it("that fail wait for their next attempt and can be sent again at once when they are over", async () => {
    answer = { status: 410, text: "gone" };
    const hook = await aWebhook();
    await aPlayer();
    const failed = await ended(hook.id, "failed");
    assert.equal(failed.responseCode, 410);
    const disabled = must(await api.get(path(hook.id), owner), 200);
    assert.equal(disabled.status, "DISABLED");
    assert.ok(disabled.disabledReason);
    const retry = () => api.post(path(hook.id, `/deliveries/${failed.id}/retry`), {}, owner);
    assertError(await retry(), 409, "INVALID_STATE");

    answer = { status: 500, text: "not now" };
    must(await api.patch(path(hook.id), { status: "ACTIVE" }, owner), 200);
    assert.equal(must(await retry(), 200).status, "pending");
    const waiting = await one(hook.id, "pending", ({ responseCode }) => responseCode === 500);
    const waitMs = Date.parse(waiting.nextAttemptAt) - Date.parse(waiting.updatedAt);
    assert.ok(waitMs > 55_000 && waitMs < 70_000, String(waitMs));
    assertError(await retry(), 409, "INVALID_STATE");
    const detail = must(await api.get(path(hook.id, `/deliveries/${failed.id}`), owner), 200);
    assert.deepEqual(pluck(detail.attempts, "attempt", "responseCode"), [
      [1, 410],
      [1, 500],
    ]);
    const bodies = toHook(hook).map(({ body }) => body.toString());
    assert.equal(new Set(bodies).size, 1);
  });

  it("that were missed are recovered from a time on, once", async () => {
    const witness = await aWebhook({ events: ["player.*"] });
    const since = new Date(Date.now() - 1_000).toISOString();
    await aPlayer();
    await ended(witness.id, "success");
    const late = await aWebhook({ events: ["player.created"] });
    const recover = (body: object) => api.post(path(late.id, "/recover"), body, owner);
    const first = must(await recover({ since }), 200);
    assert.ok(first.queued >= 1);
    assert.equal(first.nextSince, null);
    await eventually(async () => (await list(late.id, "?status=success")).length === first.queued, {
      timeoutMs: 60_000,
    });
    assert.equal(must(await recover({ since }), 200).queued, 0);
    assertError(await recover({ since: "2026-01-02T00:00:00Z", until: "2026-01-01T00:00:00Z" }), 400);
    assertError(await recover({}), 400);
  });

  it("of tests are one attempt that tells what came of it, whatever the webhook's status", async () => {
    const hook = await aWebhook();
    must(await api.patch(path(hook.id), { status: "PAUSED" }, owner), 200);
    const test = (body: object = {}) => api.post(path(hook.id, "/test"), body, owner);
    const good = must(await test(), 200);
    assert.deepEqual([good.success, good.responseCode, good.responseBody], [true, 200, "thanks"]);
    const [received] = toHook(hook);
    assert.ok(isSigned(received!, hook.secret));
    const payload = JSON.parse(received!.body.toString());
    assert.equal(payload.type, "webhook.test");
    assert.equal(payload.data.test, true);
    assert.equal(payload.projectId, tenant.projectId);

    answer = { status: 500, text: "no" };
    const bad = must(await test({ eventType: "player.level_up" }), 200);
    assert.deepEqual([bad.success, bad.responseCode], [false, 500]);
    assert.equal(JSON.parse(toHook(hook)[1]!.body.toString()).data.newLevel > 0, true);
    const [listed] = await list(hook.id, "?status=failed");
    assert.deepEqual([listed.id, listed.isTest], [bad.deliveryId, true]);
    assertError(
      await api.post(path(hook.id, `/deliveries/${bad.deliveryId}/retry`), {}, owner),
      409,
      "INVALID_STATE",
    );
    assert.equal(must(await api.get(path(hook.id), owner), 200).lastFailureAt, null);
    assertError(await test({ eventType: "nobody.knows" }), 400);
  });

  it("show payloads to those who may see players' data, and are nobody else's", async () => {
    const hook = await aWebhook();
    await aPlayer();
    const { id } = await ended(hook.id, "success");
    const { token: designer } = await aMember(api, tenant.tenantId, "DESIGNER");
    const seen = must(await api.get(path(hook.id, `/deliveries/${id}`), { token: designer }), 200);
    assert.deepEqual([seen.payload, seen.responseBody, seen.attempts[0].responseBody], [null, null, null]);
    assert.equal((await list(hook.id, "", designer))[0].responseBody, null);
    const other = await aTenant(api);
    const others = await aWebhook();
    for (const [token, webhook] of [
      [other.token, hook.id],
      [tenant.token, others.id],
    ] as const) {
      assertError(await api.get(path(webhook, `/deliveries/${id}`), { token }), 404);
      assertError(await api.post(path(webhook, `/deliveries/${id}/retry`), {}, { token }), 404);
    }
    assertError(await api.post(path(hook.id, "/test"), {}, { token: designer }), 403, "INSUFFICIENT_ROLE");
  });

  it("end with their webhook: nothing more is sent", async () => {
    answer = { status: 500, text: "no" };
    const hook = await aWebhook();
    await aPlayer();
    await eventually(() => toHook(hook).length === 1, { timeoutMs: 60_000 });
    must(await api.delete(path(hook.id), owner), 200);
    await aPlayer();
    const witness = await aWebhook();
    answer = { status: 200, text: "" };
    await aPlayer();
    await ended(witness.id, "success");
    assert.equal(toHook(hook).length, 1);
    assertError(await api.get(path(hook.id, "/deliveries"), owner), 404);
  });
});
