import assert from "node:assert/strict";
import { Tenant as TenantRow } from "../../src/domain/accounts/tenants/tenant.ts";
import { aTenant, startApp } from "../support/app/app.ts";
import { assertError } from "../support/http/assert-error.ts";
import { must } from "../support/http/client.ts";
import { eventually, eventuallyHolds } from "../support/eventually.ts";
import { putOnPlan } from "../support/app/plans.ts";
import { madeOnce } from "../support/made.ts";

const URL_OF_NOBODY = "http://127.0.0.1:9/hook";

describe("webhooks", () => {
  const create = (body: object = {}, token = tenant.token) =>
    api.post("/api/v1/webhooks", { url: URL_OF_NOBODY, events: ["player.level_up"], ...body }, { token });
  const path = (id: string, rest = ""): string => `/api/v1/webhooks/${id}${rest}`;

  const api = madeOnce(startApp);
  const tenant = madeOnce(() => aTenant(api));

  it("are made with a secret that is shown once, listed, read, changed and deleted", async () => {
    const { token } = tenant;
    const made = must(await create({ description: "Level-ups" }), 201);
    assert.match(made.secret, /^whsec_[A-Za-z0-9+/]{43}=$/);
    assert.equal(made.secretHint, made.secret.slice(-4));
    assert.equal(made.status, "ACTIVE");
    const { secret: _secret, ...shown } = made;
    assert.deepEqual(must(await api.get(path(made.id), { token }), 200), shown);
    const { data } = must(await api.get("/api/v1/webhooks?limit=100", { token }), 200);
    assert.deepEqual(
      data.find(({ id }: { id: string }) => id === made.id),
      shown,
    );

    const change = { events: ["*", "custom.order.paid", "*"], description: null, status: "PAUSED" };
    const changed = must(await api.patch(path(made.id), change, { token }), 200);
    assert.deepEqual(changed.events, ["*", "custom.order.paid"]);
    assert.equal(changed.status, "PAUSED");
    assert.equal(changed.description, null);
    assert.equal(changed.url, URL_OF_NOBODY);

    assert.deepEqual(must(await api.delete(path(made.id), { token }), 200), { deleted: true });
    assertError(await api.get(path(made.id), { token }), 404);
    assertError(await api.patch(path(made.id), change, { token }), 404);
    assertError(await api.delete(path(made.id), { token }), 404);
  });

  it("take a secret of their owner's, and keep it to themselves", async () => {
    const { token } = tenant;
    const secret = "a-secret-of-the-owner-1234";
    const made = must(await create({ secret }), 201);
    assert.equal(made.secret, secret);
    const seen = [
      await api.get(path(made.id), { token }),
      await api.get("/api/v1/webhooks", { token }),
      await api.patch(path(made.id), { description: "x" }, { token }),
      await api.get("/api/v1/audit-log?limit=100", { token }),
    ];
    assert.doesNotMatch(JSON.stringify(seen.map(({ body }) => body as unknown)), new RegExp(secret));
    const rows = await api.sql`select w::text as text from webhooks w`;
    assert.doesNotMatch(JSON.stringify(rows), new RegExp(secret));
  });

  it("get a new secret, beside which the old one lives for a while", async () => {
    const { token } = tenant;
    const made = must(await create(), 201);
    const rotated = must(await api.post(path(made.id, "/rotate-secret"), {}, { token }), 200);
    assert.notEqual(rotated.secret, made.secret);
    assert.equal(rotated.secretHint, rotated.secret.slice(-4));
    const leftMs = Date.parse(rotated.previousSecretExpiresAt) - Date.now();
    assert.ok(leftMs > 86_000_000 && leftMs <= 86_400_000, String(leftMs));
    const atOnce = { gracePeriodSeconds: 0, secret: "another-secret-1234567" };
    const again = must(await api.post(path(made.id, "/rotate-secret"), atOnce, { token }), 200);
    assert.equal(again.secret, atOnce.secret);
    assert.equal(again.previousSecretExpiresAt, null);
  });

  it("are for plans that have them, as many as the plan says, and for approved tenants", async () => {
    const own = await aTenant(api);
    const refused = (status: number, reason: string): Promise<void> =>
      eventuallyHolds(async () => assertError(await create({}, own.token), status, reason));
    await putOnPlan(api, own.tenantId, "STARTER");
    await refused(402, "PLAN_FEATURE_UNAVAILABLE");
    await putOnPlan(api, own.tenantId, "PRO", { webhooks: 2 });
    const first = await eventually(async (): Promise<{ id: string }> =>
      must(await create({}, own.token), 201),
    );
    must(await create({}, own.token), 201);
    await refused(402, "PLAN_LIMIT_EXCEEDED");
    must(await api.delete(path(first.id), { token: own.token }), 200);
    must(await create({}, own.token), 201);
    await api.app.transact(({ em }) =>
      em.nativeUpdate(TenantRow, { id: own.tenantId }, { approvalStatus: "PENDING" }),
    );
    await refused(403, "APPROVAL_REQUIRED");
  }).timeout(40_000);

  it("that are paused come back, and only those that rest can be enabled", async () => {
    const { token } = tenant;
    const { id } = must(await create(), 201);
    const set = (status: string) => api.patch(path(id), { status }, { token });
    assert.equal(must(await set("PAUSED"), 200).status, "PAUSED");
    assert.equal(must(await set("PAUSED"), 200).status, "PAUSED");
    assert.equal(must(await set("ACTIVE"), 200).status, "ACTIVE");
    assertError(await set("DISABLED"), 400);
    assertError(await set("FAILED"), 400);
  });
});
