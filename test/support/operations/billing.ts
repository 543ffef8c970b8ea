import { randomUUID } from "node:crypto";
import { addCustomer } from "../../../src/domain/accounts/billing/customer.ts";
import { aTenant, startApp, type Tenant } from "../app/app.ts";
import { sharedFakeStripe, signStripe } from "../providers/fake-stripe.ts";
import type { Call, Known } from "./operations.ts";
import { SWEPT_REDIRECT_URI } from "./oauth.ts";
import { putTenant } from "./team.ts";

/** A tenant of its own that has begun to buy. */
const aBuyer = async (): Promise<Tenant> => {
  const [api, stripe] = [await startApp(), await sharedFakeStripe()];
  const tenant = await aTenant(api);
  const customerId = `cus_swept${randomUUID().replaceAll("-", "")}`;
  stripe.customers.set(customerId, { id: customerId, object: "customer", email: tenant.email });
  await api.app.transact((work) => addCustomer(work, { tenantId: tenant.tenantId, customerId }));
  await putTenant(tenant.tenantId, { plan: "FREE" });
  return tenant;
};

const byBuyer = async (path: string, body?: unknown): Promise<Call> => {
  const { token } = await aBuyer();
  return { path, token, ...(body === undefined ? {} : { body }) };
};

const order = {
  plan: "PRO",
  interval: "monthly",
  successUrl: SWEPT_REDIRECT_URI,
  cancelUrl: SWEPT_REDIRECT_URI,
};
const event = {
  id: "evt_swept",
  object: "event",
  type: "customer.updated",
  data: { object: { object: "customer" } },
};

export const billingOperations: Record<string, Known> = {
  listBillingPlans: { call: () => ({ path: "/billing/plans" }) },
  getBillingUsage: { call: () => ({ path: "/billing/usage" }) },
  getBillingSubscription: { call: () => ({ path: "/billing/subscription" }) },
  listBillingInvoices: { call: () => ({ path: "/billing/invoices?limit=5" }) },
  createBillingCheckout: { call: () => byBuyer("/billing/checkout", order) },
  createBillingPortal: { call: () => byBuyer("/billing/portal", { returnUrl: SWEPT_REDIRECT_URI }) },
  receiveBillingEvent: {
    call: () => ({
      path: "/billing/webhook",
      body: event,
      headers: { "Stripe-Signature": signStripe(JSON.stringify(event), Math.floor(Date.now() / 1_000)) },
    }),
  },
};
