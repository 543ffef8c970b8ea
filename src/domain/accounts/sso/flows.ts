import { sql } from "kysely";
import { hashRandomSecret } from "../auth/random-secret.ts";
import type { Handshake } from "../oauth/provider.ts";
import type { ResponseMode } from "../oauth/flows.ts";
import { invalid } from "../../kernel/errors.ts";
import type { SecretBox } from "../../kernel/secret-box.ts";
import type { Work } from "../../kernel/work.ts";

export const SSO_FLOW_SECONDS = 600;

/** A sign-in in progress. */
export type SsoFlow = {
  tenantId: string;
  /** Of the configuration when it began: another identity provider cannot complete it. */
  idpChangedAt: Date;
  /** The custom domain that it began at, where alone it ends; null for PUBLIC_URL. */
  domain: string | null;
  redirectUri: string;
  responseMode: ResponseMode;
};

/** What only this server knows of a flow; `requestId` is for SAML. */
export type SsoHandshake = Handshake & { requestId: string };

type Row = {
  tenant_id: string;
  idp_changed_at: Date | string;
  domain: string | null;
  redirect_uri: string;
  response_mode: ResponseMode;
  secrets: string;
};
type Kept = Omit<SsoHandshake, "state">;

const contextOf = (stateHash: string): string => `sso_flows:${stateHash}`;

/** Stores a flow until the browser with the cookie `browser` comes back with the state. */
export const storeSsoFlow = async (
  { db, now }: Work,
  secretBox: SecretBox,
  flow: SsoFlow,
  { handshake: { state, ...kept }, browser }: { handshake: SsoHandshake; browser: string },
): Promise<void> => {
  const stateHash = hashRandomSecret(state);
  const secrets = secretBox.seal(JSON.stringify(kept satisfies Kept), contextOf(stateHash));
  const expiresAt = new Date(now.getTime() + SSO_FLOW_SECONDS * 1_000).toISOString();
  await sql`
    insert into sso_flows (state_hash, browser_hash, tenant_id, idp_changed_at, domain,
      redirect_uri, response_mode, secrets, expires_at)
    values (${stateHash}, ${hashRandomSecret(browser)}, ${flow.tenantId}::uuid,
      ${flow.idpChangedAt.toISOString()}::timestamptz, ${flow.domain}, ${flow.redirectUri},
      ${flow.responseMode},
      ${secrets}, ${expiresAt}::timestamptz)`.execute(db);
};

/** State, browser and host of an answer, which belong to one flow of one tenant. */
export type SsoReturn = { tenantId: string; domain: string | null; state: string; browser: string };

/**
 * Consumes a flow: once, in time, of this tenant, and only in the browser and at the host that began it.
 * Other requests leave it unchanged. @returns undefined where there is none
 */
export const takeSsoFlow = async (
  { db, now }: Work,
  secretBox: SecretBox,
  { tenantId, domain, state, browser }: SsoReturn,
): Promise<{ flow: SsoFlow; handshake: SsoHandshake } | undefined> => {
  const stateHash = hashRandomSecret(state);
  const { rows } = await sql<Row>`
    delete from sso_flows
    where state_hash = ${stateHash} and browser_hash = ${hashRandomSecret(browser)}
      and tenant_id = ${tenantId}::uuid and domain is not distinct from ${domain}
      and expires_at > ${now.toISOString()}::timestamptz
    returning tenant_id, idp_changed_at, domain, redirect_uri, response_mode, secrets`.execute(db);
  const [row] = rows;
  if (!row) return undefined;
  const kept = JSON.parse(secretBox.open(row.secrets, contextOf(stateHash))) as Kept;
  const flow = {
    tenantId: row.tenant_id,
    idpChangedAt: new Date(row.idp_changed_at),
    domain: row.domain,
    redirectUri: row.redirect_uri,
    responseMode: row.response_mode,
  };
  return { flow, handshake: { state, ...kept } };
};

/** Builds the error for a sign-in that began at the provider, where the tenant does not take those. */
export const unasked = () =>
  invalid(
    "state",
    "is missing: this sign-in began at the identity provider, which counts only if samlIdpInitiated is on " +
      "and the tenant has a URL to return to; start it at this server",
    "OAUTH_STATE_INVALID",
  );

/** Builds the error for a browser that comes back without having begun. */
export const stateInvalid = () =>
  invalid(
    "state",
    "is unknown, used, older than 10 minutes, or of another browser, host or tenant; start again",
    "OAUTH_STATE_INVALID",
  );
