import type { CustomHost } from "../domains/known.ts";
import { notFound } from "../../kernel/errors.ts";
import type { ProviderId } from "./provider.ts";

type Query = Readonly<Record<string, string | undefined>> & {
  flow?: string | undefined;
  tenantId?: string | undefined;
};

/**
 * Returns where a flow that is asked for at a custom domain begins: at PUBLIC_URL, the only address that
 * Google and GitHub send browsers back to, and for the domain's tenant alone. Whoever controls the domain's
 * DNS would otherwise see the sign-ins of its members pass. @throws NOT_FOUND for another tenant
 */
export const startAtPublicUrl = (
  publicUrl: string,
  provider: ProviderId,
  query: Query,
  host: CustomHost,
): string => {
  if (query.tenantId !== undefined && query.tenantId !== host.tenantId) throw notFound("Tenant");
  const url = new URL(`${publicUrl}/api/v1/auth/oauth/${provider}`);
  // A link is of the account that has asked for it.
  const pinned = query.flow === "link" ? query : { ...query, tenantId: host.tenantId };
  for (const [name, value] of Object.entries(pinned))
    if (value !== undefined) url.searchParams.set(name, value);
  return url.href;
};
