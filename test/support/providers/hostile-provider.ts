import { randomUUID } from "node:crypto";
import { createServer, type ServerResponse } from "node:http";
import { base64url, type CryptoKey, exportJWK, generateKeyPair, type JWTPayload, SignJWT } from "jose";
import assert from "node:assert/strict";
import { listen } from "../http/listen.ts";
import { assertError } from "../http/assert-error.ts";
import { aBrowser, type Browser, told } from "./oauth.ts";

/** What the provider does wrong, until a test takes it back. */
export type Malice = {
  claims?: Record<string, unknown>;
  alg?: "none" | "foreign key" | "HS256";
  /** Parameters of the way back; undefined leaves one out. */
  back?: Record<string, string | undefined>;
  /** Answers the token endpoint itself. */
  token?: (response: ServerResponse) => void;
  /** What its metadata says besides, and members of its key. */
  metadata?: Record<string, unknown>;
  key?: Record<string, unknown>;
  isDown?: boolean;
};

export type HostileProvider = {
  issuer: string;
  clientId: string;
  clientSecret: string;
  malice: Malice;
  /** Who signs in, next. */
  person: JWTPayload;
  discoveries(): number;
  close(): Promise<void>;
};

const KID = "the-only-one";

/** An OpenID provider that signs whatever a test says. */
export const startHostileProvider = async (): Promise<HostileProvider> => {
  const own = await generateKeyPair("RS256", { extractable: true });
  const foreign = await generateKeyPair("RS256");
  const jwk = { ...(await exportJWK(own.publicKey)), kid: KID, alg: "RS256", use: "sig" };
  const nonces = new Map<string, string>();
  let discoveries = 0;
  const server = createServer();
  const { url: issuer, close } = await listen(server);
  const provider: HostileProvider = {
    issuer,
    clientId: "laurel",
    clientSecret: "secret",
    malice: {},
    person: {},
    discoveries: () => discoveries,
    close,
  };

  const sign = async (wanted: object): Promise<string> => {
    // Undefined leaves a claim out.
    const claims = JSON.parse(JSON.stringify(wanted)) as JWTPayload;
    const { alg } = provider.malice;
    const sealed = new SignJWT(claims);
    const header = { alg: "RS256", kid: KID };
    if (alg === "HS256")
      return sealed.setProtectedHeader({ ...header, alg }).sign(new TextEncoder().encode("secret"));
    if (alg === "none") {
      const parts = [{ alg: "none" }, claims].map((part) => base64url.encode(JSON.stringify(part)));
      return `${parts.join(".")}.`;
    }
    const key: CryptoKey = alg === "foreign key" ? foreign.privateKey : own.privateKey;
    return sealed.setProtectedHeader(header).sign(key);
  };

  const json = (response: ServerResponse, body: unknown): void => {
    response.writeHead(200, { "Content-Type": "application/json" }).end(JSON.stringify(body));
  };

  const token = async (code: string, response: ServerResponse): Promise<void> => {
    const now = Math.floor(Date.now() / 1_000);
    const id_token = await sign({
      iss: issuer,
      aud: provider.clientId,
      iat: now,
      exp: now + 300,
      nonce: nonces.get(code),
      ...provider.person,
      ...provider.malice.claims,
    });
    json(response, { access_token: randomUUID(), token_type: "Bearer", expires_in: 300, id_token });
  };

  const authorize = (asked: URLSearchParams, response: ServerResponse): void => {
    const code = randomUUID();
    nonces.set(code, asked.get("nonce") ?? "");
    const back = new URL(asked.get("redirect_uri") ?? "");
    const parameters = { code, state: asked.get("state") ?? "", iss: issuer, ...provider.malice.back };
    for (const [name, value] of Object.entries(parameters))
      if (value !== undefined) back.searchParams.set(name, value);
    response.writeHead(302, { Location: back.href }).end();
  };

  const metadata = {
    issuer,
    authorization_endpoint: `${issuer}/authorize`,
    token_endpoint: `${issuer}/token`,
    jwks_uri: `${issuer}/jwks`,
    response_types_supported: ["code"],
    subject_types_supported: ["public"],
    id_token_signing_alg_values_supported: ["RS256"],
    authorization_response_iss_parameter_supported: true,
  };

  server.on("request", (request, response) => {
    const url = new URL(request.url ?? "", issuer);
    if (provider.malice.isDown) request.socket.destroy();
    else if (url.pathname === "/.well-known/openid-configuration") {
      discoveries += 1;
      json(response, { ...metadata, ...provider.malice.metadata });
    } else if (url.pathname === "/jwks") json(response, { keys: [{ ...jwk, ...provider.malice.key }] });
    else if (url.pathname === "/authorize") authorize(url.searchParams, response);
    else if (provider.malice.token) provider.malice.token(response);
    else {
      const parts: Buffer[] = [];
      request.on("data", (part: Buffer) => parts.push(part));
      request.on("end", () => {
        const form = new URLSearchParams(Buffer.concat(parts).toString());
        void token(form.get("code") ?? "", response);
      });
    }
  });
  return provider;
};

