import { z } from "zod";
import { CauseShape } from "./events.ts";
import { Boost, Data, Id, Lives, MergeSummaryShape, Player, PLAYER, Text, Time } from "./shapes.ts";
import {
  LOBBY_CLOSE_REASONS,
  LOBBY_STATUSES,
  LOBBY_VISIBILITIES,
  MEMBER,
  MESSAGE,
  RESULT,
  SANCTION_KINDS,
} from "./social-views.ts";

const Result = z.object(RESULT);
const OLD_STATUSES = LOBBY_STATUSES.filter((status) => status !== "CLOSED");

const games = {
  "lobby.created": {
    occurs: "a lobby was created",
    data: z.object({
      lobbyId: Id,
      code: Text,
      name: Text,
      mode: Text,
      visibility: z.enum(LOBBY_VISIBILITIES),
      hasPasscode: z.boolean(),
      host: Player.nullable(),
      minPlayers: z.int(),
      maxPlayers: z.int(),
      metadata: Data,
      createdVia: z.enum(["API", "PLAYER", "QUICKPLAY"]),
      createdAt: Time,
    }),
  },
  "lobby.started": {
    occurs: "a lobby's game started",
    data: z.object({
      lobbyId: Id,
      matchId: Id,
      code: Text,
      mode: Text,
      host: Player.nullable(),
      players: z.array(
        z.object({
          ...PLAYER,
          displayName: Text.nullable(),
          team: z.int().nullable(),
          slot: z.int().nullable(),
          data: Data,
        }),
      ),
      teams: z.array(z.object({ team: z.int(), playerIds: z.array(Id) })),
      metadata: Data,
      seed: Text.meta({ description: "The same for all of the game: for what chance decides" }),
      startedAt: Time,
    }),
  },
  "lobby.game_finished": {
    occurs: "a game ended with results; the lobby may go on",
    data: z.object({
      lobbyId: Id,
      matchId: Id,
      mode: Text,
      startedAt: Time,
      endedAt: Time,
      durationSeconds: z.number(),
      results: z.array(Result),
      nextStatus: z.enum(["OPEN", "CLOSED"]),
    }),
  },
  "lobby.ended": {
    occurs: "a lobby closed",
    data: z.object({
      lobbyId: Id,
      matchId: Id.nullable(),
      mode: Text,
      previousStatus: z.enum(OLD_STATUSES),
      closeReason: z.enum(LOBBY_CLOSE_REASONS),
      startedAt: Time.nullable(),
      endedAt: Time,
      durationSeconds: z.number().nullable(),
      players: z.array(Player),
      results: z.array(Result).nullable(),
      metadata: Data,
    }),
  },
};

export const lobbyTypes = {
  ...games,
  "lobby.member_joined": {
    occurs: "a player joined a lobby",
    data: z.object({ lobbyId: Id, member: z.object(MEMBER), memberCount: z.int() }),
  },
  "lobby.member_left": {
    occurs: "a player left a lobby, or was sent away",
    data: z.object({
      lobbyId: Id,
      playerId: Id,
      externalUserId: Text,
      reason: z.enum(["LEFT", "KICKED", "TIMEOUT"]),
      memberCount: z.int(),
    }),
  },
  "lobby.host_changed": {
    occurs: "a lobby has another host",
    data: z.object({ lobbyId: Id, previousHost: Id.nullable(), newHost: Id }),
  },
};

export const chatTypes = {
  "chat.message_sent": {
    occurs: "a message was sent to a channel that every player reads",
    data: z.object(MESSAGE),
  },
  "chat.message_reported": {
    occurs: "a player reported a message",
    data: z.object({
      reportId: Id,
      channelId: Id,
      seq: z.int(),
      reporter: Player,
      reason: Text,
      reports: z.int(),
    }),
  },
  "chat.message_moderated": {
    occurs: "a message was masked, blocked, held, removed or restored",
    data: z.object({
      channelId: Id,
      seq: z.int(),
      action: z.enum(["MASKED", "BLOCKED", "HELD", "REMOVED", "RESTORED"]),
      by: z.enum(["AUTO", "MODERATOR", "ADMIN"]),
      flags: z.array(Text),
    }),
  },
  "chat.player_sanctioned": {
    occurs: "a player was muted or banned; of a private channel neither its id nor the reason is told",
    data: z.object({
      ...PLAYER,
      sanctionId: Id,
      kind: z.enum(SANCTION_KINDS),
      channelId: Id.nullable(),
      isInPrivateChannel: z.boolean(),
      reason: Text.nullable(),
      expiresAt: Time.nullable(),
    }),
  },
};

const Counts = z.record(z.string(), z.int());

export const ruleTypes = {
  "rule.loop_detected": {
    occurs: "rules set one another off, and were stopped",
    data: z.object({
      ruleKey: Text,
      ruleId: Id,
      rootEventId: Id,
      chain: z.array(Text),
      paused: z.boolean(),
    }),
  },
  "rule.budget_exhausted": {
    occurs: "a rule has given away all that its budget has for now",
    data: z.object({ ruleKey: Text, ruleId: Id, asset: Text, max: z.number(), window: Text }),
  },
  "event.failed": {
    occurs: "a tracked event could not be processed and was given up",
    data: z.object({
      eventId: Id,
      eventType: Text,
      externalUserId: Text,
      error: Text,
      attempts: z.int(),
    }),
  },
  "event.steps_exhausted": {
    occurs: "an event would have taken more steps than it may; this definition took the most",
    data: z.object({
      kind: z.enum(["rule", "badge", "streak", "segment", "leaderboard", "quest", "adventure"]),
      id: Id,
      key: Text,
      rootEventId: Id,
      paused: z.boolean(),
    }),
  },
  "event.uncounted": {
    occurs:
      "a player's counters take all the room there is, and one of this definition did not count an event",
    data: z.object({
      kind: z.enum(["rule", "badge", "streak", "segment", "leaderboard", "quest", "adventure"]),
      id: Id,
      key: Text,
      playerId: Id,
      externalUserId: Text,
      rootEventId: Id,
    }),
  },
  "event.reverted": {
    occurs: "what a tracked event had brought was taken back",
    data: z.object({
      eventId: Id,
      externalUserId: Text,
      reversed: z.object({
        xp: z.int(),
        currencies: Counts,
        badges: z.array(Text),
        quests: z.array(Text),
        scores: z.array(Text),
      }),
      shortfall: Counts,
    }),
  },
};

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
};

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
};

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
};

export const playerTypes = { ...profile, ...assets, ...achievements };
