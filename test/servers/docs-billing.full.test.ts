import assert from "node:assert/strict";
import { aTenant, startApp } from "../support/app/app.ts";
import { putOnPlan } from "../support/app/plans.ts";
import { runSteps, stepsOf } from "../support/documents/documents.ts";
import { sharedFakeStripe } from "../support/providers/fake-stripe.ts";
import { skipWithout } from "../support/made.ts";
import { pluck } from "../support/pluck.ts";

const BILLING = "docs/guides/billing.md";

describe("the commands of the guide to billing", function () {
  before(function () {
    skipWithout(this, "bash", "curl");
  });

  it("show what is used, and begin a checkout of the plan", async () => {
    const api = await startApp();
    const tenant = await aTenant(api);
    await putOnPlan(api, tenant.tenantId, "FREE");
    assert.ok(stepsOf(BILLING).length >= 2);
    await runSteps(BILLING, {
      PATH: process.env["PATH"],
      HOME: process.env["HOME"],
      URL: api.url,
      TOKEN: tenant.token,
      CONSOLE_URL: "https://console.test.example",
    });
    const stripe = await sharedFakeStripe();
    const customer = [...stripe.customers.values()].find(({ email }) => email === tenant.email);
    const sessions = [...stripe.sessions.values()].filter((one) => one.customer === customer?.["id"]);
    assert.deepEqual(pluck(sessions, "price", "status"), [["price_pro_m", "open"]]);
  });
});