/** Somebody new who signs in next, with a proved address unless `claims` say otherwise. */
export const newPersonAt = (provider: HostileProvider, claims: object = {}): JWTPayload => {
  const email = `${randomUUID()}@example.com`;
  provider.person = { sub: randomUUID(), email, email_verified: true, ...claims };
  return provider.person;
};

const NO_TOKENS = ["error", "error_description"];

/** An answer that sends the browser nowhere. */
export const answerOf = async (browser: Browser, url: string) => {
  const { status, body, headers } = await browser.visit(url);
  assert.equal(headers.get("location"), null);
  return { status, headers, body: JSON.parse(body) };
};

/** What the console is told at the end of the way. */
export const endOf = async (browser: Browser, url: string): Promise<Record<string, string>> =>
  told((await browser.go(url)).at);

/** Asserts that the console was told of an error, and of nothing else. */
export const assertRefused = (answer: Record<string, string>, error = "provider_error"): void => {
  assert.deepEqual(Object.keys(answer).toSorted(), NO_TOKENS);
  assert.equal(answer["error"], error, JSON.stringify(answer));
};

/** The address with another value of a parameter, or without it. */
export const changed = (url: string, name: string, value?: string): string => {
  const copy = new URL(url);
  copy.searchParams.delete(name);
  if (value !== undefined) copy.searchParams.set(name, value);
  return copy.href;
};

/** Asserts that a callback is refused without the cookies of its flow, whatever other flow was begun. */
export const assertOfOneBrowser = async (
  toCallback: (browser: Browser) => Promise<string>,
): Promise<void> => {
  const attacker = aBrowser();
  const callback = await toCallback(attacker);
  const victim = aBrowser();
  assertError(await answerOf(victim, callback), 400, "OAUTH_STATE_INVALID");
  await toCallback(victim);
  assertError(await answerOf(victim, callback), 400, "OAUTH_STATE_INVALID");
};

/** Asserts that states that are no flow's, or that are there twice, are refused. */
export const assertStateNeeded = async (browser: Browser, callback: string): Promise<void> => {
  for (const state of ["unknown", "", undefined, "x".repeat(43)])
    assertError(await answerOf(browser, changed(callback, "state", state)), 400, "OAUTH_STATE_INVALID");
  assertError(await answerOf(browser, `${callback}&state=other`), 400);
};

/** Signs in, and asserts that the browser cannot do so again, although it has kept its cookies. */
export const assertCountsOnce = async (browser: Browser, callback: string): Promise<void> => {
  const { origin } = new URL(callback);
  const cookies = new Map(browser.cookies.get(origin));
  assert("access_token" in (await endOf(browser, callback)));
  browser.cookies.set(origin, cookies);
  assertError(await answerOf(browser, callback), 400, "OAUTH_STATE_INVALID");
};
