import assert from "node:assert/strict";
import { readConfig } from "../../src/config.ts";
import { createStripe } from "../../src/platform/stripe.ts";
import { sharedFakeStripe, stripeSettings } from "../support/providers/fake-stripe.ts";

describe("prices at Stripe", () => {
  it("are those that Stripe knows: one that it does not know hides no other, and is in the log", async () => {
    const settings = stripeSettings((await sharedFakeStripe()).url);
    const STRIPE_PRICES = "STARTER_MONTHLY=price_starter_m,PRO_MONTHLY=price_gone,PRO_YEARLY=price_pro_y";
    const { billing } = readConfig({ ...settings, STRIPE_PRICES });
    const lines: unknown[] = [];
    const log = { error: (line: unknown) => lines.push(line), warn: () => undefined } as never;
    const costs = await createStripe(billing!, log).costs();
    assert.deepEqual([...costs.keys()], ["price_starter_m", "price_pro_y"]);
    assert.deepEqual(lines, [{ prices: ["price_gone"] }]);
  });
});

describe("calls to Stripe", () => {
  it("that lack the id they are about are not sent", async () => {
    const { url, requests } = await sharedFakeStripe();
    const { billing } = readConfig(stripeSettings(url));
    const stripe = createStripe(billing!, { error: () => undefined, warn: () => undefined } as never);
    const sent = requests.length;
    const there = "https://console.test.example/billing";
    const calls = [
      stripe.updateCustomer("", { name: "Acme", email: "owner@acme.example" }),
      stripe.createCheckout({ customerId: "", priceId: "price_pro_m", successUrl: there, cancelUrl: there }),
      stripe.expireCheckouts(""),
      stripe.createPortal({ customerId: "", returnUrl: there }),
      stripe.subscriptionsOf(""),
      stripe.endSubscription(""),
      stripe.invoicesOf({ customerId: "", limit: 10 }),
    ];
    for (const { status } of await Promise.allSettled(calls)) assert.equal(status, "rejected");
    assert.deepEqual(requests.slice(sent), []);
  });
});
