import { consumeId } from "../auth/consumed-ids.ts";
import type { Tokens } from "../auth/tokens.ts";
import type { Mail } from "../email/mail.ts";
import { OAuthError } from "../oauth/errors.ts";
import type { ResponseMode } from "../oauth/flows.ts";
import { granted } from "../oauth/granted.ts";
import { isRedirectUri, withParameters } from "../oauth/redirects.ts";
import { refusal } from "../oauth/start.ts";
import { hashRandomSecret } from "../auth/random-secret.ts";
import type { Work } from "../../kernel/work.ts";
import type { SamlClaims, SsoClaims } from "./clients.ts";
import { SsoConfiguration } from "./configuration.ts";
import { holdIdp, idpMark } from "./enforcement.ts";
import { keepFailure } from "./failures.ts";
import { type SsoFlow, type SsoHandshake, stateInvalid, takeSsoFlow, unasked } from "./flows.ts";
import { resolveSsoUser } from "./resolve.ts";
import { oidcSettingsOf, samlSettingsOf } from "./settings.ts";
import { findOpenSso, type OpenSso, type SsoParts } from "./start.ts";

export type CompleteSsoParts = SsoParts & {
  tokens: Tokens;
  mail: Mail;
};

/** With what a browser came back from an identity provider. */
export type OidcReturn = { tenantId: string; answer: URLSearchParams; browser: string | undefined };
export type SamlReturn = {
  tenantId: string;
  response: string;
  relayState: string | undefined;
  browser: string | undefined;
};

type Begun = OpenSso & { flow: SsoFlow; handshake: SsoHandshake };

/** Takes the flow that a browser has begun, unless the tenant has another identity provider since. */
const takeBegun = async (
  { transact, secretBox, host }: SsoParts,
  { tenantId, state, browser }: { tenantId: string; state: string | undefined; browser: string | undefined },
  isSaml: boolean,
): Promise<Begun | undefined> => {
  if (state === undefined || browser === undefined) return undefined;
  return transact(async (work) => {
    const open = await findOpenSso(work, tenantId, host);
    const back = { tenantId: open.tenant.id, domain: host?.domain ?? null, state, browser };
    const begun = await takeSsoFlow(work, secretBox, back);
    if (!begun) return undefined;
    const isSame = begun.flow.idpChangedAt.getTime() === open.sso.idpChangedAt.getTime();
    return isSame && (open.sso.provider === "SAML") === isSaml ? { ...open, ...begun } : undefined;
  });
};

/** Where a sign-in ends, whatever its result. */
type Ending = { redirectUri: string; responseMode: ResponseMode };

/** Runs the rest of a sign-in; every error becomes one in the URL. */
const ending = async (
  parts: CompleteSsoParts,
  { tenantId, redirectUri }: Pick<Ending, "redirectUri"> & { tenantId: string },
  run: (arrived: (claims: SsoClaims) => void) => Promise<Record<string, string>>,
): Promise<string> => {
  let email: string | undefined;
  try {
    return withParameters(redirectUri, await run((claims) => (email = claims.email)));
  } catch (error) {
    const failure =
      error instanceof OAuthError
        ? error
        : new OAuthError("server_error", "Something went wrong here; try again", error);
    await keepFailure(parts, { tenantId, failure, email });
    return refusal(redirectUri, failure);
  }
};

const changedMeanwhile = (): OAuthError =>
  new OAuthError("access_denied", "The identity provider was changed meanwhile; sign in again");

const signIn = async (
  work: Work,
  { tokens, mail }: CompleteSsoParts,
  { sso, claims }: { sso: SsoConfiguration; claims: SsoClaims },
  { responseMode }: Ending,
): Promise<Record<string, string>> => {
  // Another provider, or none, since the answer was verified: then it counts no more.
  const { id, tenantId, idpChangedAt } = sso;
  const now = await work.em.findOne(SsoConfiguration, { id, tenantId, idpChangedAt, status: "ACTIVE" });
  if (!now) throw changedMeanwhile();
  const user = await resolveSsoUser(work, mail, { sso: now, claims });
  // Behind the lock of the tenant, which who changes the provider takes first.
  if ((await holdIdp(work, tenantId)) !== idpMark(sso)) throw changedMeanwhile();
  return granted(work, tokens, user, { by: "sso", responseMode });
};

