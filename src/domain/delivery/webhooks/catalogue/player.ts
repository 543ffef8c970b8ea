import { z } from "zod";
import type { EventType } from "../../../kernel/events/domain-events.ts";
import type { EntriesOf } from "./entry.ts";
import {
  Boost,
  CauseShape,
  Data,
  Id,
  Lives,
  MergeSummaryShape,
  Player,
  PLAYER,
  Text,
  Time,
} from "./shapes.ts";

type PlayerType = Exclude<Extract<EventType, `player.${string}`>, "player.notice">;

const balance = { currencyKey: Text, amount: z.int(), balance: z.int(), ledgerEntryId: Id };

const profile = {
  "player.created": {
    occurs: "a new player is identified",
    data: z.object({
      ...PLAYER,
      displayName: Text.nullable(),
      xp: z.int(),
      level: z.int(),
      attributes: Data,
      tags: z.array(Text),
      source: z.enum(["IDENTIFY", "EVENT", "IMPORT"]),
      createdAt: Time,
    }),
  },
  "player.updated": {
    occurs: "profile, attributes, tags, status or time zone of a player changed",
    data: z.object({ ...PLAYER, changed: z.array(Text), before: Data, after: Data, cause: CauseShape }),
  },
  "player.merged": {
    occurs: "one player was merged into another",
    data: z.object({ target: Player, source: Player, mergeId: Id, summary: MergeSummaryShape }),
  },
  "player.erased": {
    occurs: "the data of a person were erased",
    data: z.object({ playerId: Id, requestedAt: Time, erasedAt: Time }),
  },
  "player.segment_entered": {
    occurs: "a player came into a segment",
    data: z.object({ ...PLAYER, segmentKey: Text }),
  },
  "player.segment_left": {
    occurs: "a player left a segment",
    data: z.object({ ...PLAYER, segmentKey: Text }),
  },
} satisfies Partial<EntriesOf<PlayerType>>;

const assets = {
  "player.xp_granted": {
    occurs: "a player received XP",
    data: z.object({
      ...PLAYER,
      amount: z.int().meta({ description: "After boosts and the daily cap" }),
      baseAmount: z.int(),
      boostFactor: z.number(),
      xp: z.int(),
      level: z.int(),
      ledgerEntryId: Id,
      cause: CauseShape,
    }),
  },
  "player.level_up": {
    occurs: "a player reached a new level",
    data: z.object({ ...PLAYER, previousLevel: z.int(), newLevel: z.int(), xp: z.int() }),
  },
  "player.currency_granted": {
    occurs: "a player received currency",
    data: z.object({ ...PLAYER, ...balance, expiresAt: Time.nullable(), cause: CauseShape }),
  },
  "player.currency_spent": {
    occurs: "a player paid with currency",
    data: z.object({ ...PLAYER, ...balance, reference: Text.nullable(), cause: CauseShape }),
  },
  "player.currency_expired": {
    occurs: "currency of a player expired",
    data: z.object({ ...PLAYER, ...balance }),
  },
  "player.lives_changed": {
    occurs: "lives were taken or given",
    data: z.object({ ...PLAYER, delta: z.int(), lives: Lives, cause: CauseShape }),
  },
  "player.boost_started": {
    occurs: "a boost of a player began",
    data: z.object({ ...PLAYER, boost: Boost, cause: CauseShape }),
  },
  "player.boost_ended": {
    occurs: "a boost of a player ended",
    data: z.object({
      ...PLAYER,
      boostKey: Text,
      applies: Text,
      by: z.enum(["EXPIRED", "USED_UP", "REPLACED", "REMOVED"]),
    }),
  },
  "player.reward_granted": {
    occurs: "a player was granted a reward",
    data: z.object({
      ...PLAYER,
      grantId: Id,
      rewardKey: Text,
      kind: z.enum(["BUNDLE", "PRIZE"]),
      status: Text,
      contents: Data,
      code: Text.nullable(),
      drawProof: z.null(),
      cause: CauseShape,
    }),
  },
} satisfies Partial<EntriesOf<PlayerType>>;

const achievements = {
  "player.badge_earned": {
    occurs: "a player earned a badge, or a tier of one",
    data: z.object({
      ...PLAYER,
      badgeKey: Text,
      badgeId: Id,
      name: Text,
      tier: z.int(),
      previousTier: z.int(),
      rarity: Text,
      serialNo: z.int().nullable(),
      timesAwarded: z.int(),
      cause: CauseShape,
    }),
  },
  "player.badge_revoked": {
    occurs: "a badge was taken away",
    data: z.object({ ...PLAYER, badgeKey: Text, tier: z.int(), cause: CauseShape }),
  },
  "player.streak_extended": {
    occurs: "a streak grew by a period",
    data: z.object({
      ...PLAYER,
      streakKey: Text,
      current: z.int(),
      longest: z.int(),
      period: Text,
      deadlineAt: Time.nullable(),
      milestone: z.int().nullable(),
    }),
  },
  "player.streak_at_risk": {
    occurs: "a streak ends soon unless the player does something",
    data: z.object({ ...PLAYER, streakKey: Text, current: z.int(), deadlineAt: Time, freezes: z.int() }),
  },
  "player.streak_frozen": {
    occurs: "a freeze saved a streak",
    data: z.object({ ...PLAYER, streakKey: Text, current: z.int(), period: Text, freezesLeft: z.int() }),
  },
  "player.streak_broken": {
    occurs: "a streak broke",
    data: z.object({ ...PLAYER, streakKey: Text, length: z.int(), repairableUntil: Time.nullable() }),
  },
  "player.streak_repaired": {
    occurs: "a broken streak goes on",
    data: z.object({
      ...PLAYER,
      streakKey: Text,
      current: z.int(),
      by: z.enum(["LATE_EVENT", "PURCHASE", "ADMIN"]),
    }),
  },
} satisfies Partial<EntriesOf<PlayerType>>;

export const playerTypes: EntriesOf<PlayerType> = { ...profile, ...assets, ...achievements };
