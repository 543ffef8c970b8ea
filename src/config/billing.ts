import type { z } from "zod";
import { INTERVALS, type PriceOf, SOLD_PLANS } from "../domain/accounts/billing/provider.ts";
import type { Rule } from "./rule.ts";

/** How plans are sold; undefined where none are. */
export type BillingSettings = {
  secretKey: string;
  /** Of the endpoint; several while one is rotated. */
  webhookSecrets: readonly string[];
  prices: readonly PriceOf[];
  /** For tests: another address than Stripe's. */
  apiBase: string | undefined;
};

const PRICE = new RegExp(
  `^(?<plan>${SOLD_PLANS.join("|")})_(?<interval>${INTERVALS.join("|")})=(?<priceId>price_\\w{1,200})$`,
  "i",
);

/** Parses `STARTER_MONTHLY=price_…,PRO_YEARLY=price_…`. */
export const pricesOf = (items: readonly string[], context: z.RefinementCtx): PriceOf[] =>
  items.flatMap((item) => {
    const found = PRICE.exec(item)?.groups;
    if (found) {
      const { plan = "", interval = "", priceId = "" } = found;
      return [{ plan: plan.toUpperCase(), interval: interval.toLowerCase(), priceId } as PriceOf];
    }
    context.addIssue({
      code: "custom",
      message: "must be prices of plans, such as STARTER_MONTHLY=price_1Abc,PRO_YEARLY=price_1Def",
    });
    return [];
  });

type Given = {
  STRIPE_SECRET_KEY?: string | undefined;
  STRIPE_WEBHOOK_SECRETS: string[];
  STRIPE_PRICES: PriceOf[];
  STRIPE_API_BASE?: string | undefined;
};

export const billingOf = ({
  STRIPE_SECRET_KEY: secretKey,
  STRIPE_WEBHOOK_SECRETS: webhookSecrets,
  STRIPE_PRICES: prices,
  STRIPE_API_BASE: apiBase,
}: Given): BillingSettings | undefined =>
  secretKey === undefined ? undefined : { secretKey, webhookSecrets, prices, apiBase };

/** Dependencies between the settings of billing and others. */
export const BILLING_RULES: readonly Rule[] = [
  ...["STRIPE_WEBHOOK_SECRETS", "STRIPE_PRICES"].map((name) => ({
    name,
    breaks: (env: Parameters<Rule["breaks"]>[0]) =>
      env["STRIPE_SECRET_KEY"] !== undefined && env[name] === undefined,
    message: "is required when STRIPE_SECRET_KEY is set",
  })),
  {
    name: "STRIPE_API_BASE",
    breaks: (env) => env["NODE_ENV"] === "production" && env["STRIPE_API_BASE"] !== undefined,
    message: "is for tests, which production refuses",
  },
];
