import { isIP } from "node:net";
import { parse } from "tldts";
import { domainProblem } from "../sso/domain-name.ts";

/** Where the record of a name's owner is looked for: the same place as for domains of single sign-on. */
const TXT_PREFIX = "_laurel-challenge";

export const txtNameOf = (domain: string): string => `${TXT_PREFIX}.${domain}`;
export const txtValueOf = (token: string): string => `laurel-custom-domain=${token}`;
export const cnameTargetOf = (label: string, suffix: string): string => `${label}.${suffix}`;

/** Returns the name in a Host header, without port and final dot; "" for addresses and what is no domain. */
export const nameOfHost = (host: string | undefined): string => {
  const name = (host ?? "").replace(/:\d*$/, "").replace(/\.$/, "").toLowerCase();
  return name.includes(".") && isIP(name) === 0 ? name : "";
};

const isAtOrBelow = (name: string, other: string): boolean => name === other || name.endsWith(`.${other}`);

/**
 * Returns why a normalised name cannot be a custom domain, as a predicate; undefined if it can: somebody can
 * register it, and it is none of this server's own, nor above or below one.
 */
export const customDomainProblem = (domain: string, ownHosts: readonly string[]): string | undefined => {
  const problem = domainProblem(domain);
  if (problem !== undefined) return problem;
  const { isIcann, isPrivate } = parse(domain, { allowPrivateDomains: true });
  if (isIcann !== true && isPrivate !== true) return "must be below a public suffix, such as .com";
  if (ownHosts.some((own) => isAtOrBelow(domain, own) || isAtOrBelow(own, domain)))
    return "must not be a name of this server";
  return undefined;
};
