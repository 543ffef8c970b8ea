import assert from "node:assert/strict";
import { sql } from "kysely";
import { readConfig } from "../../src/config.ts";
import { tellUsage } from "../../src/domain/accounts/billing/usage-notices.ts";
import { monthOf, noteUsageChange } from "../../src/domain/kernel/work.ts";
import { type Answer, aTenant, startApp, type Tenant } from "../support/app/app.ts";
import { aMember } from "../support/app/member.ts";
import { putOnPlan } from "../support/app/plans.ts";
import { assertError } from "../support/http/assert-error.ts";
import { must } from "../support/http/client.ts";
import { aMailTo } from "../support/mail/mailbox.ts";
import { anAdmin } from "../support/app/admin.ts";
import { madeOnce } from "../support/made.ts";

describe("a smaller plan", () => {
  let tenant: Tenant;
  let admin: string;
  const api = madeOnce(startApp);
  before(async () => {
    ({ token: admin } = await anAdmin(api));
  });
  beforeEach(async () => {
    tenant = await aTenant(api);
  });

  const mine = () => ({ token: tenant.token });
  const plan = async (to: string, planOverrides: object = {}): Promise<void> => {
    const path = `/api/v1/superadmin/tenants/${tenant.tenantId}`;
    must(await api.patch(path, { plan: to, planOverrides }, { token: admin }), 200);
  };
  const aWebhook = async (): Promise<string> => {
    const body = { url: "https://hooks.example.com/in", events: ["*"] };
    return must(await api.post("/api/v1/webhooks", body, { token: tenant.token }), 201).id;
  };
  type Shown = { id: string; status: string; disabledReason: string | null };
  const webhooks = async (): Promise<Map<string, Shown>> => {
    const { data } = must(await api.get("/api/v1/webhooks", { token: tenant.token }), 200);
    return new Map(data.map((one: Shown) => [one.id, one]));
  };
  const statuses = async (ids: readonly string[]): Promise<(string | undefined)[]> => {
    const all = await webhooks();
    return ids.map((id) => all.get(id)?.status);
  };
  const change = (id: string, status: string): Promise<Answer> =>
    api.patch(`/api/v1/webhooks/${id}`, { status }, { token: tenant.token });

  /** Asserts that the plan has no room. @returns the limit, and what is used of it */
  const refused = async (path: string, body: object): Promise<string> => {
    const answer = await api.post(`/api/v1${path}`, body, mine());
    assertError(answer, 402, "PLAN_LIMIT_EXCEEDED");
    const [{ field, message }] = answer.body.error.details;
    return `${field}: ${message}`;
  };

  it("pauses the youngest webhooks, resumes them with a larger plan, and deletes none", async () => {
    const ids: string[] = [];
    for (let n = 0; n < 4; n++) ids.push(await aWebhook());
    must(await change(ids[1]!, "PAUSED"), 200);
    await plan("PRO", { webhooks: 2 });
    assert.deepEqual(await statuses(ids), ["ACTIVE", "PAUSED", "ACTIVE", "PAUSED"]);
    const all = await webhooks();
    assert.equal(all.get(ids[3]!)!.disabledReason, "The plan has no room for it");
    assert.equal(all.get(ids[1]!)!.disabledReason, null);
    // There is no way round it.
    assertError(await change(ids[3]!, "ACTIVE"), 402, "PLAN_LIMIT_EXCEEDED");
    // But who pauses another makes room.
    must(await change(ids[0]!, "PAUSED"), 200);
    must(await change(ids[3]!, "ACTIVE"), 200);
    assert.deepEqual(await statuses(ids), ["PAUSED", "PAUSED", "ACTIVE", "ACTIVE"]);
    // Whoever paused it, or if it was disabled.
    assertError(await change(ids[0]!, "ACTIVE"), 402, "PLAN_LIMIT_EXCEEDED");
    await api.sql`update webhooks set status = 'DISABLED' where id = ${ids[1]!}::uuid`;
    assertError(await change(ids[1]!, "ACTIVE"), 402, "PLAN_LIMIT_EXCEEDED");
    must(await change(ids[2]!, "ACTIVE"), 200);
    await api.sql`update webhooks set status = 'PAUSED' where id = ${ids[1]!}::uuid`;
    await plan("FREE");
    await putOnPlan(api, tenant.tenantId, "PRO", { webhooks: 0 });
    await plan("PRO", { webhooks: null });
    // Those that people paused stay so.
    assert.deepEqual(await statuses(ids), ["PAUSED", "PAUSED", "ACTIVE", "ACTIVE"]);
  });

  it("keeps projects and members, adds none, and tells OWNERs and ADMINs what is over", async () => {
    for (let n = 0; n < 3; n++) must(await api.post("/api/v1/projects", { name: `Game ${n}` }, mine()), 201);
    const { userId, token } = await aMember(api, tenant.tenantId, "ADMIN");
    await aMember(api, tenant.tenantId, "VIEWER");
    const hook = await aWebhook();
    await plan("FREE");
    const { text = "" } = await aMailTo(tenant.email, /plan is now FREE/);
    for (const line of [
      "from ENTERPRISE to FREE",
      "There are 4 projects, and the plan has room for 1: all stay, and none can be added.",
      "There are 3 members and invitations, and the plan has room for 2",
      "1 webhooks were paused",
      "Nobody can sign in through your identity provider any more",
    ])
      assert.ok(text.replaceAll(/\s+/g, " ").includes(line), `${line} in ${text}`);
    const { email } = must(await api.get(`/api/v1/team/members/${userId}`, { token }), 200);
    await aMailTo(email, /plan is now FREE/);
    assert.equal(must(await api.get("/api/v1/projects", mine()), 200).data.length, 4);
    const { projects, members } = must(await api.get("/api/v1/tenant", mine()), 200).usage;
    assert.deepEqual([projects, members], [4, 3]);
    assert.equal(await refused("/projects", { name: "Game 9" }), "projects: limit 1, used 4");
    const invitation = { email: "new@example.com", role: "VIEWER" };
    assert.equal(await refused("/team/invitations", invitation), "members: limit 2, used 3");
    must(
      await api.post("/api/v1/events", { externalUserId: "ada", eventType: "goal" }, { key: tenant.key }),
      200,
    );
    await plan("ENTERPRISE");
    assert.deepEqual(await statuses([hook]), ["ACTIVE"]);
  });

  it("says of webhooks and keys what their limit is, and how much is used, also before", async () => {
    await aWebhook();
    const hook = await aWebhook();
    must(await change(hook, "PAUSED"), 200);
    await plan("ENTERPRISE", { webhooks: 1, activeKeysPerProject: 1, customDomains: 3 });
    const another = { url: "https://hooks.example.com/in", events: ["*"] };
    assert.equal(await refused("/webhooks", another), "webhooks: limit 1, used 2");
    const resumed = await change(hook, "ACTIVE");
    assert.deepEqual(resumed.body.error.details, [{ field: "webhooks", message: "limit 1, used 1" }]);
    const keys = `/projects/${tenant.projectId}/api-keys`;
    assert.equal(await refused(keys, { name: "Second" }), "activeKeysPerProject: limit 1, used 1");
    const { items } = must(await api.get("/api/v1/billing/usage", mine()), 200);
    type Item = { metric: string; used: number; limit: number };
    const shown = items.map((item: Item) => `${item.metric} ${item.used}/${item.limit}`);
    assert.deepEqual(shown.slice(-3), ["webhooks 2/1", "activeKeysPerProject 1/1", "customDomains 0/3"]);
  });

  it("mails at 80 and at 100 percent, once a month each, however often it looks", async () => {
    await putOnPlan(api, tenant.tenantId, "STARTER", { eventsPerMonth: 10, activePlayersPerMonth: 4 });
    const use = async (events: number, players: number): Promise<void> => {
      await api.app.transact(({ db, serverNow }) =>
        sql`insert into usage_counters (tenant_id, month, slot, events, players)
          values (${tenant.tenantId}, ${monthOf(serverNow)}, 0, ${events}, ${players})
          on conflict (tenant_id, month, slot) do update set events = excluded.events,
            players = excluded.players`.execute(db),
      );
      await api.app.transact((work) => noteUsageChange(work, tenant.tenantId));
      for (let n = 0; n < 3; n++) await api.app.transact((work) => tellUsage(work, api.app.mail));
    };
    const mails = async (): Promise<string[]> => {
      const log = must(
        await api.get("/api/v1/email-logs?limit=100&sort=createdAt&order=asc", mine()),
        200,
      ).data;
      return log
        .map(({ template }: { template: string }) => template)
        .filter((template: string) => template.startsWith("usage-"));
    };
    await use(7, 3);
    assert.deepEqual(await mails(), []);
    await use(8, 3);
    assert.deepEqual(await mails(), ["usage-80"]);
    await use(9, 4);
    assert.deepEqual(await mails(), ["usage-80", "usage-100"]);
    await use(12, 40);
    assert.deepEqual(await mails(), ["usage-80", "usage-100", "usage-100"]);
    const { text = "" } = await aMailTo(tenant.email, /events are used up/);
    assert.match(
      text.replaceAll(/\s+/g, " "),
      /12 of the 10 events .* your plan STARTER .* More than 12 are refused/,
    );
    // Another month begins anew.
    await api.sql`update usage_notices set month = month - 1 where tenant_id = ${tenant.tenantId}`;
    await use(9, 0);
    assert.equal((await mails()).length, 4);
  });

  it("mails of events that are sent, a limit that is lowered, and nothing that did not change", async () => {
    await putOnPlan(api, tenant.tenantId, "FREE", { eventsPerMonth: 100 });
    const told = async (): Promise<number> => {
      await api.app.transact((work) => tellUsage(work, api.app.mail));
      const { data } = must(await api.get("/api/v1/email-logs?limit=100", mine()), 200);
      return data.filter(({ template }: { template: string }) => template.startsWith("usage-")).length;
    };
    const send = async (count: number): Promise<void> => {
      const events = Array.from({ length: count }, () => ({ externalUserId: "ada", eventType: "goal" }));
      must(await api.post("/api/v1/events/batch", { events }, { key: tenant.key }), 200);
    };
    await send(78);
    assert.equal(await told(), 0);
    // One by one, within the room that was given before.
    for (let n = 0; n < 2; n++) await send(1);
    assert.equal(await told(), 1);
    await send(19);
    assert.equal(await told(), 1);
    await send(1);
    assert.equal(await told(), 2);
    const other = await aTenant(api);
    const body = { events: Array.from({ length: 9 }, () => ({ externalUserId: "bo", eventType: "goal" })) };
    must(await api.post("/api/v1/events/batch", body, { key: other.key }), 200);
    tenant = other;
    assert.equal(await told(), 0);
    await plan("FREE", { eventsPerMonth: 10 });
    assert.equal(await told(), 1);
  });
});

