import { defineEntity, type FilterQuery, p } from "@mikro-orm/core";
import { sql } from "kysely";
import { audit } from "../audit/audit.ts";
import { createShortCache, type ShortCache } from "../auth/short-cache.ts";
import { type Bucket, type Counted, type Limiter, LIMITS } from "./limiter.ts";
import {
  isProtected,
  limitKeyOf,
  type Network,
  networkOf,
  networkText,
  subscriberOf,
} from "../../kernel/networks.ts";
import { forbidden, invalid, notFound } from "../../kernel/errors.ts";
import { newId } from "../../kernel/ids.ts";
import { entityOrder, type Ordered, type PageQuery, type SortOf } from "../../kernel/paging.ts";
import { findPage, type Total, type Transact, type Work } from "../../kernel/work.ts";
import { definedOf, shown } from "../../kernel/json.ts";

export const BLOCK_SOURCES = ["MANUAL", "AUTO"] as const;
type BlockSource = (typeof BLOCK_SOURCES)[number];

const IpBlockSchema = defineEntity({
  name: "IpBlock",
  tableName: "ip_blocks",
  properties: {
    id: p.uuid().primary(),
    /** CIDR. */
    network: p.string().columnType("cidr"),
    reason: p.text(),
    source: p.text().$type<BlockSource>(),
    createdBy: p.text(),
    /** Null for a permanent block. */
    expiresAt: p.datetime(3).nullable(),
    createdAt: p.datetime(3),
  },
});
/** A network whose requests are rejected. */
export class IpBlock extends IpBlockSchema.class {}
IpBlockSchema.setClass(IpBlock);

/** Maximum duration of a temporary block, in seconds: ten years. */
export const BLOCK_SECONDS_MAX = 10 * 366 * 86_400;
export const BLOCK_REASON_MAX = 500;

type NewBlock = {
  /** An address (an IPv6 address stands for its /64) or a CIDR block. */
  network: string;
  reason: string;
  source: BlockSource;
  /** Duration; undefined: until it is removed. */
  seconds: number | undefined;
  /** In the format of `actorOf`, or "system". */
  createdBy: string;
};

/** Ends of active blocks in Unix ms by length of the prefix, then by network. */
type BlockedNetworks = ReadonlyMap<number, ReadonlyMap<string, number>>;

const CACHE_KEY = "all";
/** Rises with every change of a block in this process. */
let changes = 0;

/** Drops this process's cache of blocks; see CACHE_TTL_MS. */
export const forgetBlocks = (): void => void changes++;

/** Returns the network to block for `text`, an address or a CIDR block. @throws VALIDATION_ERROR */
const blockedNetworkOf = (text: string): Network => {
  const network = text.includes("/") ? networkOf(text) : subscriberOf(text);
  if (network === undefined) throw invalid("ip", "must be an IPv4 or IPv6 address");
  return network;
};

/**
 * Rejects all requests of a network from now on. Automatic blocks do
 * not change a block made by an administrator, and never shorten one.
 *
 * The caller must have checked that the network may be blocked: see `isProtected`. Counters of abuse call
 * `noteAbuse`, which does.
 *
 * @returns the block in force
 * @throws VALIDATION_ERROR for an invalid `network`
 */
