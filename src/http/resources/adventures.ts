import { z } from "zod";
import { ADVENTURES_MAX, adventureShape } from "../../domain/evaluation/adventures/adventure.ts";
import { ADVENTURE_STATES, TRACKS } from "../../domain/evaluation/adventures/row.ts";
import { QUEST_STATES } from "../../domain/evaluation/quests/row.ts";
import { RewardBundle } from "../../domain/evaluation/rewards/bundle.ts";
import { ADMINS, DESIGNERS, EVERY_ROLE } from "../../domain/kernel/caller.ts";
import { type AnyRoute, group, PATH_VALUES } from "../route.ts";
import {
  claimPlayerAdventure,
  claimPlayerTier,
  givePlayerPremium,
  joinPlayerAdventure,
  listPlayerAdventures,
  readPlayerAdventure,
} from "../../domain/economy/adventures/change-adventures.ts";
import { getPlayer } from "../../domain/progression/players/players.ts";
import { publishDraft, showDraft } from "../../domain/economy/definitions/drafts.ts";
import { getDefinition } from "../../domain/economy/definitions/definitions.ts";
import { adventureKind, adventureList, readAdventureStats } from "../../domain/economy/adventures/kind.ts";
import { Key } from "../../domain/evaluation/language/syntax.ts";
import { draftFields, draftRoutes } from "./definitions.ts";
import { firstOf, ofPathPlayer } from "./bodies.ts";

const common = group({ tag: "Adventures", project: "caller" });

/** Properties shared by operations on adventures. */
const readAdventures = common.with({ access: { scope: "adventures:read", roles: EVERY_ROLE } });
const manageAdventures = common.with({ access: { scope: "adventures:manage", roles: DESIGNERS } });
/** Players' adventures are changed by the game's server. */
const writeAdventures = common.with({ access: { scope: "adventures:write" } });

const AdventureBody = adventureShape.extend(draftFields("`startsAt` and `endsAt`")).meta({ id: "Adventure" });

const AdventureStatsBody = z
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

const TierParams = z.object({
  playerId: PATH_VALUES.playerId,
  adventureId: PATH_VALUES.adventureId,
  tier: z
    .string()
    .regex(/^[1-9]\d{0,4}$/, "must be the number of a tier")
    .meta({ description: "The number of the tier", example: "1" }),
});

const write = writeAdventures.with({ response: PlayerAdventureBody, sharing: ofPathPlayer });

const { editing, running } = draftRoutes({
  kind: adventureKind,
  one: "an adventure",
  read: readAdventures,
  write: manageAdventures,
  body: AdventureBody,
  list: adventureList,
  filters: {
    season: z.string().min(1).max(64).optional(),
    questKey: Key.optional().meta({ description: "Those of which this quest is an item" }),
  },
  moves: {
    pause: "Nobody joins it or gets further, and its quests cannot be started; its end stays.",
    resume: "It goes on where it was.",
    end: "What players have in progress expires; what they have reached can be claimed until `claimUntil`.",
  },
  copy: { key: "spring", name: "Spring season" },
});

