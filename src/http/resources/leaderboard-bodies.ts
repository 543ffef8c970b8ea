import { z } from "zod";

export const EntryBody = z
  .object({
    rank: z.int(),
    playerId: z.uuid(),
    externalUserId: z.string(),
    displayName: z.string().nullable(),
    avatarUrl: z.string().nullable(),
    score: z.number(),
    reachedAt: z.iso.datetime().meta({ description: "When this score was reached" }),
    previousRank: z
      .int()
      .nullable()
      .meta({ description: "The rank in the player's notice before this one; null before the first" }),
    meta: z.record(z.string(), z.unknown()).optional(),
    isMe: z.boolean().optional().meta({ description: "true on the line of the query's playerId" }),
  })
  .meta({ id: "LeaderboardEntry" });

export const PLAYER_REF = "The player's UUID, or ext: and the externalUserId";
export const PlayerRef = z.string().min(1).max(300).meta({ description: PLAYER_REF });

export const LeaderboardParams = z.object({
  leaderboardId: z.string().min(1).max(64).meta({ description: "The leaderboard's UUID or key" }),
});
