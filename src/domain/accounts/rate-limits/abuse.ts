import type { Transact } from "../../kernel/work.ts";
import { isProtected, limitKeyOf, subscriberOf } from "./ip-address.ts";
import { blockAddress } from "./ip-blocks.ts";
import type { Counted, Limiter } from "./limiter.ts";
import { LIMITS } from "./limits.ts";

const MINUTE = 60;
const HOUR = 3_600;

/** Reasons and durations of automatic blocks, applied when the limit of that name is exhausted. */
const ABUSE = {
  badKeys: { reason: "Too many API keys that do not exist", blockSeconds: 15 * MINUTE },
  loginFailures: { reason: "Too many failed logins", blockSeconds: 15 * MINUTE },
  honeypot: { reason: "Too many registrations by a program", blockSeconds: 24 * HOUR },
} as const;
export type AbuseKind = keyof typeof ABUSE;

/** Satisfied by an App. `transact` must see the accounts of all tenants. */
export type AbuseParts = {
  limiter: Limiter;
  transact: Transact;
  config: { trustedProxies: readonly string[] };
};

/**
 * Blocks an address that has exhausted `LIMITS[kind]`. Loopback and trusted proxies are never blocked. It
 * opens its own transaction, so it must be called outside any other.
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
 * Counts an abuse by an address against `LIMITS[kind]`, and blocks the address when that is exhausted. It
 * uses the limiter and opens a transaction, so it must be called outside any: after a failed login was
 * handled, not during it. Callers that count by other means call `blockAbuser` when nothing remains.
 *
 * @returns the current state of the limit
 */
export const noteAbuse = async (parts: AbuseParts, kind: AbuseKind, address: string): Promise<Counted> => {
  const state = await parts.limiter.consume(LIMITS[kind], limitKeyOf(address));
  // Once each time the limit is exhausted: other processes learn of a block later (CACHE_TTL_MS), and
  // requests until then must not write a row each.
  if (state.used > 0 && state.used % state.limit === 0) await blockAbuser(parts, kind, address);
  return state;
};