export const adventureRoutes: readonly AnyRoute[] = [
  ...editing,
  manageAdventures.post("/adventures/{adventureId}/publish", "publishAdventure", {
    summary: "Publish an adventure's draft",
    description:
      "As the next version, effective from the next events on, also for players in progress: what they " +
      "have done, reached and claimed stays. Names and rewards are checked: what is unknown, waits for " +
      "itself or cannot end is refused. From then on its quests are open only through it.",
    response: AdventureBody,
    run: async (work, { projectId, params }) => {
      const found = await publishDraft(work, adventureKind, { projectId, ref: params.adventureId });
      return showDraft(found, work) as never;
    },
  }),
  ...running,
  readAdventures.get("/adventures/{adventureId}/stats", "getAdventureStats", {
    summary: "Get statistics of an adventure",
    description: "How far players have come: items and tiers of the draft.",
    response: AdventureStatsBody,
    run: async (work, { projectId, params }) => {
      const found = await getDefinition(work, projectId, adventureKind, params.adventureId);
      return readAdventureStats(work, found);
    },
  }),
  readAdventures.get("/players/{playerId}/adventures", "listPlayerAdventures", {
    summary: "List a player's adventures",
    description:
      "Those that run or are to come, also where the player has not joined; and those that are over if the " +
      "player has taken part.",
    query: z.object({ state: z.enum(ADVENTURE_STATES).optional(), limit: firstOf(ADVENTURES_MAX) }),
    response: z.object({ data: z.array(PlayerAdventureBody) }),
    run: async (work, { projectId, params, query: { state, limit } }) => {
      const all = await listPlayerAdventures(work, await getPlayer(work, projectId, params.playerId));
      const asked = all.filter((one) => state === undefined || one.state === state);
      return { data: asked.slice(0, limit) };
    },
  }),
  readAdventures.get("/players/{playerId}/adventures/{adventureId}", "getPlayerAdventure", {
    summary: "Get a player's adventure",
    response: PlayerAdventureBody,
    run: async (work, { projectId, params }) => {
      const player = await getPlayer(work, projectId, params.playerId);
      return readPlayerAdventure(work, player, params.adventureId);
    },
  }),
  write.post("/players/{playerId}/adventures/{adventureId}/join", "joinPlayerAdventure", {
    summary: "Make a player join an adventure",
    description:
      "409 ADVENTURE_NOT_AVAILABLE if it does not run, is LOCKED for the player, or was joined before.",
    run: async (work, { projectId, params: { playerId, adventureId } }) =>
      joinPlayerAdventure(work, { projectId, id: playerId }, adventureId),
  }),
  write.post("/players/{playerId}/adventures/{adventureId}/claim", "claimPlayerAdventure", {
    summary: "Claim the rewards of an adventure for a player",
    description:
      "Of one that is COMPLETED, once: 409 ALREADY_CLAIMED afterwards, CLAIM_EXPIRED after `claimUntil`.",
    run: async (work, { projectId, params: { playerId, adventureId } }) =>
      claimPlayerAdventure(work, { projectId, id: playerId }, adventureId),
  }),
  write.post("/players/{playerId}/adventures/{adventureId}/tiers/{tier}/claim", "claimPlayerAdventureTier", {
    summary: "Claim the rewards of a tier for a player",
    description:
      "On one track, once: 409 ALREADY_CLAIMED afterwards, PREMIUM_REQUIRED without premium, INVALID_STATE " +
      "while the tier is not reached, CLAIM_EXPIRED after `claimUntil`.",
    params: TierParams,
    body: z.strictObject({ track: z.enum(TRACKS).default("FREE") }).meta({ example: { track: "FREE" } }),
    run: async (
      work,
      { projectId, params: { playerId, adventureId: adventureRef, tier }, body: { track } },
    ) => claimPlayerTier(work, { projectId, id: playerId }, { adventureRef, tier: Number(tier), track }),
  }),
  write.post("/players/{playerId}/adventures/{adventureId}/premium", "givePlayerAdventurePremium", {
    access: { scope: "adventures:write", roles: ADMINS },
    summary: "Sell or grant a player premium of an adventure",
    description:
      "For `premiumPrice`, or without paying with `grant`. Tiers that are reached open. It is possible " +
      "before the start, and after the end as long as rewards can be claimed. 409: INSUFFICIENT_FUNDS, " +
      "NOT_FOR_SALE, ALREADY_PREMIUM, ADVENTURE_NOT_AVAILABLE.",
    body: z.strictObject({ grant: z.literal(true).optional() }).meta({ example: { grant: true } }),
    run: async (work, { projectId, params: { playerId, adventureId: adventureRef }, body: { grant } }) =>
      givePlayerPremium(work, { projectId, id: playerId }, { adventureRef, isGranted: grant === true }),
  }),
];
