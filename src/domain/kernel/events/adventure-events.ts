import type { Json, PlayerRef } from "./events.ts";

type Subject = PlayerRef & { adventureKey: string };

/** Events about players' adventures, with the shape of `data`. Times are ISO 8601. */
export type AdventureEvents = {
  "adventure.started": Subject & {
    adventureId: string;
    season: string | null;
    endsAt: string;
    startedAt: string;
  };
  "adventure.quest_unlocked": Subject & { questKey: string };
  "adventure.tier_reached": Subject & { tier: number; points: number; premium: boolean };
  "adventure.completed": Subject & {
    adventureId: string;
    season: string | null;
    points: number;
    questsCompleted: number;
    rewards: Json;
    claimRequired: boolean;
    completedAt: string;
  };
  /** `tier`, `track`: null for the rewards of the whole adventure. */
  "adventure.claimed": Subject & { tier: number | null; track: "FREE" | "PREMIUM" | null; rewards: Json };
  /** A line of the player's stream: the adventure, and the greatest change of the pass. */
  "adventure.updated": PlayerRef & { adventure: Json; change: string };
};
