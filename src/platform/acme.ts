import { X509Certificate } from "node:crypto";
import { readFile } from "node:fs/promises";
import { Agent } from "node:https";
import { rootCertificates } from "node:tls";
import type * as AcmeClient from "acme-client";
import { Agent as HttpAgent, type Dispatcher, request as ask } from "undici";
import type { AcmeSettings } from "../config/sections.ts";
import { type Acme, AcmeFailure, type Issued, type IssueRequest } from "../domain/accounts/domains/order.ts";
import { onceLoaded } from "../domain/kernel/flights.ts";
import { within } from "./within.ts";

type Library = typeof AcmeClient;

/** Time limits of one request to the authority and of a whole order, in ms. */
const REQUEST_MS = 10_000;
const ORDER_MS = 120_000;
const ANSWER_MAX_BYTES = 1_000_000;
/** How often the state of an order is asked for, and how long between, in ms. */
const ASKED_TIMES = 12;
const ASKED_FROM_MS = 1_000;
const ASKED_UP_TO_MS = 10_000;

/**
 * Sets what the library does by itself for the whole process: it follows no redirect, uses no proxy of the
 * environment, waits for nobody, and reads no endless answer.
 */
const tame = ({ axios }: Library, httpsAgent: Agent): void => {
  Object.assign(axios.defaults, {
    httpsAgent,
    timeout: REQUEST_MS,
    maxRedirects: 0,
    proxy: false,
    maxContentLength: ANSWER_MAX_BYTES,
    acmeSettings: { retryMaxAttempts: 0, retryDefaultDelay: 1 },
  });
};

const orderOf = async (client: AcmeClient.Client, { domain, publish }: IssueRequest) => {
  const order = await client.createOrder({ identifiers: [{ type: "dns", value: domain }] });
  for (const authorization of await client.getAuthorizations(order)) {
    if (authorization.status === "valid") continue;
    const challenge = authorization.challenges.find(({ type }) => type === "http-01");
    if (!challenge) throw new AcmeFailure("the certificate authority offers no check by HTTP");
    const { token } = challenge;
    await publish({ token, answer: await client.getChallengeKeyAuthorization(challenge) });
    await client.completeChallenge(challenge);
    await client.waitForValidStatus(challenge);
  }
  return order;
};

const hasUrl = (client: AcmeClient.Client): boolean => {
  try {
    return client.getAccountUrl() !== "";
  } catch {
    return false;
  }
};

/** Another process may have opened it: the library then updates it, which strict authorities refuse. */
const openAccount = async (client: AcmeClient.Client, email: string | undefined): Promise<void> => {
  const contact = email === undefined ? {} : { contact: [`mailto:${email}`] };
  try {
    await client.createAccount({ termsOfServiceAgreed: true, ...contact });
  } catch (error) {
    if (!hasUrl(client)) throw error;
  }
};

const issueWith = async (
  { Client, crypto }: Library,
  { directoryUrl, email, externalAccountBinding }: AcmeSettings,
  request: IssueRequest,
): Promise<Issued> => {
  const { domain, account } = request;
  const client = new Client({
    directoryUrl,
    accountKey: account.keyPem,
    ...(externalAccountBinding ? { externalAccountBinding } : {}),
    ...(account.url === undefined ? {} : { accountUrl: account.url }),
    backoffAttempts: ASKED_TIMES,
    backoffMin: ASKED_FROM_MS,
    backoffMax: ASKED_UP_TO_MS,
  });
  if (account.url === undefined) await openAccount(client, email);
  const order = await orderOf(client, request);
  const key = await crypto.createPrivateEcdsaKey();
  const [, csr] = await crypto.createCsr({ altNames: [domain] }, key);
  const chainPem = await client.getCertificate(await client.finalizeOrder(order, csr));
  const leaf = new X509Certificate(chainPem);
  const keyPem = key.toString();
  if (!leaf.checkHost(domain)) throw new AcmeFailure("the certificate is for another name");
  return {
    accountUrl: client.getAccountUrl(),
    chainPem,
    keyPem,
    issuer: /^(?:CN|O)=(.*)$/m.exec(leaf.issuer)?.[1] ?? leaf.issuer.replaceAll("\n", ", "),
    notBefore: new Date(leaf.validFrom),
    notAfter: new Date(leaf.validTo),
  };
};

/** Errors of the network and of the library tell of this server's inside: only what was answered is shown. */
const failureOf = (cause: unknown): AcmeFailure => {
  if (cause instanceof AcmeFailure) return cause;
  const isPlain = cause instanceof Error && cause.constructor === Error && !("code" in cause);
  const hasReason = isPlain && cause.message !== "";
  const reason = hasReason ? `says: ${cause.message}` : "gives no answer";
  return new AcmeFailure(`the certificate authority ${reason}`, { cause });
};

/** Creates what orders certificates; the library is loaded, and the authority asked, when it is used. */
export const createAcme = (settings: AcmeSettings): Acme => {
  const library = onceLoaded(async (): Promise<Library> => {
    const loaded = (await import("acme-client")).default as unknown as Library;
    const { caFile } = settings;
    const ca = caFile === undefined ? undefined : await readAuthorities(caFile);
    tame(loaded, new Agent({ keepAlive: false, ...(ca ? { ca } : {}) }));
    return loaded;
  });
  return {
    directoryUrl: settings.directoryUrl,
    newAccountKey: async () => (await (await library()).crypto.createPrivateEcdsaKey()).toString(),
    issue: async (request) => {
      const known = await library();
      request.signal?.throwIfAborted();
      try {
        return await within(ORDER_MS, issueWith(known, settings, request), request.signal);
      } catch (error) {
        throw failureOf(error);
      }
    },
  };
};

const CHECK_MS = 8_000;
const DIRECTORY_MAX_BYTES = 65_536;
const BLOCK = /-----BEGIN CERTIFICATE-----[^-]+-----END CERTIFICATE-----/g;

/** Returns the authorities that a directory is checked by. @throws Error that says what the file lacks */
export const readAuthorities = async (caFile: string): Promise<string[]> => {
  const blocks = (await readFile(caFile, "utf8")).match(BLOCK) ?? [];
  if (blocks.length === 0) throw new Error("it has no certificate in PEM");
  return [...rootCertificates, ...blocks.map((block) => new X509Certificate(block).toString())];
};

const readDirectory = async (
  url: string,
  dispatcher: Dispatcher,
): Promise<Record<string, unknown> | null> => {
  const { statusCode, body } = await ask(url, { dispatcher });
  if (statusCode !== 200) throw new Error(`it answers ${statusCode}`);
  return (await body.json()) as Record<string, unknown> | null;
};

/** Asks an authority for its directory (RFC 8555, section 7.1.1). @throws Error that says why not */
export const checkDirectory = async (
  { directoryUrl }: AcmeSettings,
  authorities: readonly string[] | undefined,
): Promise<void> => {
  const connect = authorities ? { ca: [...authorities] } : {};
  const agent = new HttpAgent({ connect, maxResponseSize: DIRECTORY_MAX_BYTES });
  try {
    // The library heeds a signal only once a connection is there.
    const directory = await within(CHECK_MS, readDirectory(directoryUrl, agent));
    if (typeof directory?.["newOrder"] !== "string") throw new Error("it is no authority's directory");
  } finally {
    await agent.destroy();
  }
};
