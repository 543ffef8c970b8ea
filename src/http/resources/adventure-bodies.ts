import { z } from "zod";
import { adventureShape } from "../../domain/evaluation/adventures/adventure.ts";
import { ADVENTURE_STATES } from "../../domain/evaluation/adventures/row.ts";
import { QUEST_STATES } from "../../domain/evaluation/quests/row.ts";
import { RewardBundle } from "../../domain/evaluation/rewards/bundle.ts";
import { DESIGNERS, EVERY_ROLE } from "../../domain/kernel/caller.ts";
import { draftFields, VersionBody } from "./definition-bodies.ts";
import { group } from "../route.ts";

const common = group({ tag: "Adventures", project: "caller" });

/** Properties shared by operations on adventures. */
export const readAdventures = common.with({ access: { scope: "adventures:read", roles: EVERY_ROLE } });
export const manageAdventures = common.with({ access: { scope: "adventures:manage", roles: DESIGNERS } });
/** Players' adventures are changed by the game's server. */
export const writeAdventures = common.with({ access: { scope: "adventures:write" } });

export const AdventureBody = adventureShape
  .extend({
    ...draftFields("`startsAt` and `endsAt`"),
  })
  .meta({ id: "Adventure" });

export const AdventureVersionBody = VersionBody.meta({ id: "AdventureVersion" });

export const AdventureStatsBody = z
  .object({
    adventureKey: z.string(),
    players: z.int().meta({ description: "Those who have joined" }),
    states: z.record(z.string(), z.int()).meta({ description: "How many are in each state" }),
    premium: z.int().meta({ description: "How many of them have premium" }),
    averagePoints: z.int().nullable(),
    items: z
      .array(z.object({ questKey: z.string(), done: z.int() }))
      .meta({ description: "How many have done each item" }),
    tiers: z
      .array(z.object({ tier: z.int(), reached: z.int() }))
      .meta({ description: "How many have reached each tier" }),
  })
  .meta({ id: "AdventureStats" });

const TierBody = z
  .object({
    tier: z.int(),
    points: z.int(),
    free: RewardBundle.nullable(),
    premium: RewardBundle.nullable().meta({ description: "For players with premium" }),
    reached: z.boolean(),
    claimed: z.boolean().meta({ description: "Whether the rewards of the free track were granted" }),
    premiumClaimed: z.boolean().meta({ description: "Whether those of the premium track were" }),
  })
  .meta({ id: "PlayerAdventureTier" });

const ItemBody = z
  .object({
    questKey: z.string(),
    name: z.string().meta({ description: "Of the quest, in the player's language" }),
    chapter: z.string().nullable(),
    optional: z.boolean(),
    points: z.int().meta({ description: "For each completion" }),
    unlocked: z.boolean(),
    unlocksAt: z.iso.datetime().nullable().meta({ description: "When time alone unlocks it" }),
    state: z.enum(QUEST_STATES).meta({ description: "Of the player's quest in its current cycle" }),
    completions: z.int().meta({ description: "Of the quest, since the player joined" }),
  })
  .meta({ id: "PlayerAdventureItem" });

export const PlayerAdventureBody = z
  .object({
    id: z.uuid().nullable().meta({ description: "Null while the player has neither joined nor premium" }),
    adventureKey: z.string(),
    adventureId: z.uuid(),
    name: z.string(),
    description: z.string().nullable(),
    imageUrl: z.string().nullable(),
    season: z.string().nullable(),
    join: z.enum(["AUTO", "MANUAL"]),
    claim: z.enum(["AUTO", "MANUAL"]),
    rewards: RewardBundle,
    premiumPrice: z
      .object({ currencyKey: z.string(), amount: z.int() })
      .nullable()
      .meta({ description: "Null where premium cannot be bought" }),
    state: z.enum(ADVENTURE_STATES).meta({
      description: "LOCKED: before its start, while it is paused, or not offered to the player",
    }),
    points: z.int(),
    questsCompleted: z.int(),
    questsRequired: z.int(),
    percent: z.int(),
    premium: z.boolean(),
    startsAt: z.iso.datetime(),
    endsAt: z.iso.datetime(),
    claimUntil: z.iso.datetime(),
    startedAt: z.iso.datetime().nullable().meta({ description: "When the player joined" }),
    completedAt: z.iso.datetime().nullable(),
    claimedAt: z.iso.datetime().nullable(),
    tiers: z.array(TierBody),
    items: z.array(ItemBody).meta({ description: "In their order" }),
  })
  .meta({
    id: "PlayerAdventure",
    example: {
      id: "019ba9d2-4c00-7000-8000-000000000001",
      adventureKey: "winter",
      adventureId: "019ba9d2-4c00-7000-8000-000000000002",
      name: "Winter season",
      description: null,
      imageUrl: null,
      season: "2026-winter",
      join: "AUTO",
      claim: "AUTO",
      rewards: { xp: 500 },
      premiumPrice: null,
      state: "IN_PROGRESS",
      points: 60,
      questsCompleted: 1,
      questsRequired: 2,
      percent: 50,
      premium: false,
      startsAt: "2026-12-01T00:00:00.000Z",
      endsAt: "2027-03-01T00:00:00.000Z",
      claimUntil: "2027-03-08T00:00:00.000Z",
      startedAt: "2026-12-02T18:00:00.000Z",
      completedAt: null,
      claimedAt: null,
      tiers: [
        {
          tier: 1,
          points: 50,
          free: { xp: 10 },
          premium: { xp: 50 },
          reached: true,
          claimed: true,
          premiumClaimed: false,
        },
        {
          tier: 2,
          points: 100,
          free: null,
          premium: { xp: 100 },
          reached: false,
          claimed: false,
          premiumClaimed: false,
        },
      ],
      items: [
        {
          questKey: "first-week",
          name: "Your first week",
          chapter: null,
          optional: false,
          points: 50,
          unlocked: true,
          unlocksAt: null,
          state: "CLAIMED",
          completions: 1,
        },
        {
          questKey: "second-week",
          name: "Your second week",
          chapter: null,
          optional: false,
          points: 50,
          unlocked: true,
          unlocksAt: null,
          state: "AVAILABLE",
          completions: 0,
        },
      ],
    },
  });
