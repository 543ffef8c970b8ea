import assert from "node:assert/strict";
import { aTenant } from "../support/app/app.ts";
import { BILLING, billingStage, CONSOLE, DAY } from "../support/billing/stage.ts";
import { assertError } from "../support/http/assert-error.ts";
import { must } from "../support/http/client.ts";
import { aMailTo } from "../support/mail/mailbox.ts";
import { pluck } from "../support/pluck.ts";

describe("billing by Stripe", () => {
  const stage = billingStage();

  describe("a purchase", () => {
    it("begins on FREE, and the plan follows the payment", async () => {
      assert.deepEqual(await stage.subscription().then(({ updatedAt: _updatedAt, ...rest }) => rest), {
        plan: "FREE",
        status: "NONE",
        subscribedPlan: null,
        interval: null,
        currentPeriodStart: null,
        currentPeriodEnd: null,
        cancelAtPeriodEnd: false,
        trialEnd: null,
        graceEnd: null,
      });
      const { url, sessionId } = must(await stage.checkout({ plan: "PRO", interval: "yearly" }), 200);
      assert.match(url, /^https:\/\/checkout\.stripe\.com\//);
      assert.equal(stage.stripe.sessions.get(sessionId)!.price, "price_pro_y");
      assert.equal((await stage.subscription()).plan, "FREE");
      stage.stripe.pay(sessionId);
      await stage.ring();
      await stage.becomes("PRO", "ACTIVE");
      const { subscribedPlan, interval, currentPeriodEnd } = await stage.subscription();
      assert.deepEqual([subscribedPlan, interval], ["PRO", "yearly"]);
      const inDays = (Date.parse(currentPeriodEnd) - Date.now()) / 1_000 / DAY;
      assert.ok(inDays > 29 && inDays < 31);
      await aMailTo(stage.tenant.email, /plan is now PRO/);
      const log = must(await stage.api.get("/api/v1/audit-log", { token: stage.tenant.token }), 200).data;
      const actions = log.map(({ action }: { action: string }) => action);
      for (const action of ["billing.checkout_begun", "billing.subscription_changed", "tenant.plan_changed"])
        assert.ok(actions.includes(action), action);
    });

    it("shows what plans cost", async () => {
      const { data } = must(await stage.api.get(`${BILLING}/plans`), 200);
      assert.deepEqual(pluck(data, "prices"), [
        [],
        [{ interval: "monthly", currency: "eur", unitAmount: 2_900 }],
        [
          { interval: "monthly", currency: "eur", unitAmount: 9_900 },
          { interval: "yearly", currency: "eur", unitAmount: 99_000 },
        ],
        [],
      ]);
    });

    it("is refused to a tenant with a subscription, which the portal changes", async () => {
      await stage.bought();
      assertError(await stage.checkout({ plan: "PRO" }), 409, "SUBSCRIPTION_EXISTS");
      const body = { returnUrl: `${CONSOLE}/billing` };
      const { url } = must(
        await stage.api.post(`${BILLING}/portal`, body, { token: stage.tenant.token }),
        200,
      );
      assert.match(url, /^https:\/\/billing\.stripe\.com\//);
    });

    it("knows of a subscription that no event has told of", async () => {
      stage.stripe.pay(await stage.begin());
      assertError(await stage.checkout(), 409, "SUBSCRIPTION_EXISTS");
      assert.equal((await stage.subscription()).plan, "STARTER");
    });

    it("has one customer, however many begin at once, and one checkout that can be paid", async () => {
      const answers = await Promise.all(Array.from({ length: 5 }, () => stage.checkout()));
      assert.deepEqual([...new Set(answers.map(({ status }) => status))], [200]);
      assert.equal(
        [...stage.stripe.customers.values()].filter(({ email }) => email === stage.tenant.email).length,
        1,
      );
      const last = await stage.begin({ plan: "PRO" });
      const open = [...stage.stripe.sessions.values()].filter(
        ({ customer, status }) => customer === stage.customerOf(stage.tenant) && status === "open",
      );
      assert.deepEqual(pluck(open, "id"), [last]);
    });

    it("of two that were paid all the same keeps the newer, credits the older, tells the OWNER", async () => {
      stage.stripe.pay(await stage.begin());
      const [first] = [...stage.stripe.subscriptions.values()].slice(-1);
      const second = stage.stripe.subscribe(stage.customerOf(stage.tenant), "price_pro_m");
      await stage.ring();
      await stage.becomes("PRO", "ACTIVE");
      assert.equal(first!.status, "canceled");
      assert.deepEqual(first!["ended"], { prorate: "true", invoice_now: "true" });
      assert.equal(stage.stripe.subscriptions.get(second.id)!.status, "active");
      const mail = await aMailTo(stage.tenant.email, /second subscription was ended/i);
      assert.ok(mail.text!.includes(first!.id));
    });

    it("sends nobody to a foreign page", async () => {
      for (const successUrl of [
        "https://evil.example/billing",
        `${CONSOLE}.evil.example/`,
        `https://console.test.example@evil.example/`,
        "javascript:alert(1)",
        "/billing",
        `http://console.test.example/`,
      ]) {
        assertError(await stage.checkout({ successUrl }), 400, "REDIRECT_URI_NOT_ALLOWED");
        assertError(await stage.checkout({ cancelUrl: successUrl }), 400, "REDIRECT_URI_NOT_ALLOWED");
        const portal = await stage.api.post(
          `${BILLING}/portal`,
          { returnUrl: successUrl },
          { token: stage.tenant.token },
        );
        assertError(portal, 400, "REDIRECT_URI_NOT_ALLOWED");
      }
      assertError(await stage.checkout({ plan: "ENTERPRISE" }), 400, undefined);
      assertError(await stage.checkout({ interval: "yearly" }), 400, undefined);
      const early = await stage.api.post(
        `${BILLING}/portal`,
        { returnUrl: CONSOLE },
        { token: stage.tenant.token },
      );
      assertError(early, 409, "INVALID_STATE");
    });

    it("answers 502 while Stripe is away, shows what was read last, is done once it is back", async () => {
      stage.stripe.pay(await stage.begin());
      stage.stripe.fail(500);
      await stage.ring();
      assertError(await stage.checkout(), 502, "STRIPE_ERROR");
      assertError(
        await stage.api.get(`${BILLING}/invoices`, { token: stage.tenant.token }),
        502,
        "STRIPE_ERROR",
      );
      assert.equal((await stage.subscription()).status, "NONE");
      stage.stripe.fail(undefined);
      await stage.ring();
      await stage.becomes("STARTER", "ACTIVE");
    });

    it("lists invoices by page, and no other tenant's", async () => {
      await stage.bought();
      for (let n = 0; n < 2; n++)
        stage.stripe.subscribe(stage.customerOf(stage.tenant), "price_starter_m", { status: "canceled" });
      const other = await aTenant(stage.api);
      await stage.bought({}, other);
      const list = async (query = "", of = stage.tenant) =>
        must(await stage.api.get(`${BILLING}/invoices${query}`, { token: of.token }), 200);
      assert.equal((await list("", other)).data.length, 1);
      const first = await list("?limit=2");
      assert.equal(first.data.length, 2);
      const rest = await list(`?limit=2&cursor=${first.pagination.nextCursor}`);
      assert.deepEqual([rest.data.length, rest.pagination.nextCursor], [1, null]);
      const { status, total, currency, amountPaid } = rest.data[0];
      assert.deepEqual([status, total, currency, amountPaid], ["paid", 2_900, "eur", 2_900]);
    });
  });
});
