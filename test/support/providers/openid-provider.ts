import { createServer } from "node:http";
import { exportJWK, generateKeyPair } from "jose";
import { Provider } from "oidc-provider";
import { listen } from "../http/listen.ts";

export type Person = {
  sub: string;
  email?: string;
  email_verified?: boolean;
  name?: string;
  /** The ID token has nothing but `sub`, as the standard has it: userinfo has the rest. */
  isTerse?: boolean;
  /** The ID token has the address without a word about it, or what `inToken` says; userinfo has the rest. */
  isQuiet?: boolean;
  inToken?: { email?: string };
};

const claimsOf = ({ isTerse = false, isQuiet = false, inToken, ...claims }: Person, use: string) => {
  const { sub, email, email_verified: _word, ...rest } = claims;
  if (use !== "id_token") return claims;
  if (isTerse) return { sub };
  return isQuiet ? { ...rest, sub, email, ...inToken } : claims;
};

/** Who signs in at a test's provider is told by this header of the test's browser. */
export const PERSON_HEADER = "x-person";

export type TestProvider = {
  issuer: string;
  clientId: string;
  clientSecret: string;
  /** By `sub`. */
  people: Map<string, Person>;
  /** Where it sends browsers back to; more may be registered later. */
  redirectUris: string[];
  close(): Promise<void>;
};

const configurationOf = async (
  { people, clientId, clientSecret }: Pick<TestProvider, "people" | "clientId" | "clientSecret">,
  redirectUris: string[],
) => {
  const { privateKey } = await generateKeyPair("RS256", { extractable: true });
  return {
    clients: [{ client_id: clientId, client_secret: clientSecret, redirect_uris: redirectUris }],
    jwks: { keys: [{ ...(await exportJWK(privateKey)), use: "sig", alg: "RS256", kid: "test" }] },
    cookies: { keys: ["cookies-of-the-tests"] },
    pkce: { required: () => true },
    // As Google does: the claims are in the ID token.
    conformIdTokenClaims: false,
    claims: { openid: ["sub"], email: ["email", "email_verified"], profile: ["name"] },
    features: { devInteractions: { enabled: false } },
    interactions: { url: (_context: unknown, { uid }: { uid: string }) => `/interaction/${uid}` },
    ttl: { Interaction: 600, Session: 600, Grant: 600, AccessToken: 600, IdToken: 600 },
    findAccount: (_context: unknown, sub: string) => ({
      accountId: sub,
      claims: async (use: string) => claimsOf({ ...people.get(sub), sub }, use),
    }),
  };
};

/** A certified OpenID provider; whoever its browser says they are is signed in and consents. */
export const startOpenIdProvider = async (...redirectUris: string[]): Promise<TestProvider> => {
  const people = new Map<string, Person>();
  const client = { people, clientId: "laurel-at-google", clientSecret: "a-secret-with-%-and-:" };
  const configuration = await configurationOf(client, redirectUris);
  const server = createServer();
  const { url: issuer, close } = await listen(server);
  const provider = new Provider(issuer, {
    ...configuration,
    loadExistingGrant: async ({ oidc }) => {
      const grant = new oidc.provider.Grant({
        clientId: oidc.client!.clientId,
        accountId: oidc.session!.accountId!,
      });
      grant.addOIDCScope("openid email profile");
      await grant.save();
      return grant;
    },
  });
  provider.Client.prototype.redirectUriAllowed = (uri: string) => redirectUris.includes(uri);
  const serve = provider.callback();
  server.on("request", (request, response) => {
    if (!request.url?.startsWith("/interaction/")) {
      void serve(request, response);
      return;
    }
    const accountId = String(request.headers[PERSON_HEADER] ?? "");
    const result = people.has(accountId)
      ? { login: { accountId } }
      : { error: "access_denied", error_description: "nobody" };
    void provider.interactionFinished(request, response, result);
  });
  return { ...client, issuer, redirectUris, close };
};
