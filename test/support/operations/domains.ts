import { sql } from "kysely";
import { startApp } from "../app/app.ts";
import type { Side } from "../app/sides.ts";
import { must } from "../http/client.ts";
import { aName } from "../domains/server.ts";
import type { Known } from "./operations.ts";

const DOMAINS = "/enterprise/domains";

/** Makes room for one more, and leaves the newest: calls that are to come may name them. */
const makeRoom = async ({ tenant: { tenantId } }: Side): Promise<void> => {
  const api = await startApp();
  await api.app.transact(async ({ db }) => {
    await sql`update tenants set plan_overrides = plan_overrides || '{"customDomains": null}'
      where id = ${tenantId}::uuid`.execute(db);
    await sql`delete from custom_domains where id in (
      select id from custom_domains where tenant_id = ${tenantId}::uuid
      order by id desc offset 60)`.execute(db);
  });
};

/** The id of a domain. */
const aDomain = async (side: Side): Promise<string> => {
  const api = await startApp();
  await makeRoom(side);
  const { token } = side.tenant;
  return must(await api.post(`/api/v1${DOMAINS}`, { domain: aName() }, { token }), 201).id;
};

export const domainOperations: Record<string, Known> = {
  listCustomDomains: {
    call: async (side) => {
      await aDomain(side);
      return { path: DOMAINS };
    },
  },
  addCustomDomain: {
    success: 201,
    call: async (side) => {
      await makeRoom(side);
      return { path: DOMAINS, body: { domain: aName() } };
    },
  },
  getCustomDomain: { call: async (side) => ({ path: `${DOMAINS}/${await aDomain(side)}` }) },
  verifyCustomDomain: {
    call: async (side) => ({ path: `${DOMAINS}/${await aDomain(side)}/verify`, body: {} }),
  },
  removeCustomDomain: { call: async (side) => ({ path: `${DOMAINS}/${await aDomain(side)}` }) },
  removeCustomDomainById: { call: async (side) => ({ path: `${DOMAINS}?id=${await aDomain(side)}` }) },
};
