import type { Cell } from "./permissions.ts";

const own: Cell = { roles: "OAGDV" };
const superadmin: Cell = { admin: "*" };

/** Signing in with a second factor, one's own factors, and resetting those of others. */
export const MFA_PERMISSIONS: Readonly<Record<string, Cell | "public">> = {
  completeLogin: "public",
  startPasskeyLogin: "public",
  loginWithPasskey: "public",
  verifySecondFactor: own,
  getSecondFactors: own,
  replaceRecoveryCodes: own,
  setUpTotp: own,
  enableTotp: own,
  disableTotp: own,
  startPasskey: own,
  addPasskey: own,
  renamePasskey: own,
  removePasskey: own,
  resetMemberMfa: { roles: "OA" },
  completeSuperadminLogin: "public",
  getSuperadminSecondFactors: superadmin,
  replaceSuperadminRecoveryCodes: superadmin,
  setUpSuperadminTotp: superadmin,
  enableSuperadminTotp: superadmin,
  disableSuperadminTotp: superadmin,
  startSuperadminPasskey: superadmin,
  addSuperadminPasskey: superadmin,
  renameSuperadminPasskey: superadmin,
  removeSuperadminPasskey: superadmin,
  resetUserMfa: superadmin,
};