/**
 * Completes a sign-in by OpenID Connect and returns the URL to redirect the browser to.
 * @throws VALIDATION_ERROR OAUTH_STATE_INVALID, NOT_FOUND while that URL is not known
 */
export const completeOidc = async (
  parts: CompleteSsoParts,
  { tenantId, answer, browser }: OidcReturn,
): Promise<string> => {
  const state = answer.get("state") ?? undefined;
  const begun = await takeBegun(parts, { tenantId, state, browser }, false);
  if (!begun) throw stateInvalid();
  const { sso, flow, handshake } = begun;
  const { redirectUri } = flow;
  return ending(parts, { tenantId: sso.tenantId, redirectUri }, async (arrived) => {
    const claims = await parts.sso.oidc.claimsOf(oidcSettingsOf(sso, parts), answer, handshake);
    arrived(claims);
    return parts.transact((work) => signIn(work, parts, { sso, claims }, flow));
  });
};

/** Where an answer goes that nobody asked for: to the address that it names, or the first one. */
const unsolicited = async (
  { transact, redirectUris, isProduction, host }: SsoParts,
  { tenantId, relayState }: SamlReturn,
): Promise<(OpenSso & { flow: Ending }) | undefined> => {
  const { sso, tenant } = await transact((work) => findOpenSso(work, tenantId, host));
  if (sso.provider !== "SAML" || !sso.samlIdpInitiated) return undefined;
  const registered = [...tenant.redirectUris, ...redirectUris].filter((uri) =>
    isRedirectUri(uri, isProduction),
  );
  const redirectUri = registered.find((uri) => uri === relayState) ?? registered[0];
  // Nobody has asked for tokens in the address.
  return redirectUri === undefined ? undefined : { sso, tenant, flow: { redirectUri, responseMode: "code" } };
};

/**
 * Completes a sign-in by SAML and returns the URL to redirect the browser to. An answer that nobody asked for
 * counts only if the tenant has switched that on.
 *
 * @throws VALIDATION_ERROR OAUTH_STATE_INVALID, NOT_FOUND while that URL is not known
 */
export const completeSaml = async (parts: CompleteSsoParts, back: SamlReturn): Promise<string> => {
  const { tenantId, response, relayState: state, browser } = back;
  const begun = await takeBegun(parts, { tenantId, state, browser }, true);
  const found = begun ?? (await unsolicited(parts, back));
  if (!found) throw state === undefined ? unasked() : stateInvalid();
  const { sso, flow } = found;
  const requestId = begun?.handshake.requestId;
  const { redirectUri } = flow;
  return ending(parts, { tenantId: sso.tenantId, redirectUri }, async (arrived) => {
    const now = await parts.transact(async (work) => work.now);
    const settings = samlSettingsOf(sso, parts, now);
    const claims = await parts.sso.saml.claimsOf(settings, { response, requestId, now });
    arrived(claims);
    // By itself: it is used up also if nobody is signed in.
    await parts.transact((work) => consumeAssertion(work, sso, claims));
    return parts.transact((work) => signIn(work, parts, { sso, claims }, flow));
  });
};

/** An assertion counts once, whatever brings it. @throws OAuthError */
const consumeAssertion = async (
  work: Work,
  { tenantId }: SsoConfiguration,
  claims: SamlClaims,
): Promise<void> => {
  const id = hashRandomSecret([tenantId, claims.issuer, claims.assertionId].join("\n"));
  if (await consumeId(work, { kind: "saml", id, expiresAt: claims.validUntil })) return;
  throw new OAuthError("provider_error", "This answer of the provider was used before; sign in again");
};
