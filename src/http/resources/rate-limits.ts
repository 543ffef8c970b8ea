import { z } from "zod";
import type { App } from "../../app.ts";
import { audit } from "../../domain/accounts/audit/audit.ts";
import { actorOf } from "../../domain/kernel/caller.ts";
import { invalid } from "../../domain/kernel/errors.ts";
import { canonicalAddress, isProtected, overlap, subscriberOf } from "../../domain/kernel/networks.ts";
import {
  BLOCK_REASON_MAX,
  BLOCK_SECONDS_MAX,
  BLOCK_SOURCES,
  blockAddress,
  findBlock,
  IP_BLOCK_ORDERS,
  IP_BUCKETS,
  type IpBucket,
  ipStatus,
  listBlocks,
  readIpUsage,
  resetIpUsage,
  showBlock,
  unblockAddress,
  unusedIp,
} from "../../domain/accounts/rate-limits/ip-blocks.ts";
import { Reply, group } from "../route.ts";
import { deleted, Deleted, paged, pageReply } from "./bodies.ts";

const IpParams = z.object({
  ip: z.string().max(64).meta({
    description: "An IPv4 or IPv6 address. Limits and blocks of an IPv6 address are those of its /64",
    example: "203.0.113.7",
  }),
});
const BucketName = z.enum(IP_BUCKETS).meta({
  description: "Of this address: global, requests without credentials; registration; login, failed logins",
});

const IpStatusBody = z
  .object({
    ip: z.string(),
    usage: z.object({
      current: z.int().meta({ description: "Requests in the window, refused ones too" }),
      limit: z.int(),
      remaining: z.int(),
      window: z.int().meta({ description: "Seconds" }),
      resetAt: z.int().meta({ description: "Unix seconds" }),
      usagePercent: z.number().min(0).max(100).meta({ description: "To one decimal" }),
    }),
    isBlocked: z.boolean(),
    blockReason: z.string().optional().meta({ description: "Absent when not blocked" }),
    blockExpiresAt: z.int().optional().meta({
      description: "Unix seconds; absent when not blocked, and for a block without end",
    }),
  })
  .meta({ id: "IpRateLimitStatus" });

const IpBlockBody = z
  .object({
    network: z.string().meta({ description: "CIDR", example: "203.0.113.7/32" }),
    reason: z.string(),
    source: z.enum(BLOCK_SOURCES).meta({ description: "AUTO: by the server itself" }),
    createdBy: z.string(),
    createdAt: z.iso.datetime(),
    expiresAt: z.iso.datetime().nullable().meta({ description: "null: until somebody takes it away" }),
  })
  .meta({ id: "IpBlock" });

const addressOf = ({ ip }: z.output<typeof IpParams>): string => {
  const address = canonicalAddress(ip);
  if (address === undefined) throw invalid("ip", "must be an IPv4 or IPv6 address");
  return address;
};

/** @throws VALIDATION_ERROR ADDRESS_PROTECTED for the caller's address, a proxy and this machine */
const refuseProtected = ({ config }: App, address: string, callersAddress: string): void => {
  const network = subscriberOf(address);
  if (network === undefined) return;
  const own = subscriberOf(callersAddress);
  const isOwn = own !== undefined && overlap(network, own);
  if (!isOwn && !isProtected(network, config.trustedProxies)) return;
  const whose = isOwn ? "your own address" : "loopback or a trusted proxy: it would shut everybody out";
  throw invalid("ip", `cannot be blocked, it is ${whose}`, "ADDRESS_PROTECTED");
};

const statusOf = async (app: App, address: string, bucket: IpBucket) => {
  const block = await app.transact((work) => findBlock(work, address));
  return ipStatus(address, await readIpUsage(app.limiter, bucket, address), block);
};

const common = group({ tag: "Rate limits", access: { admin: "*" }, project: "none" });
const ofIp = common.with({ params: IpParams });

export const rateLimitRoutes = [
  ofIp.get("/admin/rate-limits/ip/{ip}", "getIpRateLimit", {
    summary: "Get usage and block of an address",
    description: "An address that was never seen has used nothing.",
    query: z.object({ bucket: BucketName.default("global") }),
    response: IpStatusBody,
    outside: (app, { params, query }) => statusOf(app, addressOf(params), query.bucket),
  }),
  ofIp.post("/admin/rate-limits/ip/{ip}/block", "blockIp", {
    summary: "Block an address",
    description:
      "Its requests and joins of rooms answer 403 IP_BLOCKED, within 5 seconds on all processes. Replaces " +
      "a block that there is. Loopback, trusted proxies and your own address cannot be blocked.",
    body: z.object({
      reason: z.string().trim().min(1).max(BLOCK_REASON_MAX),
      durationSeconds: z.int().min(1).max(BLOCK_SECONDS_MAX).nullish().meta({
        description: "Without it, the block lasts until somebody takes it away",
      }),
    }),
    example: { reason: "Guesses passwords", durationSeconds: 3600 },
    response: IpBlockBody,
    run: async (work, { params, body, caller, actor }, app) => {
      const network = addressOf(params);
      refuseProtected(app, network, actor.ip);
      const { reason, durationSeconds } = body;
      const block = { network, reason, source: "MANUAL", createdBy: actorOf(caller) } as const;
      return showBlock(await blockAddress(work, { ...block, seconds: durationSeconds ?? undefined }));
    },
  }),
  ofIp.delete("/admin/rate-limits/ip/{ip}/block", "unblockIp", {
    summary: "Take the block of an address away",
    description: "Counts of the address stay; see its reset.",
    response: Deleted,
    run: (work, { params }) => deleted(unblockAddress(work, addressOf(params))),
  }),
  ofIp.post("/admin/rate-limits/ip/{ip}/reset", "resetIpRateLimit", {
    summary: "Reset the counters of an address",
    description:
      "Without `bucket`, of all three. Answers the state of `bucket`, or of global. A block stays.",
    body: z.object({ bucket: BucketName.optional() }),
    example: { bucket: "login" },
    response: IpStatusBody,
    outside: async (app, { params, body: { bucket } }) => {
      const address = addressOf(params);
      const target = { type: "ip", id: address };
      const block = await app.transact(async (work) => {
        const data = { bucket: bucket ?? "all" };
        await audit(work, { action: "ip.limits_reset", target, tenantId: null, data });
        return findBlock(work, address);
      });
      const status = ipStatus(address, unusedIp(bucket ?? "global", app.clock()), block);
      const finish = async () => {
        await resetIpUsage(app.limiter, bucket === undefined ? IP_BUCKETS : [bucket], address);
        return status;
      };
      return new Reply(200, status, {}, finish);
    },
  }),
  common.get("/admin/rate-limits/blocked", "listIpBlocks", {
    summary: "List blocked addresses",
    description: "Blocks in force, newest first.",
    ...paged(IpBlockBody, IP_BLOCK_ORDERS, {
      source: z.enum(BLOCK_SOURCES).optional(),
    }),
    run: async (work, { query }) => pageReply(await listBlocks(work, query), "rows", query, showBlock),
  }),
];
