import type { IncomingMessage } from "node:http";
import { TLSSocket } from "node:tls";
import type { App } from "../app.ts";
import { httpsRequired, spokeHttps } from "../domain/accounts/domains/https.ts";
import type { CustomHost } from "../domain/accounts/domains/known.ts";
import { nameOfHost } from "../domain/accounts/domains/names.ts";
import { DomainError } from "../domain/kernel/errors.ts";

/** Returns the custom domain that a request came by. @throws FORBIDDEN HTTPS_REQUIRED for plain HTTP */
export const customHostOf = async (
  { config, domains }: App,
  { headers, socket }: IncomingMessage,
): Promise<CustomHost | undefined> => {
  const name = nameOfHost(headers.host);
  const known = name === "" ? undefined : await domains.find(name);
  const isTls = socket instanceof TLSSocket;
  const { remoteAddress } = socket;
  const arrival = { isTls, remoteAddress, forwardedProto: headers["x-forwarded-proto"] };
  if (known && !spokeHttps(arrival, config.trustedProxies)) throw httpsRequired(known.domain);
  return known;
};

/**
 * Returns the status that an upgrade is refused with because of the host that it came by: 403 for ws:// to a
 * custom domain, 503 where domains cannot be read; else undefined. Never rejects.
 */
export const refusedByHost = async (app: App, request: IncomingMessage): Promise<number | undefined> => {
  try {
    await customHostOf(app, request);
    return undefined;
  } catch (error) {
    if (error instanceof DomainError && error.code === "FORBIDDEN") return 403;
    app.warnOfOutage(error, "the host of a WebSocket could not be looked up");
    return 503;
  }
};
