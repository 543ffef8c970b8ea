import { invalid, notFound } from "../../kernel/errors.ts";
import { Tenant } from "../tenants/tenant.ts";
import type { Work } from "../../kernel/work.ts";

export const REDIRECT_URI_MAX = 2_048;
const LOOPBACK: ReadonlySet<string> = new Set(["localhost", "127.0.0.1"]);

/** The server's settings of redirect URIs. */
export type RedirectRules = { redirectUris: readonly string[]; isProduction: boolean };

/**
 * Returns whether tokens may be sent to a URI at all: https (outside production also http to the same
 * machine), without user and fragment, in the spelling of browsers.
 */
export const isRedirectUri = (text: string, isProduction: boolean): boolean => {
  if (text.length > REDIRECT_URI_MAX || !URL.canParse(text)) return false;
  const url = new URL(text);
  // "https://host" is what a browser calls "https://host/"; any other difference is a second spelling.
  if (![text, `${text}/`].includes(url.href) || text.includes("#")) return false;
  if (`${url.username}${url.password}` !== "") return false;
  if (url.protocol === "https:") return true;
  return url.protocol === "http:" && !isProduction && LOOPBACK.has(url.hostname);
};

/**
 * Accepts a redirect URI that equals a registered one, character by character.
 * @throws VALIDATION_ERROR REDIRECT_URI_NOT_ALLOWED; nobody is ever redirected to a rejected URI
 */
export const requireRedirectUri = (
  uri: string | undefined,
  registered: readonly string[],
  isProduction: boolean,
): string => {
  if (uri !== undefined && registered.includes(uri) && isRedirectUri(uri, isProduction)) return uri;
  throw invalid(
    "redirect_uri",
    "must equal a registered address: one of OAUTH_REDIRECT_URIS, or with tenantId one of the tenant's " +
      "redirectUris",
    "REDIRECT_URI_NOT_ALLOWED",
  );
};

/** Returns a tenant's redirect URIs, besides the server's own list. @throws NOT_FOUND */
export const tenantRedirectUris = async ({ em }: Work, tenantId: string): Promise<readonly string[]> => {
  const tenant = await em.findOne(Tenant, { id: tenantId, deletedAt: null });
  if (!tenant) throw notFound("Tenant");
  return tenant.redirectUris;
};

/** Adds query parameters to a URI, replacing any of the same name. */
export const withParameters = (uri: string, parameters: Record<string, string>): string => {
  const url = new URL(uri);
  for (const [name, value] of Object.entries(parameters)) url.searchParams.set(name, value);
  return url.href;
};
