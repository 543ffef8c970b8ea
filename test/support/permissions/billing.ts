import type { Cell } from "./permissions.ts";

/** Who may call the operations of billing. */
export const BILLING_PERMISSIONS: Readonly<Record<string, Cell | "public">> = {
  listBillingPlans: "public",
  getBillingUsage: { roles: "OA" },
  getBillingSubscription: { roles: "OA" },
  listBillingInvoices: { roles: "OA" },
  createBillingCheckout: { roles: "O" },
  createBillingPortal: { roles: "O" },
  receiveBillingEvent: "public",
};
