import { domainToASCII } from "node:url";
import { parse } from "tldts";

/**
 * Top-level domains that are words too, so that `polka dot me` is no link: a spelled-out dot only counts
 * before others.
 */
const ORDINARY_ENDS: ReadonlySet<string> = new Set(
  "am as at be by do for go he hi how id im in is it la me mo mu my no now of on one or pm red so to us we"
    .concat(" here best cool cash fun game games day live love life like work world you guru run show blue")
    .split(" "),
);

const UNSEEN = /[\p{Default_Ignorable_Code_Point}\p{Cf}]/gu;
/** `(dot)`, `[.]`, `{dot}`; the ideographic full stops. */
const DOT_IN_BRACKETS = / ?[([{](?:dot|punkt|punto|\.)[)\]}] ?/gu;
const OTHER_DOTS = /[\u3002\uff61\u2024]/gu;
/** Between two words with one space each. */
const SPELLED_DOT = / dot (\p{L}{2,24})(?![\p{L}\p{N}])/gu;
const SCHEME = /^(?:hxxps?|h\*\*ps?|https?|ftps?|wss?):\/{1,2}|^[a-z][a-z0-9+-]{1,15}:\/\//u;
/** Separates hosts from one another and from the surrounding text. */
const NO_HOST = /[^\p{L}\p{N}\p{M}.\-_]+/u;
const EDGE: ReadonlySet<string> = new Set(".-_");

/** A link in a text: its host's registrable domain, null for an IP address or an unknown one. */
export type Link = { host: string; domain: string | null };

/** Private suffixes count, so that allowing `ada.github.io` does not allow everybody's. */
const SUFFIXES = { allowPrivateDomains: true } as const;

const open = (text: string): string =>
  text
    .normalize("NFKC")
    .toLowerCase()
    .replaceAll(UNSEEN, "")
    .replaceAll(OTHER_DOTS, ".")
    .replaceAll(DOT_IN_BRACKETS, ".")
    .replaceAll(SPELLED_DOT, (whole, end: string) => (ORDINARY_ENDS.has(end) ? whole : `.${end}`));

/** Returns the registrable domain of a host, also of one that is a suffix itself, such as `github.io`. */
const domainOf = (host: string): string | null => {
  const found = parse(host, SUFFIXES);
  return found.domain ?? (found.isPrivate === true ? host : null);
};

/** Whether a name without a scheme is meant as a host. */
const isHost = (name: string): boolean => {
  if (!name.includes(".")) return false;
  const { isIcann, isPrivate, domain } = parse(name, SUFFIXES);
  return (isIcann === true || isPrivate === true) && domain !== null;
};

/** Returns the links in text between two spaces. */
const linksOf = (chunk: string): Link[] => {
  const links: Link[] = [];
  // Browsers treat a backslash as a slash.
  for (const part of chunk.replaceAll("\\", "/").split(/(?=[a-z][a-z0-9+*-]{1,15}:\/)/u)) {
    const scheme = SCHEME.exec(part)?.[0];
    const [before, ...path] = part.slice(scheme?.length ?? 0).split("/");
    const hosts = namesIn(before!).filter((name) => scheme !== undefined || isHost(name));
    if (scheme !== undefined && hosts.length === 0) hosts.push("");
    for (const piece of path) hosts.push(...hostsInPath(piece, links.length + hosts.length > 0));
    for (const host of hosts) links.push({ host, domain: domainOf(host) });
  }
  return links;
};

/** Text after a slash is a path of the preceding link, unless it is separated from it. */
const hostsInPath = (piece: string, isAfterLink: boolean): string[] => {
  const hosts = namesIn(piece).filter(isHost);
  const isPath = isAfterLink && hosts.length > 0 && piece.startsWith(hosts[0]!);
  return isPath ? hosts.slice(1) : hosts;
};

/** Uses a loop: a regular expression for the end would examine a row of dots once for each of them. */
const trimEdges = (name: string): string => {
  let [start, end] = [0, name.length];
  while (start < end && EDGE.has(name[start]!)) start += 1;
  while (end > start && EDGE.has(name[end - 1]!)) end -= 1;
  return name.slice(start, end);
};

const namesIn = (piece: string): string[] =>
  piece
    .split(NO_HOST)
    .map(trimEdges)
    .filter((name) => name !== "");

/**
 * Returns the links of a text: with a scheme, `hxxp` too; names that end in a suffix of the public list; and
 * both with spelled-out dots. Linear in the text, total for any string.
 */
export const findLinks = (text: string): Link[] =>
  open(text)
    .split(/\s+/u)
    .flatMap((chunk) => (/[.:]/u.test(chunk) ? linksOf(chunk) : []));

/** Returns the first link of a text that does not lead to one of `allowedDomains` or a subdomain. */
export const findForeignLink = (text: string, allowedDomains: readonly string[]): Link | undefined => {
  // `bücher.de` and `xn--bcher-kva.de` are one.
  const nameOf = (domain: string): string => domainToASCII(domain) || domain;
  const allowed = new Set(allowedDomains.map((domain) => nameOf(domainOf(domain.toLowerCase()) ?? "")));
  return findLinks(text).find(({ domain }) => domain === null || !allowed.has(nameOf(domain)));
};
