import { z } from "zod";
import { Metric } from "../../domain/evaluation/metrics/compile.ts";
import { PlayerBadgeBody } from "./badges.ts";
import { PlayerBoost } from "./boosts.ts";
import { PlayerAdventureBody } from "./adventure-bodies.ts";
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

export const PlayerMetricBody = z
  .object({
    id: z.string().meta({ description: "Changes with what is counted" }),
    metric: Metric,
    value: z
      .number()
      .nullable()
      .meta({ description: "Now; null of min, max, avg and latest where there is none" }),
    readBy: z
      .array(z.object({ kind: z.enum(["rule", "badge", "segment", "quest"]), key: z.string() }))
      .meta({ description: "Definitions that read it, 10 at most" }),
  })
  .meta({ id: "PlayerMetric" });

/** Fields that `include` adds to a player. */
export const IncludedBody = z.object({
  badges: z.array(PlayerBadgeBody).optional().meta({ description: "Held and in progress, 100 of each" }),
  streaks: z.array(PlayerStreakBody).optional(),
  segments: z.array(z.string()).optional(),
  boosts: z.array(PlayerBoost).optional(),
  quests: z.array(PlayerQuestBody).optional().meta({ description: "The first 100 of the player's list" }),
  adventures: z.array(PlayerAdventureBody).optional(),
  identities: z.array(IdentityBody).optional(),
  metrics: z.array(PlayerMetricBody).optional().meta({ description: "The first 100, by id" }),
  ranks: z.array(PlayerRank).optional(),
});
