import { lookup, Resolver } from "node:dns/promises";
import { codeOf, Fault } from "./faults.ts";

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

export type NameResolverOptions = {
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
  const errors: unknown[] = families.flatMap((one) => (one.status === "rejected" ? [one.reason] : []));
  const isSilent = errors.find((error) => !["ENOTFOUND", "ENODATA"].includes(codeOf(error)));
  if (isSilent === undefined) return errors[0];
  return new Fault("the name could not be resolved: its DNS servers give no answer", { cause: isSilent });
};
