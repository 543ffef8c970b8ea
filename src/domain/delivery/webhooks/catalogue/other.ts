import { z } from "zod";
import { type ChatMessage, SANCTION_KINDS } from "../../../kernel/events/chat-views.ts";
import type { EventType } from "../../../kernel/events/domain-events.ts";
import type { EntriesOf } from "./entry.ts";
import { Id, Player, PLAYER, Text, Time } from "./shapes.ts";

type ChatType = Exclude<Extract<EventType, `chat.${string}`>, "chat.changed">;
type RuleType = Extract<EventType, `rule.${string}` | `event.${string}`>;

const Message = z.object({
  id: Id,
  channelId: Id,
  seq: z.int(),
  sender: z
    .object({ ...PLAYER, displayName: Text.nullable(), role: z.enum(["OWNER", "MODERATOR", "MEMBER"]) })
    .nullable(),
  type: z.enum(["TEXT", "SYSTEM"]),
  content: Text,
  mentions: z.array(Id),
  replyTo: z.int().nullable(),
  reactions: z.array(z.object({ emoji: Text, count: z.int(), mine: z.boolean() })),
  moderation: z.enum(["VISIBLE", "MASKED", "HELD", "REMOVED"]),
  editedAt: Time.nullable(),
  deletedAt: Time.nullable(),
  createdAt: Time,
}) as z.ZodType<ChatMessage>;

export const chatTypes: EntriesOf<ChatType> = {
  "chat.message_sent": { occurs: "a message was sent to a channel that every player reads", data: Message },
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

export const ruleTypes: EntriesOf<RuleType> = {
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
