import { networkOf } from "../rate-limits/ip-address.ts";
import { lookForCaa } from "./caa.ts";
import type { DnsRecords } from "./dns.ts";
import { cnameTargetOf, txtNameOf, txtValueOf } from "./names.ts";
import type { CheckResult, DomainRow } from "./row.ts";
import type { Seen } from "./states.ts";

/**
 * Where custom domains must point. `caaNames`: what CAA records call the authority of this server; none where
 * it has no authority, or nobody has said.
 */
export type Ingress = { suffix: string; ingressIps: readonly string[]; caaNames: readonly string[] };

type One = { result: CheckResult; error?: string };

const OK: One = { result: "OK" };
const missing = (error: string): One => ({ result: "MISSING", error });
const silent = (name: string): One => ({
  result: "UNKNOWN",
  error: `the DNS servers of ${name} give no answer`,
});

const lookForTxt = async (dns: DnsRecords, { domain, token }: DomainRow): Promise<One> => {
  const name = txtNameOf(domain);
  try {
    const found = await dns.txt(name);
    if (found.includes(txtValueOf(token))) return OK;
    return missing(`${name} has ${found.length === 0 ? "no TXT record" : "only other TXT records"}`);
  } catch {
    return silent(name);
  }
};

const sameName = (a: string, b: string): boolean => a.replace(/\.$/, "").toLowerCase() === b;

/** Addresses are compared as numbers: IPv6 has many spellings. */
const addressKey = (text: string): string => {
  const network = networkOf(text);
  return network ? `${network.family}:${network.base}` : text;
};

const lookForRouting = async (
  dns: DnsRecords,
  { domain, label }: DomainRow,
  { suffix, ingressIps }: Ingress,
): Promise<One> => {
  const target = cnameTargetOf(label, suffix);
  try {
    const names = await dns.cname(domain);
    if (names.length === 1 && sameName(names[0]!, target)) return OK;
    // A name that is another one's leads wherever that one does.
    if (names.length > 0) return missing(`${domain} is a CNAME of another name than ${target}`);
    if (ingressIps.length === 0) return missing(`${domain} has no CNAME record`);
    const ours = new Set(ingressIps.map(addressKey));
    const found = await dns.addresses(domain);
    if (found.length > 0 && found.every((address) => ours.has(addressKey(address)))) return OK;
    return missing(
      found.length === 0
        ? `${domain} has neither a CNAME record nor addresses`
        : `${domain} has addresses that are none of this server`,
    );
  } catch {
    return silent(domain);
  }
};

/** Looks whether a domain's records are there. Not to be called in a transaction; never throws. */
export const lookAtDomain = async (dns: DnsRecords, domain: DomainRow, ingress: Ingress): Promise<Seen> => {
  const [txt, routing, { caa, caaError }] = await Promise.all([
    lookForTxt(dns, domain),
    lookForRouting(dns, domain, ingress),
    lookForCaa(dns, domain.domain, ingress.caaNames),
  ]);
  const error = txt.error ?? routing.error ?? (caa === "REFUSED" ? caaError : null);
  return { txt: txt.result, routing: routing.result, caa, error };
};
