import { z } from "zod";
import { getPlayer } from "../../domain/progression/players/players.ts";
import {
  giveFreezes,
  listStreaks,
  repairStreak,
  resetStreak,
  HistoryBody,
  PlayerStreakBody,
  streakHistory,
} from "../../domain/economy/streaks/player-streaks.ts";
import { FREEZES_MAX } from "../../domain/evaluation/streaks/streak.ts";
import { causeOf, ofPathPlayer, onPlayers } from "./bodies.ts";

const { read, write: writing } = onPlayers("Streaks");
const write = writing.with({ response: PlayerStreakBody, sharing: ofPathPlayer });

/** Within the range that the database can compare, including whole periods around it. */
const Day = z.iso
  .date()
  .refine((text) => text >= "1000" && text < "9999", "must be a date of the years 1000 to 9998");

export const streakRoutes = [
  read.get("/players/{playerId}/streaks", "listPlayerStreaks", {
    summary: "List a player's streaks",
    description: "All streaks of the project as they are now for the player, also those not begun yet.",
    response: z.object({ data: z.array(PlayerStreakBody) }),
    run: async (work, { projectId, params }) => ({
      data: await listStreaks(work, await getPlayer(work, projectId, params.playerId)),
    }),
  }),
  read.get("/players/{playerId}/streaks/{streakKey}/history", "getStreakHistory", {
    summary: "Get the history of a player's streak",
    description: "By default the last 30 periods; at most 366.",
    query: z.object({
      from: Day.optional().meta({ description: "First date", example: "2026-01-01" }),
      to: Day.optional().meta({ description: "Last date", example: "2026-01-31" }),
    }),
    response: HistoryBody,
    run: async (work, { projectId, params, query }) => {
      const player = await getPlayer(work, projectId, params.playerId);
      return streakHistory(work, player, { streakKey: params.streakKey, ...query });
    },
  }),
  write.post("/players/{playerId}/streaks/{streakKey}/freezes", "giveStreakFreezes", {
    summary: "Give a player freezes of a streak",
    description: "Up to the streak's maximum; freezes beyond it are not granted.",
    body: z.object({ amount: z.int().min(1).max(FREEZES_MAX) }).meta({ example: { amount: 1 } }),
    run: async (work, { projectId, params: { playerId, streakKey }, body }) =>
      giveFreezes(work, { projectId, id: playerId }, { streakKey, ...body }),
  }),
  write.post("/players/{playerId}/streaks/{streakKey}/repair", "repairStreak", {
    summary: "Take a lost run of a streak up again",
    description:
      "Within the streak's `repairWindowHours`. With `pay` it takes the streak's `repairCost` (409 " +
      "INSUFFICIENT_FUNDS), or a freeze for each missed period where freezes are not used by themselves " +
      "and there are enough; without it nothing.",
    body: z.object({ pay: z.boolean().default(false) }),
    example: { pay: false },
    run: async (work, { projectId, params: { playerId, streakKey }, body, caller }) =>
      repairStreak(
        work,
        { projectId, id: playerId },
        {
          streakKey,
          pay: body.pay,
          cause: causeOf(caller),
        },
      ),
  }),
  write.post("/players/{playerId}/streaks/{streakKey}/reset", "resetStreak", {
    summary: "End a player's run of a streak",
    description: "For good: nothing can be repaired then. The longest run and freezes stay.",
    run: async (work, { projectId, params: { playerId, streakKey } }) =>
      resetStreak(work, { projectId, id: playerId }, streakKey),
  }),
];
