import { z } from "zod";
import type { EventType } from "../../../kernel/events/domain-events.ts";
import type { EntriesOf } from "./entry.ts";
import { Data, Id, PLAYER, Text, Time } from "./shapes.ts";

type AdventureType = Exclude<Extract<EventType, `adventure.${string}`>, "adventure.updated">;

const subject = { ...PLAYER, adventureKey: Text };

export const adventureTypes: EntriesOf<AdventureType> = {
  "adventure.started": {
    occurs: "a player joined an adventure",
    data: z.object({
      ...subject,
      adventureId: Id,
      season: Text.nullable(),
      endsAt: Time,
      startedAt: Time,
    }),
  },
  "adventure.quest_unlocked": {
    occurs: "a quest of an adventure was unlocked for a player",
    data: z.object({ ...subject, questKey: Text }),
  },
  "adventure.tier_reached": {
    occurs: "a player reached a tier of an adventure",
    data: z.object({
      ...subject,
      tier: z.int(),
      points: z.int(),
      premium: z.boolean().meta({ description: "Whether the player has premium" }),
    }),
  },
  "adventure.completed": {
    occurs: "a player completed an adventure",
    data: z.object({
      ...subject,
      adventureId: Id,
      season: Text.nullable(),
      points: z.int(),
      questsCompleted: z.int(),
      rewards: Data,
      claimRequired: z.boolean(),
      completedAt: Time,
    }),
  },
  "adventure.claimed": {
    occurs: "rewards of an adventure, or of a tier of it, were granted",
    data: z.object({
      ...subject,
      tier: z.int().nullable().meta({ description: "Null for the rewards of the whole adventure" }),
      track: z.enum(["FREE", "PREMIUM"]).nullable(),
      rewards: Data,
    }),
  },
};
