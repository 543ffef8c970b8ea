import { isIP } from "node:net";
import type { OutboundSettings } from "../../config.ts";
import { isPublicAddress, LOCAL_NETWORKS } from "./address.ts";

/** Where a request goes, after its address has passed. */
export type Target = {
  /** Scheme, host and port: what connections are shared by. */
  origin: string;
  isTls: boolean;
  /** A name in ASCII, or an IP address without brackets. */
  host: string;
  isAddress: boolean;
  port: number;
  /** With the query. */
  path: string;
};

/** A URL is asked, or there is something wrong with it: a predicate, such as "must start with https://". */
export type Judged = { target: Target; problem?: never } | { target?: never; problem: string };

/** What guards a process's requests to strangers. */
export type Guard = {
  judge(url: string): Judged;
  /** Whether connections to an IP address are allowed. */
  isAllowed(address: string): boolean;
  /** Development: names that only this machine knows are looked up as well. */
  isLocal: boolean;
};

const URL_LENGTH_MAX = 2_048;
const NAME_LENGTH_MAX = 253;
const LABEL = /^(?!-)[a-z0-9_-]{1,63}(?<!-)$/;
/** Parsers disagree on these, or drop them silently. */
// oxlint-disable-next-line no-control-regex -- control characters are what is looked for
const AMBIGUOUS = /[\u0000-\u0020\u007f\\]/;
/** Names of networks of one's own, which public DNS does not have. */
const PRIVATE_NAME =
  /(^|\.)(localhost|localdomain|local|internal|intranet|private|corp|home|lan|home\.arpa)$/;
/** URLs whose judgement is kept. */
const KEPT_MAX = 1_000;

export const NOT_PUBLIC = "is not public";

/** Judges by OUTBOUND_ALLOW_CIDRS, OUTBOUND_PORTS and WEBHOOKS_ALLOW_LOCAL. */
export const createGuard = ({ allowCidrs, allowLocal, ports }: OutboundSettings): Guard => {
  const allow = allowLocal ? [...allowCidrs, ...LOCAL_NETWORKS] : allowCidrs;
  const isAllowed = (address: string): boolean => isPublicAddress(address, allow);
  // Who allows private networks means the names in them too: their addresses decide.
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

  const judge = (text: string): Judged => {
    if (text.length > URL_LENGTH_MAX) return { problem: `must have at most ${URL_LENGTH_MAX} characters` };
    if (AMBIGUOUS.test(text)) return { problem: "must not hold spaces, control characters or backslashes" };
    const url = URL.parse(text);
    if (url === null || authorityOf(text) === "")
      return { problem: "must be an address that starts with https://" };
    const host = url.hostname.replace(/^\[(.*)\]$/, "$1");
    const problem = problemOf(text, url) ?? hostProblem(host);
    return problem === undefined ? { target: targetOf(url, host) } : { problem };
  };

  return { judge: remembered(judge), isAllowed, isLocal: allowLocal };
};

/** What stands between the slashes; "" without them. */
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

/** The same few URLs are asked again and again. The oldest of KEPT_MAX is forgotten. */
const remembered = (judge: Guard["judge"]): Guard["judge"] => {
  const kept = new Map<string, Judged>();
  return (url) => {
    const known = kept.get(url);
    if (known) return known;
    const judged = judge(url);
    if (judged.target === undefined) return judged;
    const oldest = kept.size >= KEPT_MAX ? kept.keys().next() : undefined;
    if (oldest && !oldest.done) kept.delete(oldest.value);
    kept.set(url, judged);
    return judged;
  };
};
