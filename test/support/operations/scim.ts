import { sql } from "kysely";
import type { Side } from "../app/sides.ts";
import { startApp } from "../app/app.ts";
import { must } from "../http/client.ts";
import { unique } from "./bodies.ts";
import type { Known } from "./operations.ts";

const SCIM = "/enterprise/scim";
const settings = {
  defaultRole: "VIEWER",
  groups: [
    { displayName: "Designers", role: "DESIGNER" },
    { externalId: "00g1emaKYZTWRYYRRTSK", role: "DEVELOPER" },
  ],
};
const token = () => ({ name: unique("Okta"), expiresAt: "2099-01-31T12:00:00Z" });

/** The path of a token that works. */
const aToken = async ({ tenant }: Side): Promise<string> => {
  const api = await startApp();
  // A tenant has few.
  await api.app.transact(({ db }) =>
    sql`delete from scim_tokens where tenant_id = ${tenant.tenantId}::uuid`.execute(db),
  );
  const made = must(await api.post(`/api/v1${SCIM}/tokens`, token(), { token: tenant.token }), 201);
  return `${SCIM}/tokens/${made.id}`;
};

export const scimOperations: Record<string, Known> = {
  getScim: {
    call: async (side) => {
      await aToken(side);
      return { path: SCIM };
    },
  },
  putScim: { call: () => ({ path: SCIM, body: settings }) },
  createScimToken: {
    success: 201,
    call: async (side) => {
      await aToken(side);
      return { path: `${SCIM}/tokens`, body: token() };
    },
  },
  revokeScimToken: { call: async (side) => ({ path: await aToken(side) }) },
};
