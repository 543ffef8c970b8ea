import { Resolver } from "node:dns/promises";
import type { CaaRecord, DnsRecords } from "../domain/accounts/domains/states.ts";
import { codeOf } from "../domain/kernel/errors.ts";

/** Time limit for one query to one DNS server, in ms, and for the whole look-up. */
const QUESTION_MS = 2_000;
const QUESTION_TRIES = 2;
const NAME_MS = 8_000;
const RECORDS_MAX = 100;
/** There is no such name, or it has no record of the kind. */
const ABSENT: ReadonlySet<string> = new Set(["ENOTFOUND", "ENODATA"]);

const CRITICAL = 128;

/** Node.js puts the tag of a record beside its other fields, which a hostile one may be called like. */
const caaOf = ({ critical, type: _type, ...tagged }: Record<string, unknown>): CaaRecord => {
  const [[tag, value] = ["", ""]] = Object.entries(tagged);
  return { isCritical: (Number(critical) & CRITICAL) !== 0, tag, value: String(value) };
};

/**
 * Looks records up, each time anew. A look-up whose servers fail, or give no answer in 8 s, throws.
 * @param servers addresses of DNS servers, with ports; empty: the system's
 */
export const createDnsRecords = (servers: readonly string[]): DnsRecords => {
  const ask = async <T>(question: (resolver: Resolver) => Promise<T[]>): Promise<T[]> => {
    const resolver = new Resolver({ timeout: QUESTION_MS, tries: QUESTION_TRIES });
    if (servers.length > 0) resolver.setServers(servers);
    const timer = setTimeout(() => resolver.cancel(), NAME_MS);
    try {
      return (await question(resolver)).slice(0, RECORDS_MAX);
    } catch (error) {
      if (ABSENT.has(codeOf(error))) return [];
      throw error;
    } finally {
      clearTimeout(timer);
    }
  };
  return {
    txt: async (name) => {
      const records = await ask((resolver) => resolver.resolveTxt(name));
      return records.map((chunks) => chunks.join(""));
    },
    cname: (name) => ask((resolver) => resolver.resolveCname(name)),
    addresses: async (name) => {
      const [four, six] = await Promise.all([
        ask((resolver) => resolver.resolve4(name)),
        ask((resolver) => resolver.resolve6(name)),
      ]);
      return [...four, ...six];
    },
    caa: async (name) => {
      const records = await ask<object>((resolver) => resolver.resolveCaa(name));
      return records.map((record) => caaOf(record as Record<string, unknown>));
    },
  };
};
