import type { FilterQuery } from "@mikro-orm/core";
import { sql } from "kysely";
import { audit } from "../audit/audit.ts";
import { createShortCache, type ShortCache } from "../auth/short-cache.ts";
import { countUpTo, type Total } from "../../kernel/counting.ts";
import { forbidden, invalid, notFound } from "../../kernel/errors.ts";
import { newId } from "../../kernel/ids.ts";
import { offsetOf, type PageQuery } from "../../kernel/paging.ts";
import { entityOrder, type Ordered, type SortOf } from "../../kernel/sorting.ts";
import type { Transact, Work } from "../../kernel/work.ts";
import { type Network, networkOf, networkText, prefixOf, subscriberOf } from "./ip-address.ts";
import { type BlockSource, IpBlock } from "./ip-block.ts";

/** Maximum duration of a temporary block, in seconds: ten years. */
export const BLOCK_SECONDS_MAX = 10 * 366 * 86_400;
export const BLOCK_REASON_MAX = 500;

export type NewBlock = {
  /** An address (an IPv6 address stands for its /64) or a CIDR block. */
  network: string;
  reason: string;
  source: BlockSource;
  /** Duration; undefined: until it is removed. */
  seconds: number | undefined;
  /** In the format of `actorOf`, or "system". */
  createdBy: string;
};

/** Properties of a block that requests need. */
type ActiveBlock = { untilMs: number };
/** Active blocks by family and prefix length, then by prefix. */
type BlockedNetworks = ReadonlyMap<string, ReadonlyMap<bigint, ActiveBlock>>;

const CACHE_KEY = "all";
/** Rises with every change of a block in this process. */
let changes = 0;

/** Drops this process's cache of blocks; see CACHE_TTL_MS. */
export const forgetBlocks = (): void => void changes++;

/** Returns the network to block for `text`, an address or a CIDR block. @throws VALIDATION_ERROR */
export const blockedNetworkOf = (text: string): Network => {
  const network = text.includes("/") ? networkOf(text) : subscriberOf(text);
  if (network === undefined) throw invalid("ip", "must be an IPv4 or IPv6 address");
  return network;
};

/**
 * Rejects all requests of a network from now on. Automatic blocks do
 * not change a block made by an administrator, and never shorten one.
 *
 * The caller must have checked that the network may be blocked: see `isProtected` of ip-address.ts. Counters
 * of abuse call `noteAbuse` of abuse.ts, which does.
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
    const data = { reason, source, ...(seconds === undefined ? {} : { seconds }) };
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
): Promise<Total & { inForce: readonly IpBlock[] }> => {
  const where: FilterQuery<IpBlock> = {
    $or: [{ expiresAt: null }, { expiresAt: { $gt: work.now } }],
    ...(query.source === undefined ? {} : { source: query.source }),
  };
  const page = { limit: query.limit, offset: offsetOf(query) };
  const inForce = await work.em.find(IpBlock, where, {
    ...page,
    orderBy: entityOrder(IP_BLOCK_ORDERS, query),
  });
  return { inForce, ...(await countUpTo(work, IpBlock, where)) };
};

export const showBlock = ({ network, reason, source, createdBy, expiresAt, createdAt }: IpBlock) => ({
  network,
  reason,
  source,
  createdBy,
  createdAt: createdAt.toISOString(),
  expiresAt: expiresAt?.toISOString() ?? null,
});

const load = async (work: Work): Promise<BlockedNetworks> => {
  const { rows } = await sql<{ network: string; expires_at: Date | string | null }>`
    select network::text as network, expires_at from ip_blocks
    where expires_at is null or expires_at > ${work.now.toISOString()}::timestamptz`.execute(work.db);
  const byKind = new Map<string, Map<bigint, ActiveBlock>>();
  for (const row of rows) {
    const network = networkOf(row.network);
    if (network === undefined) continue;
    const kind = `${network.family}/${network.bits}`;
    const ofKind = byKind.get(kind) ?? new Map<bigint, ActiveBlock>();
    byKind.set(kind, ofKind);
    const untilMs = row.expires_at === null ? Infinity : new Date(row.expires_at).getTime();
    ofKind.set(prefixOf(network, network.bits), { untilMs });
  }
  return byKind;
};

const findActiveBlock = (
  networks: BlockedNetworks,
  address: Network,
  nowMs: number,
): ActiveBlock | undefined => {
  for (const [kind, ofKind] of networks) {
    const [family, bits] = kind.split("/").map(Number);
    if (family !== address.family) continue;
    const block = ofKind.get(prefixOf(address, bits ?? 0));
    if (block && block.untilMs > nowMs) return block;
  }
  return undefined;
};

/** `transact` must see the accounts of all tenants. */
export type BlockParts = { transact: Transact; clock: () => Date };

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
    const block = network && findActiveBlock(networks, network, this.#parts.clock().getTime());
    if (!block) return;
    const until = block.untilMs === Infinity ? "" : ` until ${new Date(block.untilMs).toISOString()}`;
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
