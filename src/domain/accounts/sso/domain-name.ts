import { domainToASCII } from "node:url";
import { parse } from "tldts";

export const DOMAIN_MAX = 253;
const LABEL = /^(?!-)[a-z0-9-]{1,63}(?<!-)$/;

/** What begins or separates other parts of an address than its host. */
const NO_HOST = /[/\\?#@:%]/;

/** Returns a domain as it is stored: ASCII, lower case; "" for what is none. */
export const normaliseDomain = (text: string): string =>
  NO_HOST.test(text) ? "" : domainToASCII(text.trim()).toLowerCase();

/**
 * Returns why a normalised name cannot be a domain of email addresses, as a predicate; undefined if it can:
 * it must be below a public suffix, and no address, wildcard or port.
 */
export const domainProblem = (domain: string): string | undefined => {
  if (domain === "" || domain.length > DOMAIN_MAX || !domain.split(".").every((label) => LABEL.test(label)))
    return "must be a domain, such as example.com";
  const { domain: registrable, isIp } = parse(domain, { allowPrivateDomains: true });
  if (isIp === true || registrable === null) return "must be a domain that somebody can register";
  return undefined;
};

/** Returns the domain of a normalised address. */
export const domainOf = (email: string): string => normaliseDomain(email.slice(email.lastIndexOf("@") + 1));
