import { z } from "zod";
import type { EventType } from "../../../kernel/events/domain-events.ts";
import type { EntriesOf } from "./entry.ts";
import { Id, PLAYER, Text, Time } from "./shapes.ts";

type BoardType = Exclude<
  Extract<EventType, `leaderboard.${string}`>,
  "leaderboard.entries_changed" | "leaderboard.changed"
>;

const LIST = {
  leaderboardKey: Text,
  leaderboardId: Id,
  periodKey: Text.meta({ description: "Such as 2026-W02, or ALL_TIME" }),
  board: Text.meta({ description: "The value of the breakdown; empty without one" }),
};

export const leaderboardTypes: EntriesOf<BoardType> = {
  "leaderboard.rank_changed": {
    occurs:
      "a player's rank changed significantly: into or out of the first 10, or by 10 places or a tenth of " +
      "the board; at most once a minute",
    data: z.object({
      ...PLAYER,
      ...LIST,
      previousRank: z.int().nullable(),
      newRank: z.int(),
      direction: z.enum(["UP", "DOWN", "NEW"]),
      score: z.number(),
      crossed: z.array(z.int()),
      participants: z.int(),
      reason: z.enum(["BAND", "DELTA", "ENTERED"]),
    }),
  },
  "leaderboard.new_leader": {
    occurs: "a leaderboard has a new first place",
    data: z.object({
      ...LIST,
      leader: z.object({ ...PLAYER, displayName: Text.nullable(), score: z.number() }),
      previousLeader: z.object({ ...PLAYER, score: z.number() }).nullable(),
      margin: z.number().nullable(),
    }),
  },
  "leaderboard.period_started": {
    occurs: "a period of a leaderboard began",
    data: z.object({ ...LIST, startsAt: Time.nullable(), endsAt: Time.nullable() }),
  },
  "leaderboard.period_closed": {
    occurs: "a period of a leaderboard was closed: its results are final",
    data: z.object({
      ...LIST,
      participants: z.int(),
      top: z.array(z.object({ ...PLAYER, displayName: Text.nullable(), rank: z.int(), score: z.number() })),
      prizesGranted: z.int(),
      promoted: z.int(),
      relegated: z.int(),
      closedAt: Time,
    }),
  },
  "leaderboard.values_ranked": {
    occurs:
      "a period of a leaderboard with a breakdown was closed for all of its values: their order is final",
    data: z.object({
      leaderboardKey: LIST.leaderboardKey,
      leaderboardId: LIST.leaderboardId,
      periodKey: LIST.periodKey,
      by: z.enum(["total", "best"]).meta({ description: "What they are ranked by" }),
      values: z.int().meta({ description: "How many there are" }),
      top: z
        .array(
          z.object({
            rank: z.int(),
            value: Text,
            players: z.int(),
            total: z.number(),
            average: z.number(),
            best: z.number(),
          }),
        )
        .meta({ description: "The first ten" }),
      closedAt: Time,
    }),
  },
  "leaderboard.score_held": {
    occurs: "a submitted score broke a bound and waits for a review",
    data: z.object({ ...PLAYER, ...LIST, score: z.number(), violation: Text, reviewId: Id }),
  },
};
