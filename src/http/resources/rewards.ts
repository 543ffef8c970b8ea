import { z } from "zod";
import { actorOf, DESIGNERS, EVERY_ROLE } from "../../domain/kernel/caller.ts";
import { getPlayer } from "../../domain/progression/players/players.ts";
import {
  addCodes,
  claimReward,
  CODES_MAX,
  fulfilReward,
  grantByHand,
  purchaseReward,
  readStock,
  RewardStock,
} from "../../domain/economy/rewards/catalogue.ts";
import {
  GRANT_STATUSES,
  listPlayerRewards,
  PLAYER_REWARD_ORDERS,
  PlayerRewardBody,
} from "../../domain/economy/rewards/player-rewards.ts";
import { isEmptyBundle, RewardBundle } from "../../domain/evaluation/rewards/bundle.ts";
import { BULK_PLAYERS_MAX, startBulkGrant } from "../../domain/economy/rewards/references.ts";
import { Key } from "../../domain/evaluation/language/syntax.ts";
import { causeOf, onPlayers, paged, pageReply } from "./bodies.ts";
import { PlayerRef } from "./leaderboards.ts";
import { ProjectJob } from "../../domain/long-work/project-jobs.ts";

/** Maximum quantity of one purchase or grant. */
const QUANTITY_MAX = 100;
const CODE_LENGTH_MAX = 200;
/** Enough for 10,000 codes of 200 characters, as JSON. */
const CODES_BODY_LIMIT = 5 * 1024 * 1024;

const Order = z.strictObject({
  playerId: PlayerRef,
  quantity: z.int().min(1).max(QUANTITY_MAX).default(1),
});

const { read, write } = onPlayers("Rewards");

export const rewardRoutes = [
  write.post("/rewards/{rewardId}/purchase", "purchaseReward", {
    sharing: ({ body }) => ({ player: body.playerId, isPlain: false }),
    summary: "Sell a reward to a player",
    description:
      "For its price, as often as `quantity`. " +
      "409: INSUFFICIENT_FUNDS, OUT_OF_STOCK, LIMIT_REACHED, NOT_AVAILABLE, NOT_FOR_SALE.",
    body: Order.meta({ example: { playerId: "ext:ada", quantity: 1 } }),
    status: 201,
    response: PlayerRewardBody,
    run: async (work, { projectId, params, body: { playerId, quantity }, caller }) => {
      const player = { projectId, id: playerId };
      return purchaseReward(work, player, { reward: params.rewardId, quantity, cause: causeOf(caller) });
    },
  }),
  write.post("/rewards/{rewardId}/grant", "grantReward", {
    sharing: ({ body }) => ({ player: body.playerId, isPlain: false }),
    summary: "Give a reward to a player",
    description: "AUTO gives it at once; CLAIM lets the player take it, within the reward's claimSeconds.",
    body: Order.extend({ delivery: z.enum(["AUTO", "CLAIM"]).default("AUTO") }).meta({
      example: { playerId: "ext:ada", delivery: "CLAIM" },
    }),
    status: 201,
    response: PlayerRewardBody,
    run: async (work, { projectId, params, body: { playerId, ...order }, caller }) => {
      const player = { projectId, id: playerId };
      return grantByHand(work, player, { reward: params.rewardId, ...order, cause: causeOf(caller) });
    },
  }),
  write.post("/rewards/{rewardId}/codes", "addRewardCodes", {
    access: { scope: "config:manage", roles: DESIGNERS },
    summary: "Add codes to a prize",
    description: "One that is or was in the prize's pool is a duplicate. A code is given to one grant only.",
    body: z
      .strictObject({ codes: z.array(z.string().min(1).max(CODE_LENGTH_MAX)).min(1).max(CODES_MAX) })
      .meta({ example: { codes: ["SPRING-7K2Q", "SPRING-9XW4"] } }),
    bodyLimit: CODES_BODY_LIMIT,
    response: z.object({ added: z.int(), duplicates: z.int() }),
    run: (work, { projectId, params, body }) =>
      addCodes(work, projectId, { reward: params.rewardId, codes: body.codes }),
  }),
  read.get("/rewards/{rewardId}/stock", "getRewardStock", {
    access: { scope: "config:read", roles: EVERY_ROLE },
    summary: "Get the remaining stock of a reward",
    response: RewardStock,
    run: (work, { projectId, params }) => readStock(work, projectId, params.rewardId),
  }),
  read.get("/players/{playerId}/rewards", "listPlayerRewards", {
    summary: "List the rewards that a player was given",
    description: "Newest first.",
    ...paged(PlayerRewardBody, PLAYER_REWARD_ORDERS, {
      status: z.enum(GRANT_STATUSES).optional(),
      rewardKey: z.string().min(1).max(64).optional(),
    }),
    run: async (work, { projectId, params, query }) => {
      const player = await getPlayer(work, projectId, params.playerId);
      return pageReply(await listPlayerRewards(work, player, query), "rewards", query);
    },
  }),
  write.post("/players/{playerId}/rewards/{grantId}/claim", "claimReward", {
    sharing: ({ params }) => ({ player: params.playerId, isPlain: false }),
    summary: "Claim a reward",
    description: "Grants a bundle's contents, or a prize's code. Claiming again changes nothing.",
    response: PlayerRewardBody,
    run: async (work, { projectId, params }) =>
      claimReward(work, { projectId, id: params.playerId }, params.grantId),
  }),
  write.post("/players/{playerId}/rewards/{grantId}/fulfil", "fulfilReward", {
    sharing: ({ params }) => ({ player: params.playerId, isPlain: false }),
    summary: "Say that a prize was handed over",
    response: PlayerRewardBody,
    run: async (work, { projectId, params }) =>
      fulfilReward(work, { projectId, id: params.playerId }, params.grantId),
  }),
];

const BulkGrant = z
  .strictObject({
    segmentKey: Key.optional(),
    playerIds: z.array(z.uuid()).min(1).max(BULK_PLAYERS_MAX).optional(),
    bundle: RewardBundle.refine((bundle) => !isEmptyBundle(bundle), "must give something"),
    reason: z.string().min(1).max(255),
  })
  .refine(
    ({ segmentKey, playerIds }) => (segmentKey === undefined) !== (playerIds === undefined),
    "needs exactly one of segmentKey and playerIds",
  )
  .meta({ example: { segmentKey: "veterans", bundle: { xp: 100 }, reason: "Thanks for a year" } });

export const bulkGrantRoutes = [
  write.post("/grants/bulk", "startBulkGrant", {
    summary: "Give a bundle to many players",
    description:
      "As a job; each player gets it once. Its result counts grants (granted), ids without an ACTIVE " +
      "player of the project (skipped), and failures.",
    body: BulkGrant,
    status: 201,
    response: ProjectJob,
    run: (work, { projectId, body, caller }) =>
      startBulkGrant(work, projectId, { ...body, createdBy: actorOf(caller) }),
  }),
];