export const blockAddress = async (work: Work, block: NewBlock): Promise<IpBlock> => {
  const { reason, source, seconds, createdBy } = block;
  const network = networkText(blockedNetworkOf(block.network));
  const nowText = work.now.toISOString();
  const untilMs = seconds === undefined ? undefined : work.now.getTime() + seconds * 1_000;
  const expiresAt = untilMs === undefined ? null : new Date(untilMs).toISOString();
  const { rows } = await sql`
    insert into ip_blocks as b (id, network, reason, source, created_by, expires_at, created_at)
    values (${newId()}::uuid, ${network}::cidr, ${reason.slice(0, BLOCK_REASON_MAX)}, ${source}, ${createdBy},
      ${expiresAt}::timestamptz, ${nowText}::timestamptz)
    on conflict (network) do update set reason = excluded.reason, source = excluded.source,
      created_by = excluded.created_by, expires_at = excluded.expires_at, created_at = excluded.created_at
    where excluded.source = 'MANUAL' or b.expires_at <= excluded.created_at
      or (b.source = 'AUTO' and b.expires_at < excluded.expires_at)
    returning 1`.execute(work.db);
  if (rows.length > 0) {
    work.afterCommit(forgetBlocks);
    const data = definedOf({ reason, source, seconds });
    const target = { type: "ip", id: network };
    await audit(work, { action: "ip.blocked", target, tenantId: null, data });
  }
  return work.em.findOneOrFail(IpBlock, { network }, { refresh: true });
};

/** Removes the block of this address; blocks of wider networks stay. @throws NOT_FOUND */
export const unblockAddress = async (work: Work, address: string): Promise<void> => {
  const network = networkText(blockedNetworkOf(address));
  const { rows } = await sql`
    delete from ip_blocks where network = ${network}::cidr returning 1`.execute(work.db);
  if (rows.length === 0) throw notFound("Block of this address");
  work.afterCommit(forgetBlocks);
  await audit(work, { action: "ip.unblocked", target: { type: "ip", id: network }, tenantId: null });
};

/** Returns the block that applies to an address for the longest time, read from the database. */
export const findBlock = async (work: Work, address: string): Promise<IpBlock | undefined> => {
  const network = networkText(blockedNetworkOf(address));
  const { rows } = await sql<{ id: string }>`
    select id from ip_blocks where network >>= ${network}::inet
      and (expires_at is null or expires_at > ${work.now.toISOString()}::timestamptz)
    order by expires_at desc nulls first limit 1`.execute(work.db);
  const [row] = rows;
  return row && (await work.em.findOneOrFail(IpBlock, { id: row.id }));
};

/** Orders of the list. */
export const IP_BLOCK_ORDERS = { by: { createdAt: "createdAt" }, usual: "desc" } as const;

/** Returns the blocks in force, newest first. */
export const listBlocks = async (
  work: Work,
  query: PageQuery & Ordered<SortOf<typeof IP_BLOCK_ORDERS>> & { source?: BlockSource | undefined },
): Promise<Total & { rows: readonly IpBlock[] }> => {
  const where: FilterQuery<IpBlock> = {
    $or: [{ expiresAt: null }, { expiresAt: { $gt: work.now } }],
    ...definedOf({ source: query.source }),
  };
  return findPage(work, IpBlock, where, { query, orderBy: entityOrder(IP_BLOCK_ORDERS, query) });
};

export const showBlock = (block: IpBlock) =>
  shown(block, ["network", "reason", "source", "createdBy", "createdAt", "expiresAt"]);

const load = async (work: Work): Promise<BlockedNetworks> => {
  const { rows } = await sql<{ network: string; expires_at: Date | null }>`
    select network::text as network, expires_at from ip_blocks
    where expires_at is null or expires_at > ${work.now.toISOString()}::timestamptz`.execute(work.db);
  const byBits = new Map<number, Map<string, number>>();
  for (const row of rows) {
    const network = networkOf(row.network);
    if (network === undefined) continue;
    const ends = byBits.get(network.bits) ?? new Map<string, number>();
    byBits.set(network.bits, ends);
    ends.set(networkText(network), row.expires_at?.getTime() ?? Infinity);
  }
  return byBits;
};

/** Returns until when an address is blocked. */
const blockEndOf = (networks: BlockedNetworks, address: Network, nowMs: number): number | undefined => {
  for (const [bits, ends] of networks) {
    if (bits > address.bits) continue;
    const endMs = ends.get(networkText({ ...address, bits }));
    if (endMs !== undefined && endMs > nowMs) return endMs;
  }
  return undefined;
};

/** `transact` must see the accounts of all tenants. */
type BlockParts = { transact: Transact; clock: () => Date };

