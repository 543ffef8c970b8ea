import type { CaaRecord, DnsRecords } from "./dns.ts";

/** OK: the authority may issue; REFUSED: it may not; UNKNOWN: not looked at, or no answer. */
export const CAA_RESULTS = ["OK", "REFUSED", "UNKNOWN"] as const;
export type CaaResult = (typeof CAA_RESULTS)[number];

/** What CAA records say. `error`: why the authority may not issue, or what is not known. */
export type SeenCaa = { caa: CaaResult; caaError: string | null };

/** Names between a domain and the root that are asked for; nobody has as many by honest means. */
const LEVELS_MAX = 12;
/** Tags that authorities understand. Another one that is critical forbids everything. */
const KNOWN_TAGS: ReadonlySet<string> = new Set(["issue", "issuewild", "iodef", "issuemail"]);
/** How this server proves names to the authority. */
const METHOD = "http-01";
const SHOWN_MAX = 3;

/** The issuer of a record's value and its parameters (RFC 8659, 4.2), in lower case; "" for nobody. */
const parsed = (value: string): { issuer: string; parameters: Map<string, string> } => {
  const [issuer = "", ...rest] = value.split(";").map((part) => part.trim().toLowerCase());
  const pairs = rest.map((part) => part.split("=", 2).map((side) => side.trim()));
  return { issuer, parameters: new Map(pairs.map(([name = "", text = ""]) => [name, text])) };
};

const allowsMethod = ({ parameters }: ReturnType<typeof parsed>): boolean => {
  const methods = parameters.get("validationmethods");
  return methods === undefined || methods.split(",").some((method) => method.trim() === METHOD);
};

/**
 * Returns why an authority may issue no certificate for a name with these relevant records, of which there is
 * one at least (RFC 8659, 4.1 to 4.3, and the validationmethods of RFC 8657); undefined if it may. Records
 * about wildcards say nothing of other names. Pure.
 * @param authorities names of the authority, in lower case
 */
export const caaProblem = (
  records: readonly CaaRecord[],
  authorities: readonly string[],
): string | undefined => {
  const tagged = records.map((record) => ({ ...record, tag: record.tag.toLowerCase() }));
  if (tagged.some(({ isCritical, tag }) => isCritical && !KNOWN_TAGS.has(tag)))
    return "have a critical one that no authority understands";
  const issuers = tagged.filter(({ tag }) => tag === "issue").map(({ value }) => parsed(value));
  // Whoever names no issuer restricts none.
  if (issuers.length === 0) return undefined;
  const ours = issuers.filter(({ issuer }) => authorities.includes(issuer));
  if (ours.some(allowsMethod)) return undefined;
  if (ours.length > 0) return `allow ${ours[0]!.issuer} to issue by other ways than ${METHOD}`;
  const named = issuers.map(({ issuer }) => issuer).filter((issuer) => /^[a-z0-9.-]{1,80}$/.test(issuer));
  const allowed = named.length === 0 ? "nobody" : named.slice(0, SHOWN_MAX).join(", ");
  return `allow ${allowed} to issue certificates, and not ${authorities.join(", ")}`;
};

/** A name and those above it, except for the root. */
const climb = (domain: string): string[] => {
  const labels = domain.split(".");
  return labels.map((_label, from) => labels.slice(from).join("."));
};

type Found = readonly CaaRecord[] | undefined;

/**
 * Looks whether the authority may issue certificates for a domain: the records of the domain count or, where
 * it has none, those of the nearest name above that has some (RFC 8659, 3). All are asked at once, so names
 * whose servers are silent cost as long as one. Not to be called in a transaction; never throws.
 * @param authorities names of the authority; none: nothing is looked at
 */
export const lookForCaa = async (
  dns: DnsRecords,
  domain: string,
  authorities: readonly string[],
): Promise<SeenCaa> => {
  if (authorities.length === 0) return { caa: "UNKNOWN", caaError: null };
  const names = climb(domain);
  if (names.length > LEVELS_MAX)
    return { caa: "UNKNOWN", caaError: `${domain} has too many levels to look for CAA records` };
  const found = await Promise.all(names.map((name): Promise<Found> => dns.caa(name).catch(() => undefined)));
  for (const [index, records] of found.entries()) {
    const name = names[index]!;
    if (records === undefined)
      return { caa: "UNKNOWN", caaError: `the DNS servers of ${name} give no answer about CAA records` };
    if (records.length === 0) continue;
    const problem = caaProblem(records, authorities);
    if (problem !== undefined) return { caa: "REFUSED", caaError: `the CAA records of ${name} ${problem}` };
    break;
  }
  return { caa: "OK", caaError: null };
};
