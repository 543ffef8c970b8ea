import type { Cell } from "./permissions.ts";

/** Who may call the operations of custom domains. */
export const DOMAIN_PERMISSIONS: Readonly<Record<string, Cell | "public">> = {
  listCustomDomains: { roles: "OAD" },
  addCustomDomain: { roles: "OA" },
  getCustomDomain: { roles: "OAD" },
  verifyCustomDomain: { roles: "OA" },
  removeCustomDomain: { roles: "OA" },
  removeCustomDomainById: { roles: "OA" },
};
