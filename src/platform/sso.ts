import type { Settings } from "../config.ts";
import type { SsoCheck, SsoClients } from "../domain/accounts/sso/clients.ts";
import { createConnect, createGuard, createNameResolver, faultText } from "./guard/faults.ts";
import { createConnections } from "./guard/connections.ts";
import { createGuardedFetch, createOidc, type TenantFetch } from "./sso/oidc.ts";
import { createSaml } from "./sso/saml-assertion.ts";

/** Whether there is a page at the address: any answer but an error of the server's own. */
const probeOf =
  (fetchOf: TenantFetch): SsoClients["saml"]["probe"] =>
  async ({ tenantId, ssoUrl }): Promise<SsoCheck> => {
    const fetch = fetchOf(tenantId);
    const request = { method: "GET", headers: { accept: "text/html" }, body: undefined, redirect: "manual" };
    const name = "signOnAddress";
    try {
      const { status } = await fetch(ssoUrl, request as Parameters<typeof fetch>[1]);
      return { name, ok: status < 500, message: `samlSsoUrl answers ${status}` };
    } catch (error) {
      const reason = faultText(error instanceof Error ? error.cause : error);
      // An address of a company's own network, which only its browsers reach.
      return { name, ok: false, message: `samlSsoUrl: ${reason}` };
    }
  };

/** Creates what speaks to the identity providers of tenants; sends no request before it is used. */
export const createSso = (settings: Pick<Settings, "outbound" | "dnsServers">): SsoClients => {
  const { outbound, dnsServers } = settings;
  const guard = createGuard(outbound);
  const servers = dnsServers.length > 0 ? dnsServers : undefined;
  const names = createNameResolver({ isLocal: guard.isLocal, servers });
  const fetchOf = createGuardedFetch(guard, createConnections(createConnect({ guard, names })));
  return {
    oidc: createOidc({ fetchOf, isLocal: guard.isLocal }),
    saml: createSaml(probeOf(fetchOf)),
    isLocal: guard.isLocal,
  };
};
