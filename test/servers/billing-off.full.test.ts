import assert from "node:assert/strict";
import {
  type Answer,
  aTenant,
  startTestApp,
  type Tenant,
  testConfig,
  type TestApp,
} from "../support/app/app.ts";
import { migratedCluster } from "../support/domain/migrated-cluster.ts";
import { assertError } from "../support/http/assert-error.ts";
import { must } from "../support/http/client.ts";
import { pluck } from "../support/pluck.ts";

describe("a server without Stripe", () => {
  let api: TestApp;
  let tenant: Tenant;
  before(async () => {
    const config = testConfig({ EMAIL_MODE: "off" });
    api = await startTestApp(config, { inMemory: true, cluster: await migratedCluster() });
    tenant = await aTenant(api);
  });
  after(() => api.stop());

  const get = async (path: string) => must(await api.get(`/api/v1${path}`, { token: tenant.token }), 200);
  const post = (path: string, body: object): Promise<Answer> =>
    api.post(`/api/v1/billing/${path}`, body, { token: tenant.token });

  it("gives everything to everybody, and limits no events", async () => {
    const { plan, status } = await get("/billing/subscription");
    assert.deepEqual([plan, status], ["ENTERPRISE", "NONE"]);
    const { features, limits } = await get("/tenant");
    assert.deepEqual(features, ["webhooks", "customDomains", "sso"]);
    assert.deepEqual([limits.eventsPerMonth, limits.activePlayersPerMonth], [null, null]);
    const events = Array.from({ length: 30 }, () => ({ externalUserId: "ada", eventType: "goal" }));
    must(await api.post("/api/v1/events/batch", { events }, { key: tenant.key }), 200);
    const { items } = await get("/billing/usage");
    assert.deepEqual(items[0], {
      metric: "eventsPerMonth",
      used: 30,
      limit: null,
      percent: null,
      refusedAbove: null,
    });
  });

  it("sells nothing", async () => {
    const page = "https://console.example.com/billing";
    const order = { plan: "PRO", interval: "monthly", successUrl: page, cancelUrl: page };
    assertError(await post("checkout", order), 503, "BILLING_NOT_CONFIGURED");
    assertError(await post("portal", { returnUrl: page }), 503, "BILLING_NOT_CONFIGURED");
    assertError(await api.post("/api/v1/billing/webhook", {}), 503, "BILLING_NOT_CONFIGURED");
    assert.deepEqual((await get("/billing/invoices")).data, []);
    const { data } = await get("/billing/plans");
    assert.deepEqual(pluck(data, "prices"), [[], [], [], []]);
  });
});
