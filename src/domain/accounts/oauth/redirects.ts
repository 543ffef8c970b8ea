import { invalid, notFound } from "../../kernel/errors.ts";
import { Tenant } from "../tenants/tenant.ts";
import type { Work } from "../../kernel/work.ts";

export const REDIRECT_URI_MAX = 2_048;
const LOOPBACK: ReadonlySet<string> = new Set(["localhost", "127.0.0.1"]);

/** What the server's own settings say about ways back. */
export type RedirectRules = { redirectUris: readonly string[]; isProduction: boolean };

/**
 * Whether tokens may travel to an address at all: https (outside production also http to the same machine),
 * without a user and a fragment, spelled as browsers spell it.
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
 * Lets a way back pass that equals a registered one, character by character.
 * @throws VALIDATION_ERROR REDIRECT_URI_NOT_ALLOWED; nobody is ever sent to a refused address
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

/** Where people of a tenant may be sent back to, besides the server's own list. @throws NOT_FOUND */
export const tenantRedirectUris = async ({ em }: Work, tenantId: string): Promise<readonly string[]> => {
  const tenant = await em.findOne(Tenant, { id: tenantId, deletedAt: null });
  if (!tenant) throw notFound("Tenant");
  return tenant.redirectUris;
};

/** The address with these query parameters, which replace any of the same name. */
export const withParameters = (uri: string, parameters: Record<string, string>): string => {
  const url = new URL(uri);
  for (const [name, value] of Object.entries(parameters)) url.searchParams.set(name, value);
  return url.href;
};
