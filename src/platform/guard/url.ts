import { isIP } from "node:net";
import type { OutboundSettings } from "../../config.ts";
import { createSizedCache } from "../../domain/kernel/sized-cache.ts";
import { isPublicAddress, LOCAL_NETWORKS } from "./address.ts";

/** Destination of a request whose address has been checked. */
export type Target = {
  /** Scheme, host and port: connections are shared per origin. */
  origin: string;
  isTls: boolean;
  /** A name in ASCII, or an IP address without brackets. */
  host: string;
  isAddress: boolean;
  port: number;
  /** Including the query. */
  path: string;
};

/** The verdict on a URL: a target, or a problem as a predicate, such as "must start with https://". */
export type UrlVerdict = { target: Target; problem?: never } | { target?: never; problem: string };

/** Checks where a process's requests to foreign servers may go. */
export type Guard = {
  judge(url: string): UrlVerdict;
  /** Whether connections to an IP address are allowed. */
  isAllowed(address: string): boolean;
  /** Development: names that only this machine knows are resolved as well. */
  isLocal: boolean;
};

const URL_LENGTH_MAX = 2_048;
const NAME_LENGTH_MAX = 253;
const LABEL = /^(?!-)[a-z0-9_-]{1,63}(?<!-)$/;
/** Parsers disagree on these, or drop them silently. */
// oxlint-disable-next-line no-control-regex -- control characters are what is looked for
const AMBIGUOUS = /[\u0000-\u0020\u007f\\]/;
/** Names of private networks, which public DNS does not have. */
const PRIVATE_NAME =
  /(^|\.)(localhost|localdomain|local|internal|intranet|private|corp|home|lan|home\.arpa)$/;
/** Maximum number of URLs whose verdict is cached. */
const KEPT_MAX = 1_000;

export const NOT_PUBLIC = "is not public";

/** Creates a guard from OUTBOUND_ALLOW_CIDRS, OUTBOUND_PORTS and WEBHOOKS_ALLOW_LOCAL. */
export const createGuard = ({ allowCidrs, allowLocal, ports }: OutboundSettings): Guard => {
  const allow = allowLocal ? [...allowCidrs, ...LOCAL_NETWORKS] : allowCidrs;
  const isAllowed = (address: string): boolean => isPublicAddress(address, allow);
  // Allowing private networks includes the names in them: their addresses decide.
  const areNamesPublic = allow.length === 0;

  const hostProblem = (host: string): string | undefined => {
    if (isIP(host) !== 0) return isAllowed(host) ? undefined : NOT_PUBLIC;
    if (host.length > NAME_LENGTH_MAX || !host.split(".").every((label) => LABEL.test(label)))
      return "must name a host by letters, digits and hyphens, without a dot at its end";
    const isPrivate = areNamesPublic && (!host.includes(".") || PRIVATE_NAME.test(host));
    return isPrivate ? NOT_PUBLIC : undefined;
  };

  const problemOf = (text: string, { protocol, username, password, port }: URL): string | undefined => {
    if (protocol !== "https:" && !(allowLocal && protocol === "http:")) return "must start with https://";
    // The parser drops empty credentials; another program might not.
    if (username !== "" || password !== "" || authorityOf(text).includes("@"))
      return "must not carry a user name or a password";
    if (!allowLocal && !ports.includes(port === "" ? 443 : Number(port)))
      return `must use port ${new Intl.ListFormat("en", { type: "disjunction" }).format(ports.map(String))}`;
    return undefined;
  };

  const judge = (text: string): UrlVerdict => {
    if (text.length > URL_LENGTH_MAX) return { problem: `must have at most ${URL_LENGTH_MAX} characters` };
    if (AMBIGUOUS.test(text)) return { problem: "must not hold spaces, control characters or backslashes" };
    const url = URL.parse(text);
    if (url === null || authorityOf(text) === "")
      return { problem: "must be an address that starts with https://" };
    const host = url.hostname.replace(/^\[(.*)\]$/, "$1");
    const problem = problemOf(text, url) ?? hostProblem(host);
    return problem === undefined ? { target: targetOf(url, host) } : { problem };
  };

  return { judge: cached(judge), isAllowed, isLocal: allowLocal };
};

/** Returns the authority part between the slashes; "" without one. */
const authorityOf = (text: string): string => /^[a-z]+:\/\/([^/?#]*)/i.exec(text)?.[1] ?? "";

const targetOf = (url: URL, host: string): Target => {
  const isTls = url.protocol === "https:";
  return {
    origin: url.origin,
    isTls,
    host,
    isAddress: isIP(host) !== 0,
    port: url.port === "" ? (isTls ? 443 : 80) : Number(url.port),
    path: `${url.pathname}${url.search}`,
  };
};

/** Caches verdicts, because the same few URLs recur. */
const cached = (judge: Guard["judge"]): Guard["judge"] => {
  const kept = createSizedCache<UrlVerdict>({ items: KEPT_MAX });
  return (url) => {
    const known = kept.get(url);
    if (known) return known;
    const judged = judge(url);
    if (judged.target === undefined) return judged;
    return kept.keep(url, judged, { owner: judged.target.origin });
  };
};
