import type { Transact } from "../../kernel/work.ts";
import { isProtected, limitKeyOf, subscriberOf } from "./ip-address.ts";
import { blockAddress } from "./ip-blocks.ts";
import type { Counted, Limiter } from "./limiter.ts";
import { LIMITS } from "./limits.ts";

const MINUTE = 60;
const HOUR = 3_600;

/** What an address is blocked for by itself, once it has done it as often as the limit of that name says. */
const ABUSE = {
  badKeys: { reason: "Too many API keys that do not exist", blockSeconds: 15 * MINUTE },
  loginFailures: { reason: "Too many failed logins", blockSeconds: 15 * MINUTE },
  honeypot: { reason: "Too many registrations by a program", blockSeconds: 24 * HOUR },
} as const;
export type AbuseKind = keyof typeof ABUSE;

/** An App is one. `transact` must see the accounts of all tenants. */
export type AbuseParts = {
  limiter: Limiter;
  transact: Transact;
  config: { trustedProxies: readonly string[] };
};

/**
 * Blocks an address that has used up `LIMITS[kind]`. Loopback and trusted proxies are never blocked. It opens
 * a transaction of its own, so it is called outside of any other.
 */
export const blockAbuser = async (
  { transact, config }: Omit<AbuseParts, "limiter">,
  kind: AbuseKind,
  address: string,
): Promise<void> => {
  const network = subscriberOf(address);
  if (network === undefined || isProtected(network, config.trustedProxies)) return;
  const { reason, blockSeconds: seconds } = ABUSE[kind];
  const block = { network: address, reason, source: "AUTO", seconds, createdBy: "system" } as const;
  await transact((work) => blockAddress(work, block));
};

/**
 * Counts an abuse by an address against `LIMITS[kind]`, and blocks the address when that is used up. It asks
 * the limiter and opens a transaction, so it is called outside of any: after a failed login was settled, not
 * while it is. Who counts by other means calls `blockAbuser` when nothing remains.
 *
 * @returns where the limit stands now
 */
export const noteAbuse = async (parts: AbuseParts, kind: AbuseKind, address: string): Promise<Counted> => {
  const state = await parts.limiter.consume(LIMITS[kind], limitKeyOf(address));
  // Once for each time that the limit is used up: other processes learn of a block within 5 s, and what
  // comes until then must not write a row each.
  if (state.used > 0 && state.used % state.limit === 0) await blockAbuser(parts, kind, address);
  return state;
};
