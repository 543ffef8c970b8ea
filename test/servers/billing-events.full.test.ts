import assert from "node:assert/strict";
import { deleteDueTenants } from "../../src/domain/accounts/tenants/tenants.ts";
import { reconcileBilling } from "../../src/jobs/due-work.ts";
import { anAdmin } from "../support/app/admin.ts";
import { aTenant } from "../support/app/app.ts";
import { putOnPlan } from "../support/app/plans.ts";
import { billingStage, DAY, type Posted, seconds } from "../support/billing/stage.ts";
import { eventually } from "../support/eventually.ts";
import { seeded } from "../support/seed.ts";
import { assertError } from "../support/http/assert-error.ts";
import { must } from "../support/http/client.ts";
import { aMailTo } from "../support/mail/mailbox.ts";
import { type FakeEvent, OLD_STRIPE_SECRET, signStripe } from "../support/providers/fake-stripe.ts";

describe("what Stripe tells", () => {
  const stage = billingStage();
  const random = seeded();

  describe("events", () => {
    /** What a stage.tenant goes through, and where each step leads to. */
    const live = async (): Promise<FakeEvent[]> => {
      const { id } = stage.stripe.pay(await stage.begin());
      stage.stripe.change(id, { status: "past_due" }, { period: [0, 30 * DAY] });
      stage.stripe.change(id, { status: "active" });
      stage.stripe.setPrice(id, "price_pro_m");
      return stage.eventsOf(stage.tenant);
    };

    it("in any order, doubled and late lead to what Stripe says now", async () => {
      const events = await live();
      const shuffled = random.shuffle([...events, ...events]);
      const answers = await Promise.all(shuffled.map((event) => stage.deliver(event)));
      assert.ok(answers.every(({ status }) => status === 200));
      await stage.becomes("PRO", "ACTIVE");
      await stage.rereadAfter(async () => {
        for (const event of events.toReversed()) must(await stage.deliver(event), 200);
      });
      await stage.becomes("PRO", "ACTIVE");
    });

    it("that are lost are found out", async () => {
      await live();
      assert.equal((await stage.subscription()).plan, "FREE");
      await reconcileBilling(stage.api.app);
      await stage.becomes("PRO", "ACTIVE");
      const { id } = [...stage.stripe.subscriptions.values()].at(-1)!;
      stage.stripe.change(id, { status: "canceled" });
      await reconcileBilling(stage.api.app);
      await stage.becomes("FREE", "CANCELED");
    });

    it("that are lost are found out while a payment fails, too", async () => {
      const { id } = await stage.bought();
      stage.stripe.change(id, { status: "past_due" }, { period: [0, 30 * DAY] });
      await stage.rereadAfter(() => stage.ring());
      await eventually(async () => (await stage.subscription()).status === "PAST_DUE");
      stage.stripe.change(id, { status: "canceled" });
      await reconcileBilling(stage.api.app);
      await stage.becomes("FREE", "CANCELED");
    });

    it("of what else the operator sells a customer neither count nor are ended", async () => {
      const paid = await stage.bought();
      const customer = stage.customerOf(stage.tenant);
      const other = stage.stripe.subscribe(customer, "price_of_something_else");
      await stage.rereadAfter(() => stage.ring());
      const statusOf = (id: string) => stage.stripe.subscriptions.get(id)!.status;
      assert.deepEqual([statusOf(paid.id), statusOf(other.id)], ["active", "active"]);
      assert.equal((await stage.subscription()).status, "ACTIVE");
    });

    it("of a first payment that is not done take no plan that was given, however often", async () => {
      await stage.begin();
      await putOnPlan(stage.api, stage.tenant.tenantId, "STARTER");
      const customer = stage.customerOf(stage.tenant);
      const { id } = stage.stripe.subscribe(customer, "price_pro_m", { status: "incomplete" });
      for (let times = 0; times < 2; times++) await stage.rereadAfter(() => stage.ring());
      await stage.becomes("STARTER", "INCOMPLETE");
      stage.stripe.change(id, { status: "incomplete_expired" });
      await stage.rereadAfter(() => stage.ring());
      await stage.becomes("STARTER", "CANCELED");
    });

    it("are ended with the tenant, which nobody could pay for any more", async () => {
      const { id } = await stage.bought();
      const { tenantId } = stage.tenant;
      const other = stage.stripe.subscribe(stage.customerOf(stage.tenant), "price_of_something_else");
      await stage.api
        .sql`update tenants set delete_after = now() - interval '1 s' where id = ${tenantId}::uuid`;
      await eventually(async () => {
        await stage.api.app.transact(deleteDueTenants);
        return stage.stripe.subscriptions.get(id)!.status === "canceled";
      });
      const isDone = async (): Promise<boolean> => {
        const rows = await stage.api.sql<{ due: boolean }>`
          select due_at is not null as due from billing_customers
          where tenant_id = ${tenantId}::uuid`;
        return rows[0]?.due === false;
      };
      await eventually(isDone);
      assert.equal(stage.stripe.subscriptions.get(other.id)!.status, "active", "sold elsewhere");
    });

    it("count by the reading that began last, however long another takes", async () => {
      const paid = await stage.bought();
      let release: (() => void) | undefined;
      stage.stripe.beforeList = async () => {
        stage.stripe.beforeList = undefined;
        await new Promise<void>((resolve) => (release = resolve));
      };
      // One reading has begun, and has seen the subscription active.
      await stage.ring();
      await eventually(() => release !== undefined);
      stage.stripe.change(paid.id, { status: "canceled" });
      // A second one overtakes it.
      const again = await stage.checkout();
      assert.equal(again.status, 200);
      assert.equal((await stage.subscription()).status, "CANCELED");
      release!();
      // One is read after another: the next reading comes when the slow one was stored, or was not.
      await stage.rereadAfter(() => stage.ring());
      await stage.becomes("FREE", "CANCELED");
    });

    it("that are forged, altered, old, or from the future are refused, and change nothing", async () => {
      stage.stripe.pay(await stage.begin());
      const event = stage.eventsOf(stage.tenant).at(-1)!;
      const refused = async (posted: Posted): Promise<void> =>
        assertError(await stage.deliver(event, posted), 400, "SIGNATURE_INVALID");
      await refused({ signature: "" });
      await refused({ signature: "t=,v1=" });
      await refused({ secret: "whsec_of_somebody_else_entirely" });
      await refused({ body: event.body.replace("active", "paused") });
      await refused({ body: `${event.body} ` });
      await refused({ at: seconds() - 301 });
      await refused({ at: seconds() + 310 });
      await refused({ at: seconds() + 10 * 365 * DAY });
      await refused({ signature: `t=${seconds() + 999},${signStripe(event.body, seconds())}` });
      await refused({ signature: `${signStripe(event.body, seconds())},t=${seconds() + 999}` });
      await refused({ signature: signStripe(event.body, seconds()).replace("v1=", "v0=") });
      assertError(await stage.deliver(event, { body: "{" }), 400, "SIGNATURE_INVALID");
      assert.equal((await stage.subscription()).status, "NONE");
      must(await stage.deliver(event, { secret: OLD_STRIPE_SECRET }), 200);
      await stage.becomes("STARTER", "ACTIVE");
    });

    it("about customers that are not ours, or about none, are taken and do nothing", async () => {
      for (const object of [
        {
          object: "subscription",
          customer: "cus_of_another_server",
          metadata: { tenantId: stage.tenant.tenantId },
        },
        { object: "balance" },
        { object: "charge", customer: null },
      ]) {
        const body = JSON.stringify({ id: "evt_x", object: "event", type: "x", data: { object } });
        must(await stage.deliver({ id: "evt_x", type: "x", created: 0, body }), 200);
      }
      assert.equal((await stage.subscription()).status, "NONE");
    });

    it("of one tenant change no other", async () => {
      const other = await aTenant(stage.api);
      await stage.bought({ plan: "PRO" });
      assert.deepEqual(
        [(await stage.subscription(other)).plan, (await stage.subscription(other)).status],
        ["FREE", "NONE"],
      );
    });
  });

  describe("the plan", () => {
    it("is kept for 7 days while a payment fails, and FREE from then on, until it is paid", async () => {
      const { id } = await stage.bought({ plan: "PRO" });
      stage.stripe.change(id, { status: "past_due" }, { period: [-2 * DAY, 28 * DAY] });
      await stage.ring();
      await stage.becomes("PRO", "PAST_DUE");
      const { graceEnd } = await stage.subscription();
      const inDays = (Date.parse(graceEnd) - Date.now()) / 1_000 / DAY;
      assert.ok(inDays > 4.9 && inDays < 5.1, graceEnd);
      await aMailTo(stage.tenant.email, /payment for your plan failed/i);
      // The next period begins unpaid, too: that is no new time of grace, nor is leaving PAST_DUE.
      stage.stripe.change(id, { status: "past_due" }, { period: [0, 30 * DAY] });
      await stage.rereadAfter(() => stage.ring());
      stage.stripe.change(id, { status: "paused" });
      await stage.ring();
      await stage.becomes("FREE", "PAUSED");
      stage.stripe.change(id, { status: "past_due" });
      await stage.ring();
      await stage.becomes("PRO", "PAST_DUE");
      assert.equal((await stage.subscription()).graceEnd, graceEnd);
      // It ends by itself.
      await stage.api
        .sql`update billing_customers set past_due_since = now() - interval '7 days' + interval '2 seconds'
        where tenant_id = ${stage.tenant.tenantId}`;
      await stage.ring();
      await stage.becomes("FREE", "PAST_DUE");
      stage.stripe.change(id, { status: "active" });
      await stage.ring();
      await stage.becomes("PRO", "ACTIVE");
    });

    it("is kept for 7 days from a failure within a period", async () => {
      const { id } = await stage.bought({ plan: "PRO" });
      await stage.api.sql`update billing_customers set period_start = period_start - interval '20 days'
        where tenant_id = ${stage.tenant.tenantId}`;
      stage.stripe.change(id, {}, { period: [-20 * DAY, 10 * DAY] });
      await stage.rereadAfter(() => stage.ring());
      stage.stripe.change(id, { status: "past_due" });
      await stage.ring();
      await stage.becomes("PRO", "PAST_DUE");
      const { graceEnd } = await stage.subscription();
      const inDays = (Date.parse(graceEnd) - Date.now()) / 1_000 / DAY;
      assert.ok(inDays > 6.9 && inDays < 7.1, graceEnd);
    });

    it("follows every status", async () => {
      const { id } = await stage.bought();
      const steps: [Record<string, unknown>, string, string][] = [
        [{ status: "trialing", trial_end: seconds() + DAY }, "STARTER", "TRIALING"],
        [{ status: "paused" }, "FREE", "PAUSED"],
        [{ status: "active", pause_collection: { behavior: "void" } }, "FREE", "PAUSED"],
        [{ status: "active", pause_collection: null, cancel_at_period_end: true }, "STARTER", "ACTIVE"],
        [{ status: "unpaid" }, "FREE", "UNPAID"],
        [{ status: "incomplete" }, "FREE", "INCOMPLETE"],
        [{ status: "active", cancel_at_period_end: false }, "STARTER", "ACTIVE"],
        [{ status: "canceled" }, "FREE", "CANCELED"],
      ];
      for (const [change, plan, status] of steps) {
        stage.stripe.change(id, change);
        await stage.ring();
        await stage.becomes(plan, status);
      }
      // Bought again.
      await stage.bought({ plan: "PRO" });
    });

    it("of an old price stays, and one of a price that nobody knows changes nothing", async () => {
      await stage.begin();
      const { id } = stage.stripe.subscribe(stage.customerOf(stage.tenant), "price_pro_old");
      await stage.ring();
      await stage.becomes("PRO", "ACTIVE");
      stage.stripe.setPrice(id, "price_other");
      await stage.ring();
      await eventually(async () => (await stage.subscription()).subscribedPlan === null);
      assert.equal((await stage.subscription()).plan, "PRO");
    });

    it("ENTERPRISE, given by a super-admin, is not taken by Stripe", async () => {
      const { id } = await stage.bought();
      await putOnPlan(stage.api, stage.tenant.tenantId, "ENTERPRISE");
      stage.stripe.change(id, { status: "canceled" });
      await stage.ring();
      await stage.becomes("ENTERPRISE", "CANCELED");
      assertError(await stage.checkout(), 409, "SUBSCRIPTION_EXISTS");
    });

    it("is what a subscription that runs is for, as soon as a super-admin takes ENTERPRISE away", async () => {
      const admin = await anAdmin(stage.api);
      const path = `/api/v1/superadmin/tenants/${stage.tenant.tenantId}`;
      const put = async (plan: string) =>
        must(await stage.api.patch(path, { plan }, { token: admin.token }), 200);
      const { id } = await stage.bought();
      await put("ENTERPRISE");
      await put("FREE");
      await stage.becomes("STARTER", "ACTIVE");
      // One that has ended takes nothing that is given instead.
      await put("ENTERPRISE");
      stage.stripe.change(id, { status: "canceled" });
      await stage.ring();
      await stage.becomes("ENTERPRISE", "CANCELED");
      await put("PRO");
      const rows = await stage.api.sql`select from billing_customers
        where tenant_id = ${stage.tenant.tenantId}::uuid and due_at <= now()`;
      assert.equal(rows.length, 0);
      assert.equal((await stage.subscription()).plan, "PRO");
    });
  });
});
