import { z } from "zod";
import { PlayerBadgeBody } from "./badges.ts";
import { PlayerBoost } from "./boosts.ts";
import { PlayerQuestBody } from "./quest-bodies.ts";
import { PlayerStreakBody } from "./streaks.ts";

export const IdentityBody = z
  .object({ provider: z.string(), externalId: z.string(), createdAt: z.iso.datetime() })
  .meta({ id: "PlayerIdentity" });

const PlayerRank = z
  .object({
    leaderboardKey: z.string(),
    periodKey: z.string(),
    rank: z.int().nullable(),
    score: z.number().nullable(),
    participants: z.int(),
    percentile: z.number().nullable().meta({ description: "Share of participants who are not ahead" }),
    leagueTier: z.string().nullable(),
  })
  .meta({ id: "PlayerRank" });

/** Fields that `include` adds to a player. */
export const IncludedBody = z.object({
  badges: z.array(PlayerBadgeBody).optional().meta({ description: "Held and in progress, 100 of each" }),
  streaks: z.array(PlayerStreakBody).optional(),
  segments: z.array(z.string()).optional(),
  boosts: z.array(PlayerBoost).optional(),
  quests: z.array(PlayerQuestBody).optional().meta({ description: "The first 100 of the player's list" }),
  identities: z.array(IdentityBody).optional(),
  ranks: z.array(PlayerRank).optional(),
});
