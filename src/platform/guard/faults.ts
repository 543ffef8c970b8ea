import { lookup, Resolver } from "node:dns/promises";
import { codeOf } from "../../domain/kernel/errors.ts";
import { connect as connectTcp, isIP, isIPv6, type LookupFunction, type Socket } from "node:net";
import { connect as connectTls, createSecureContext } from "node:tls";
import ipaddr from "ipaddr.js";
import { errors } from "undici";
import type { OutboundSettings } from "../../config/sections.ts";
import { isIn, networkOf } from "../../domain/kernel/networks.ts";
import { createSizedCache } from "../../domain/kernel/caches.ts";

/** The only block of IPv6 that has been allocated as public addresses. */
const ALLOCATED = ipaddr.IPv6.parseCIDR("2000::/3");
/** Addresses in public ranges at which clouds serve internal data to their machines. */
const CLOUD_INTERNAL = ["168.63.129.16"];

/** This machine and private networks, for development. Excludes the metadata service of clouds at 169.254. */
const LOCAL_NETWORKS = [
  "127.0.0.0/8",
  "10.0.0.0/8",
  "172.16.0.0/12",
  "192.168.0.0/16",
  "100.64.0.0/10",
  "::1/128",
  "fc00::/7",
] as const;

/**
 * Whether an address belongs to the public internet, or to one of the networks in `allow`: CIDR blocks, which
 * the configuration has checked. False for invalid addresses and those with a zone.
 */
export const isPublicAddress = (text: string, allow: readonly string[] = []): boolean => {
  if (isIP(text) === 0 || text.includes("%")) return false;
  const network = networkOf(text);
  if (network === undefined) return false;
  if (isIn(network, allow)) return true;
  // IPv4-mapped IPv6 addresses are judged as IPv4.
  const address = ipaddr.process(text);
  if (address.range() !== "unicast" || isIn(network, CLOUD_INTERNAL)) return false;
  return address instanceof ipaddr.IPv4 || address.match(ALLOCATED);
};

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
type UrlVerdict = { target: Target; problem?: never } | { target?: never; problem: string };

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

/** Thrown for an address that requests may not go to. */
export class Refused extends Error {
  /** @param problem a predicate, as `UrlVerdict` has it */
  constructor(problem = NOT_PUBLIC) {
    super(`the address ${problem} (URL_NOT_ALLOWED)`);
  }
}

/** The cause of a failed exchange, worded for the endpoint's owner: it contains nothing of the request. */
export class Fault extends Error {}

const TEXTS: Readonly<Record<string, string>> = {
  ENOTFOUND: "the name could not be resolved: there is no such name",
  ENODATA: "the name could not be resolved: it has no address",
  ECONNREFUSED: "the connection was refused",
  ECONNRESET: "the connection was reset",
  EPIPE: "the connection was reset",
  ETIMEDOUT: "the host does not answer",
  EHOSTUNREACH: "the host cannot be reached",
  ENETUNREACH: "the host cannot be reached",
  UND_ERR_SOCKET: "the connection was closed before the answer was complete",
  UND_ERR_RES_CONTENT_LENGTH_MISMATCH: "the connection was closed before the answer was complete",
  UND_ERR_HEADERS_OVERFLOW: "the headers of the answer are too large",
  UND_ERR_INVALID_ARG: "the request cannot be written as HTTP",
  ERR_TLS_CERT_ALTNAME_INVALID: "the certificate is for another name",
  CERT_HAS_EXPIRED: "the certificate has expired",
  CERT_NOT_YET_VALID: "the certificate is not valid yet",
  CERT_REVOKED: "the certificate was revoked",
  DEPTH_ZERO_SELF_SIGNED_CERT: "the certificate is self-signed",
  SELF_SIGNED_CERT_IN_CHAIN: "the certificate comes from an authority that is not trusted",
  UNABLE_TO_GET_ISSUER_CERT: "the certificate comes from an authority that is not trusted",
  UNABLE_TO_GET_ISSUER_CERT_LOCALLY:
    "the certificate comes from an authority that is not trusted, or an intermediate one is missing",
  UNABLE_TO_VERIFY_LEAF_SIGNATURE:
    "the certificate comes from an authority that is not trusted, or an intermediate one is missing",
};
const TLS_CODE = /^(ERR_SSL_|ERR_TLS_|EPROTO$)/;

/**
 * Returns why an exchange failed. Messages of errors are not passed on: they may quote the request and its
 * address.
 */
export const faultText = (error: unknown): string => {
  if (error instanceof Refused || error instanceof Fault) return error.message;
  if (error instanceof errors.HTTPParserError) return "the answer is not HTTP/1.1";
  const code = codeOf(error);
  return TEXTS[code] ?? (TLS_CODE.test(code) ? "the TLS handshake failed" : "the connection failed");
};

/** Time limit for one query to one DNS server, in ms; then the next server is tried, and all once more. */
const QUESTION_MS = 2_000;
const QUESTION_TRIES = 2;
/** Time limit for one name as a whole, in ms. */
const NAME_MS = 8_000;
/** How long the addresses of one family wait for those of the other. */
const OTHER_FAMILY_MS = 1_000;

export type NameResolver = {
  /**
   * Resolves a name to its addresses, IPv4 first, at least one. Queried anew each time.
   * @throws when there are none, or none in time; cancelled by `signal`
   */
  resolve(name: string, signal: AbortSignal): Promise<readonly string[]>;
};

type NameResolverOptions = {
  /** Whether to resolve names that only this machine knows as well. */
  isLocal: boolean;
  /** Addresses of DNS servers, with ports; by default the system's. */
  servers: readonly string[] | undefined;
};