describe("settings of billing", () => {
  const STRIPE = {
    STRIPE_SECRET_KEY: "sk_test_1234",
    STRIPE_WEBHOOK_SECRETS: "whsec_12345678",
    STRIPE_PRICES: "STARTER_MONTHLY=price_1, PRO_YEARLY=price_2",
  };
  const refused = (env: Record<string, string>, message: RegExp): void => {
    assert.throws(() => readConfig(env), message);
  };

  it("sell plans, with FREE to begin with, or nothing", () => {
    const { billing, defaultPlan } = readConfig(STRIPE);
    assert.deepEqual(billing!.prices, [
      { plan: "STARTER", interval: "monthly", priceId: "price_1" },
      { plan: "PRO", interval: "yearly", priceId: "price_2" },
    ]);
    assert.equal(defaultPlan, "FREE");
    assert.equal(readConfig({ ...STRIPE, DEFAULT_PLAN: "PRO" }).defaultPlan, "PRO");
    const none = readConfig({});
    assert.deepEqual([none.billing, none.defaultPlan], [undefined, "ENTERPRISE"]);
  });

  it("are refused where they are wrong, lack another, or are for tests", () => {
    refused({ ...STRIPE, STRIPE_SECRET_KEY: "pk_test_1234" }, /STRIPE_SECRET_KEY/);
    refused({ ...STRIPE, STRIPE_WEBHOOK_SECRETS: "" }, /STRIPE_WEBHOOK_SECRETS/);
    refused({ ...STRIPE, STRIPE_PRICES: "" }, /STRIPE_PRICES/);
    refused({ ...STRIPE, STRIPE_PRICES: "FREE_MONTHLY=price_1" }, /STRIPE_PRICES/);
    refused({ ...STRIPE, STRIPE_API_BASE: "ftp://x" }, /STRIPE_API_BASE/);
    const production = {
      ...STRIPE,
      NODE_ENV: "production",
      PUBLIC_URL: "https://x.example",
      EMAIL_MODE: "off",
    };
    readConfig(production);
    refused({ ...production, STRIPE_API_BASE: "http://127.0.0.1:1" }, /STRIPE_API_BASE.*production refuses/s);
  });
});
