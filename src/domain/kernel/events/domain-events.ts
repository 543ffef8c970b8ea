import { z } from "zod";
import type { ChatLine, Occurrence } from "./social-views.ts";
import { chatTypes, lobbyTypes, playerTypes, ruleTypes } from "./entries.ts";
import { adventureTypes, leaderboardTypes, questTypes, reportTypes } from "./entries-of-play.ts";
import { CauseShape, type EntryChange, type Json, type PlayerRef } from "./events.ts";
import { Data, PLAYER, Text } from "./shapes.ts";

/** A type of events: what is emitted, sent to webhooks and documented. */
export type Entry = {
  /** When it is sent, in a sentence. */
  occurs: string;
  /** The schema of `data`. */
  data: z.ZodType;
};

/** The types of events that webhooks can receive. Times are ISO 8601. */
export const EVENT_ENTRIES = {
  ...playerTypes,
  ...questTypes,
  ...adventureTypes,
  ...leaderboardTypes,
  ...lobbyTypes,
  ...chatTypes,
  ...ruleTypes,
  ...reportTypes,
} satisfies Record<string, Entry>;

/** Events that rules emit under names of the integrator. */
export const CUSTOM_ENTRY = {
  occurs: "a rule emitted an event of your own for webhooks; its type is `custom.` and your name for it",
  data: z.object({ ...PLAYER, eventType: Text, properties: Data, cause: CauseShape }),
} satisfies Entry;

/** A message on a player's stream without `seq`, which may be lost without harm. */
export type PlayerNotice =
  | {
      name: "lobby.invited";
      data: { lobbyId: string; code: string; from: PlayerRef | null; expiresAt: string };
    }
  | { name: "lobby.kicked"; data: { lobbyId: string; reason: string | null; banned: boolean } }
  | {
      name: "leaderboard.me";
      data: {
        leaderboardKey: string;
        periodKey: string;
        board: string;
        rank: number;
        previousRank: number | null;
        score: number;
        participants: number;
      };
    }
  | {
      name: "chat.sanction";
      data: { kind: "MUTE" | "BAN"; channelId: string | null; expiresAt: string | null; reason: string };
    };

/** Events that webhooks never receive: they notify rooms and indexes, or one player's client. */
type InternalEvents = {
  /** A message in the player's inbox. */
  "inbox.message": PlayerRef & {
    id: string;
    type: string;
    title: string;
    body: string | null;
    data: Json;
    rewardGrantId: string | null;
  };
  /**
   * A line of the player's stream: the quest as the API shows it, and the greatest change of the pass. Where
   * the percent of a quest in progress has changed, `progress` is what `quest.progress` says besides: that
   * event is sent from this row, and has none of its own.
   */
  "quest.updated": PlayerRef & {
    quest: Json;
    change: string;
    progress?: { previousPercent: number; justCompleted: string[] };
  };
  /** A line of the player's stream: the adventure, and the greatest change of the pass. */
  "adventure.updated": PlayerRef & { adventure: Json; change: string };
  /** Feeds the rank index. */
  "leaderboard.entries_changed": { periodId: string; entries: EntryChange[] };
  /** The definition or status of a board has changed. */
  "leaderboard.changed": { leaderboardId: string };
  /** One for each version: notifies the rooms that mirror the lobby, and the list of open ones. */
  "lobby.changed": { lobbyId: string; version: number; occurrences: Occurrence[]; isListed: boolean };
  /** Updates for the readers of a channel. */
  "chat.changed": { channelId: string; lines: ChatLine[] };
  /** Carries a notice to the sockets of one player. */
  "player.notice": { playerId: string; notice: PlayerNotice };
};

/** Domain events that commits write to the outbox, with the shape of `data`. No board's event has a `player_seq`. */
export type Events = {
  [T in keyof typeof EVENT_ENTRIES]: z.output<(typeof EVENT_ENTRIES)[T]["data"]>;
} & InternalEvents;

export type EventType = keyof Events;
export type EventData<T extends EventType> = Events[T];

/** A player's final rank when a board closed. */
export type FinalRank = Events["leaderboard.period_closed"]["top"][number];

/** The scores of all players under one value of a breakdown, and its place; equal ones share a rank. */
export type RankedValue = Events["leaderboard.values_ranked"]["top"][number];