/**
 * Resolves names with DNS alone. `dns.lookup` would use the process's four threads for files and passwords,
 * and a few names with silent servers would block everything that needs those.
 */
export const createNameResolver = ({ isLocal, servers }: NameResolverOptions): NameResolver => {
  const ask = async (name: string, signal: AbortSignal): Promise<readonly string[]> => {
    // One per name: it can be cancelled by itself, and reads the system's current settings.
    const resolver = new Resolver({ timeout: QUESTION_MS, tries: QUESTION_TRIES });
    if (servers) resolver.setServers(servers);
    const cancel = () => resolver.cancel();
    const timers = [setTimeout(cancel, NAME_MS)];
    const hasOne = () => timers.push(setTimeout(cancel, OTHER_FAMILY_MS));
    signal.addEventListener("abort", cancel, { once: true });
    try {
      const families = [resolver.resolve4(name), resolver.resolve6(name)] as const;
      for (const family of families) family.then(hasOne, () => undefined);
      const [four, six] = await Promise.allSettled(families);
      const found = [four, six].flatMap((one) => (one.status === "fulfilled" ? one.value : []));
      if (found.length > 0) return found;
      throw failureOf([four, six]);
    } finally {
      for (const timer of timers) clearTimeout(timer);
      signal.removeEventListener("abort", cancel);
    }
  };

  return {
    resolve: async (name, signal) => {
      if (!isLocal) return ask(name, signal);
      if (/(^|\.)localhost$/.test(name)) return ["127.0.0.1", "::1"];
      try {
        return await ask(name, signal);
      } catch (error) {
        const known = await lookup(name, { all: true }).catch(() => []);
        if (known.length === 0) throw error;
        return known.map(({ address }) => address);
      }
    },
  };
};

/** Distinguishes NXDOMAIN from resolver failure. */
const failureOf = (families: readonly PromiseSettledResult<string[]>[]): unknown => {
  const reasons: unknown[] = families.flatMap((one) => (one.status === "rejected" ? [one.reason] : []));
  const isSilent = reasons.find((error) => !["ENOTFOUND", "ENODATA"].includes(codeOf(error)));
  if (isSilent === undefined) return reasons[0];
  return new Fault("the name could not be resolved: its DNS servers give no answer", { cause: isSilent });
};

/** Time limit for TCP and TLS, in ms. */
const CONNECT_MS = 10_000;
/** Delay before the next address of a name is tried, in ms. */
const ADDRESS_MS = 2_500;
/** Maximum number of addresses tried per name. */
const ADDRESSES_MAX = 4;

export type Connect = (target: Target, signal: AbortSignal) => Promise<Socket>;
type ConnectOptions = {
  guard: Guard;
  names: NameResolver;
  /** Trusted certificates, PEM; by default those of Node.js. */
  ca?: string | undefined;
};

/**
 * Connects to targets by addresses that have all been checked: a name is looked up once, and the checked
 * addresses are the ones used. The connected address is checked again before anything is sent.
 */
export const createConnect = ({ guard, names, ca }: ConnectOptions): Connect => {
  // Created once, because reading all authorities costs milliseconds.
  const secureContext = createSecureContext({ minVersion: "TLSv1.2", ...(ca === undefined ? {} : { ca }) });

  const addressesOf = async (
    { host, isAddress }: Target,
    signal: AbortSignal,
  ): Promise<readonly string[]> => {
    const addresses = isAddress ? [host] : await names.resolve(host, signal);
    // A non-public address among others is an attack, or a mistake.
    if (!addresses.every(guard.isAllowed)) throw new Refused();
    return addresses.slice(0, ADDRESSES_MAX);
  };

  const secure = (socket: Socket, { host, isAddress }: Target): Promise<Socket> => {
    const secured = connectTls({
      socket,
      secureContext,
      // The name that the certificate must match.
      host,
      ...(isAddress ? {} : { servername: host }),
      ALPNProtocols: ["http/1.1"],
      // Regardless of the environment.
      rejectUnauthorized: true,
    });
    return connected(secured, "secureConnect");
  };

  return async (target, signal) => {
    const addresses = await addressesOf(target, signal);
    const socket = connectTcp({
      host: target.host,
      port: target.port,
      lookup: pinnedTo(addresses),
      autoSelectFamily: true,
      autoSelectFamilyAttemptTimeout: ADDRESS_MS,
      noDelay: true,
    });
    let late: Fault | undefined;
    const end = () => socket.destroy();
    const timer = setTimeout(() => {
      late = new Fault(`no connection within ${CONNECT_MS / 1000} s`);
      end();
    }, CONNECT_MS);
    signal.addEventListener("abort", end, { once: true });
    if (signal.aborted) end();
    try {
      await connected(socket, "connect");
      if (!guard.isAllowed(socket.remoteAddress ?? "")) throw new Refused();
      return target.isTls ? await secure(socket, target) : socket;
    } catch (error) {
      end();
      throw late ?? error;
    } finally {
      clearTimeout(timer);
      signal.removeEventListener("abort", end);
    }
  };
};

const pinnedTo =
  (addresses: readonly string[]): LookupFunction =>
  (_name, _options, callback) => {
    callback(
      null,
      addresses.map((address) => ({ address, family: isIPv6(address) ? 6 : 4 })),
    );
  };

const connected = (socket: Socket, event: "connect" | "secureConnect"): Promise<Socket> =>
  new Promise((resolve, reject) => {
    const isClosed = () => reject(new Fault("the connection was closed while it was being opened"));
    const isThere = () => {
      socket.off("error", reject).off("close", isClosed);
      // Until the next listener is attached.
      socket.on("error", () => undefined);
      resolve(socket);
    };
    socket.once(event, isThere).once("error", reject).once("close", isClosed);
  });
