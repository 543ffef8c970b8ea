import { isIn, isOfThisMachine, networkOf } from "../rate-limits/limiter.ts";
import { type DomainError, forbidden } from "../../kernel/errors.ts";

/** How a request came: over TLS of this server, from which address, and what its X-Forwarded-Proto says. */
export type Arrival = { isTls: boolean; remoteAddress: string | undefined; forwardedProto: unknown };

/** Whether the client spoke https: to this server, or as a proxy says that is trusted or of this machine. */
export const spokeHttps = (
  { isTls, remoteAddress = "", forwardedProto }: Arrival,
  trustedProxies: readonly string[],
): boolean => {
  if (isTls) return true;
  const sender = networkOf(remoteAddress);
  if (forwardedProto !== "https" || sender === undefined) return false;
  return isOfThisMachine(remoteAddress) || isIn(sender, trustedProxies);
};

/** Builds the refusal of what was sent to a custom domain by plain HTTP. */
export const httpsRequired = (domain: string): DomainError =>
  forbidden(
    "HTTPS_REQUIRED",
    `Use https://${domain}: others may have read what was sent by plain HTTP, keys and tokens too`,
  );
