import assert from "node:assert/strict";
import { LIMITS } from "../../src/domain/accounts/rate-limits/limiter.ts";
import { aTenant } from "../support/app/app.ts";
import { BILLING, billingStage, CONSOLE } from "../support/billing/stage.ts";
import { eventually } from "../support/eventually.ts";
import { assertError } from "../support/http/assert-error.ts";
import { must } from "../support/http/client.ts";
import { aMailTo } from "../support/mail/mailbox.ts";

describe("customers of Stripe", () => {
  const stage = billingStage();
  const mine = () => ({ token: stage.tenant.token });
  const customer = () => stage.stripe.customers.get(stage.customerOf(stage.tenant))!;
  const portal = () => stage.api.post(`${BILLING}/portal`, { returnUrl: CONSOLE }, mine());

  it("have the name that the tenant has now, and the address of the OWNER who buys", async () => {
    await stage.begin();
    must(await stage.api.patch("/api/v1/tenant", { name: "Another name" }, mine()), 200);
    await eventually(() => customer()["name"] === "Another name");
    const { tenantId } = stage.tenant;
    await stage.api.sql`update users set email = 'new-' || email where tenant_id = ${tenantId}`;
    const id = stage.customerOf(stage.tenant);
    await stage.begin();
    assert.equal(stage.stripe.customers.get(id)!["email"], `new-${stage.tenant.email}`);
  });

  it("that were deleted at Stripe have nothing any more, and buy as somebody new", async () => {
    const { id } = await stage.bought({ plan: "PRO" });
    const gone = stage.customerOf(stage.tenant);
    // As in the dashboard, which ends subscriptions too; no event of it arrives.
    stage.stripe.subscriptions.get(id)!.status = "canceled";
    const [event] = stage.eventsOf(stage.tenant);
    stage.stripe.customers.delete(gone);
    assertError(await portal(), 409, "INVALID_STATE");
    must(await stage.deliver(event!), 200);
    await stage.becomes("FREE", "CANCELED");
    const sessionId = await stage.begin();
    assert.notEqual(stage.customerOf(stage.tenant), gone);
    stage.stripe.pay(sessionId);
    await stage.ring();
    await stage.becomes("STARTER", "ACTIVE");
    must(await portal(), 200);
  });

  it("open 30 checkouts and portals an hour, each tenant for itself", async () => {
    await stage.begin();
    for (let n = 1; n < LIMITS.billing.points; n++) must(await portal(), 200);
    const refused = await portal();
    assertError(refused, 429, "BILLING_RATE");
    assert.ok(Number(refused.headers.get("retry-after")) > 0);
    assertError(await stage.checkout(), 429, "BILLING_RATE");
    must(await stage.checkout({}, await aTenant(stage.api)), 200);
  });

  it("are told of a second subscription that was ended before a crash", async () => {
    const first = await stage.bought();
    const { tenantId } = stage.tenant;
    // As if the process had died after it was ended, and before it was told.
    await stage.api.sql`insert into billing_endings (subscription_id, tenant_id, created_at)
      values (${first.id}, ${tenantId}, now())`;
    stage.stripe.subscribe(stage.customerOf(stage.tenant), "price_pro_m");
    stage.stripe.change(first.id, { status: "canceled" });
    await stage.ring();
    await stage.becomes("PRO", "ACTIVE");
    const { text } = await aMailTo(stage.tenant.email, /second subscription was ended/i);
    assert.ok(text!.includes(first.id));
    // Once.
    await stage.rereadAfter(() => stage.ring());
    const { data } = must(await stage.api.get("/api/v1/audit-log?limit=100", mine()), 200);
    const told = data.filter(({ action }: { action: string }) => action === "billing.duplicate_ended");
    assert.equal(told.length, 1);
  });

  it("are told of by any number of signed events, and by few forged ones", async () => {
    await stage.begin();
    const event = { id: "evt_x", type: "x", created: 0, body: '{"id":"evt_x","object":"event"}' };
    const body = JSON.stringify({ ...JSON.parse(event.body), type: "x", data: { object: { object: "x" } } });
    const limit = LIMITS.anonymous.points;
    let forged = 0;
    for (let n = 0; n < limit + 1; n++) {
      const { status } = await stage.deliver({ ...event, body }, { signature: `t=1,v1=${n}` });
      if (status === 429) break;
      assert.equal(status, 400);
      forged++;
    }
    assert.ok(forged <= limit);
    assertError(await stage.deliver({ ...event, body }, { signature: "" }), 429, "IP_RATE");
    for (let n = 0; n < 20; n++) must(await stage.deliver({ ...event, body }), 200);
    assertError(await stage.deliver({ ...event, body }, { signature: "t=1,v1=0" }), 429, "IP_RATE");
  });
});