/**
 * What one server knows of the blocks, at most 5 s old; what was last read goes on being enforced while the
 * database is away.
 */
export class KnownBlocks {
  readonly #parts: BlockParts;
  readonly #cache: ShortCache<BlockedNetworks> = createShortCache();
  #lastKnown: BlockedNetworks = new Map();
  #changes = changes;

  constructor(parts: BlockParts) {
    this.#parts = parts;
  }

  /** Refuses the requests of a blocked address. @throws FORBIDDEN IP_BLOCKED */
  async refuse(address: string): Promise<void> {
    const networks = await this.#networks();
    if (networks.size === 0) return;
    const network = networkOf(address);
    const endMs = network && blockEndOf(networks, network, this.#parts.clock().getTime());
    if (endMs === undefined) return;
    const until = endMs === Infinity ? "" : ` until ${new Date(endMs).toISOString()}`;
    throw forbidden(
      "IP_BLOCKED",
      `Requests from your address are blocked${until}; the operator can lift this`,
    );
  }

  async #networks(): Promise<BlockedNetworks> {
    if (this.#changes !== changes) {
      this.#cache.clear();
      this.#changes = changes;
    }
    try {
      const read = await this.#cache.get(CACHE_KEY, () => this.#parts.transact(load));
      this.#lastKnown = read ?? this.#lastKnown;
    } catch {
      // Operations that need the database report its failure themselves.
    }
    return this.#lastKnown;
  }
}

const MINUTE = 60;
const HOUR = 3_600;

/** Reasons and durations of automatic blocks, applied when the limit of that name is exhausted. */
const ABUSE = {
  badKeys: { reason: "Too many API keys that do not exist", blockSeconds: 15 * MINUTE },
  loginFailures: { reason: "Too many failed logins", blockSeconds: 15 * MINUTE },
  honeypot: { reason: "Too many registrations by a program", blockSeconds: 24 * HOUR },
} as const;
type AbuseKind = keyof typeof ABUSE;

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

/** The limits by address that an administrator may read and reset, by their names in the API. */
const BUCKETS = {
  global: LIMITS.anonymous,
  registration: LIMITS.registration,
  login: LIMITS.loginFailures,
} as const satisfies Record<string, Bucket>;
export type IpBucket = keyof typeof BUCKETS;
export const IP_BUCKETS = Object.keys(BUCKETS) as [IpBucket, ...IpBucket[]];

const unixSeconds = (ms: number): number => Math.ceil(ms / 1_000);

export const readIpUsage = (limiter: Limiter, bucket: IpBucket, address: string): Promise<Counted> =>
  limiter.read(BUCKETS[bucket], limitKeyOf(address));

/** Returns the state of an address without requests. */
export const unusedIp = (bucket: IpBucket, now: Date): Counted => {
  const { points, seconds } = BUCKETS[bucket];
  const resetAtMs = now.getTime() + seconds * 1_000;
  return { isAllowed: true, used: 0, limit: points, remaining: points, windowSeconds: seconds, resetAtMs };
};

export const resetIpUsage = async (
  limiter: Limiter,
  buckets: readonly IpBucket[],
  address: string,
): Promise<void> => {
  for (const bucket of buckets) await limiter.reset(BUCKETS[bucket], limitKeyOf(address));
};

/** Returns what the API shows of an address, with times in Unix seconds. `ip` in its canonical spelling. */
export const ipStatus = (ip: string, state: Counted, block: IpBlock | undefined) => ({
  ip,
  usage: {
    current: state.used,
    limit: state.limit,
    remaining: state.remaining,
    window: state.windowSeconds,
    resetAt: unixSeconds(state.resetAtMs),
    usagePercent: Math.min(100, Math.round((state.used / state.limit) * 1_000) / 10),
  },
  isBlocked: block !== undefined,
  ...(block && { blockReason: block.reason }),
  ...(block?.expiresAt && { blockExpiresAt: unixSeconds(block.expiresAt.getTime()) }),
});
