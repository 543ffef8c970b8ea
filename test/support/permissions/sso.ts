import type { Cell } from "./permissions.ts";

/** Who may call the operations of single sign-on. */
export const SSO_PERMISSIONS: Readonly<Record<string, Cell | "public">> = {
  getSso: { roles: "OA" },
  putSso: { roles: "O" },
  deleteSso: { roles: "O" },
  testSso: { roles: "O" },
  listSsoFailures: { roles: "OA" },
  listSsoDomains: { roles: "OA" },
  addSsoDomain: { roles: "O" },
  verifySsoDomain: { roles: "O" },
  removeSsoDomain: { roles: "O" },
  discoverSso: "public",
  startSso: "public",
  completeSsoOidc: "public",
  completeSsoSaml: "public",
  getSsoSamlMetadata: "public",
  getScim: { roles: "OA" },
  putScim: { roles: "O" },
  createScimToken: { roles: "O" },
  revokeScimToken: { roles: "O" },
};
