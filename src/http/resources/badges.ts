import { z } from "zod";
import { actorOf } from "../../domain/kernel/caller.ts";
import { PROGRESS_MAX } from "../../domain/evaluation/badges/badge.ts";
import { TIERS_MAX } from "../../domain/kernel/limits.ts";
import { Holder, HOLDER_ORDERS, listHolders } from "../../domain/economy/badges/rarity.ts";
import {
  awardByHand,
  BADGE_STATES,
  listPlayerBadges,
  PlayerBadgeBody,
  progressByHand,
  revokeByHand,
  PLAYER_BADGE_ORDERS,
} from "../../domain/economy/badges/player-badges.ts";
import { getPlayer } from "../../domain/progression/players/players.ts";
import { revokeWithRewards } from "../../domain/revert/revoke-badge.ts";
import { ByPlayer, causeOf, ofPathPlayer, onPlayers, paged, pageReply } from "./bodies.ts";

const Reason = z.string().min(1).max(255).optional();

const { read, write: writing } = onPlayers("Badges");
const write = writing.with({ sharing: ofPathPlayer });

const TAKEN = { description: "With takeRewards: what was taken back" };
const RevokedBadge = PlayerBadgeBody.extend({
  reversed: z
    .object({ xp: z.int(), currencies: z.record(z.string(), z.int()) })
    .optional()
    .meta(TAKEN),
  lives: z.int().optional().meta(TAKEN),
  shortfall: z.record(z.string(), z.int()).optional().meta({
    description: "With takeRewards: amounts that were not there any more: xp, lives, currency:{key}",
  }),
  left: z.array(z.string()).optional().meta({ description: "With takeRewards: what stays, in words" }),
}).meta({ id: "RevokedBadge" });

const Progress = z
  .strictObject({
    add: z.number().min(-PROGRESS_MAX).max(PROGRESS_MAX).optional(),
    set: z.number().min(0).max(PROGRESS_MAX).optional(),
    reason: Reason,
  })
  .refine(({ add, set }) => (add === undefined) !== (set === undefined), "needs exactly one of add and set")
  .meta({ example: { add: 5 } });

const noted = (cause: ReturnType<typeof causeOf>, note: string | undefined) =>
  note === undefined ? cause : { ...cause, note };

export const badgeRoutes = [
  read.get("/players/{playerId}/badges", "listPlayerBadges", {
    summary: "List a player's badges",
    description: "ALL has the project's badges that the player does not hold too, and secret ones.",
    ...paged(PlayerBadgeBody, PLAYER_BADGE_ORDERS, {
      state: z.enum(BADGE_STATES).default("HELD"),
      category: z.string().min(1).max(64).optional(),
    }),
    run: async (work, { projectId, params, query }) => {
      const player = await getPlayer(work, projectId, params.playerId);
      return pageReply(await listPlayerBadges(work, player, query), "badges", query);
    },
  }),
  write.post("/players/{playerId}/badges/{badgeId}", "awardBadge", {
    summary: "Award a badge to a player",
    description:
      "The tier, and those below it, with their rewards. " +
      "One that is held is awarded again where the badge is repeatable; else nothing changes.",
    body: z.strictObject({
      tier: z.int().min(1).max(TIERS_MAX).default(1),
      reason: Reason,
    }),
    example: { tier: 1, reason: "Season final" },
    status: 201,
    response: PlayerBadgeBody,
    run: async (work, { projectId, params, body, caller }) => {
      const player = { projectId, id: params.playerId };
      const cause = noted(causeOf(caller), body.reason);
      return awardByHand(work, player, { badge: params.badgeId, tier: body.tier, cause });
    },
  }),
  write.patch("/players/{playerId}/badges/{badgeId}", "progressBadge", {
    summary: "Change a player's progress on a badge",
    description: "Tiers whose threshold is reached are awarded; a tier that is held stays.",
    body: Progress,
    response: PlayerBadgeBody,
    run: async (work, { projectId, params, body: { reason, ...progress }, caller }) => {
      const player = { projectId, id: params.playerId };
      const cause = noted(causeOf(caller), reason);
      return progressByHand(work, player, { badge: params.badgeId, ...progress, cause });
    },
  }),
  write.delete("/players/{playerId}/badges/{badgeId}", "revokeBadge", {
    sharing: ({ params, body }) => ({ player: params.playerId, isPlain: !body.takeRewards }),
    summary: "Take a badge away from a player",
    description:
      "With all its tiers and its progress. What its tiers have given stays, unless takeRewards is true: then " +
      "XP, currencies, lives and rewards are taken back as far as they are there, as reverts of events do.",
    body: z.strictObject({
      reason: Reason,
      takeRewards: z
        .boolean()
        .default(false)
        .meta({ description: "Take back what the badge has given since it was last taken away" }),
    }),
    example: { reason: "Awarded by mistake" },
    response: RevokedBadge,
    run: async (work, { projectId, params, body: { reason, takeRewards }, caller }) => {
      const player = { projectId, id: params.playerId };
      const revoked = { badge: params.badgeId, cause: noted(causeOf(caller), reason) };
      if (!takeRewards) return revokeByHand(work, player, revoked);
      const how = { reason: reason ?? "badge revoked", actor: actorOf(caller) };
      return revokeWithRewards(work, player, { ...revoked, ...how });
    },
  }),
  read.get("/badges/{badgeId}/holders", "listBadgeHolders", {
    summary: "List the players who hold a badge",
    description: "Highest tier first.",
    ...paged(Holder, HOLDER_ORDERS, {
      tier: z.coerce
        .number()
        .int()
        .min(1)
        .max(TIERS_MAX)
        .optional()
        .meta({ description: "Exactly this tier" }),
      playerId: ByPlayer,
    }),
    run: async (work, { projectId, params, query }) =>
      pageReply(await listHolders(work, projectId, params.badgeId, query), "holders", query),
  }),
];
