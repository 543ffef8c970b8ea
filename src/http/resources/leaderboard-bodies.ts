import { z } from "zod";
import { BREAKDOWN_VALUE_MAX } from "../../domain/evaluation/boards/lists.ts";
import { LIST_STATUSES } from "../../domain/leaderboards/board-list.ts";

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

export const WindowBody = z.object({
  key: z.string().meta({ example: "2026-W02" }),
  startsAt: z.iso.datetime(),
  endsAt: z.iso.datetime().nullable(),
  status: z.enum(LIST_STATUSES),
});

/** A value of a breakdown. */
export const BoardValue = z.string().max(BREAKDOWN_VALUE_MAX);

export const PeriodKey = z
  .string()
  .min(1)
  .max(64)
  .meta({ description: "Key of a period; default the current one", example: "2026-W02" });

export const PLAYER_REF = "The player's UUID, or ext: and the externalUserId";
export const PlayerRef = z.string().min(1).max(300).meta({ description: PLAYER_REF });
