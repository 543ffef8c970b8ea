import type { Occurrence } from "./events/social-views.ts";
import type { Json } from "./events/events.ts";

/**
 * Publish/subscribe across all processes: JSON in, JSON out, at most once. Correctness never depends on a
 * message arriving; every subscriber can read the database instead.
 */
export type Topics = {
  publish(topic: string, message: unknown): void;
  /**
   * Publishes to the topics that currently have subscribers; other messages are not even built. A
   * subscription made concurrently may miss them, so a subscriber reads the database once its subscription is
   * live. A few messages are published without asking who subscribes, unless they are `large`.
   */
  publishIfSubscribed(messages: readonly MessageFor[], large?: boolean): Promise<void>;
  /** Resolves when the subscription is live; call the answer to end it. */
  subscribe(topic: string, listener: (message: never) => void): Promise<() => void>;
};

/** A topic and the function that builds its message. */
export type MessageFor = readonly [topic: string, make: () => unknown];

/** Batches of the player's outbox rows: `PlayerMessage[]` in seq order. */
export const playerTopic = (projectId: string, playerId: string): string => `player:${projectId}:${playerId}`;

/** Entries of a period have changed in the index (message: `Moved`). */
export const periodTopic = (projectId: string, periodId: string): string => `period:${projectId}:${periodId}`;

/**
 * A list of the board was closed (message: the data of `leaderboard.period_closed`), or its definition or
 * status has changed (null).
 */
export const boardTopic = (projectId: string, leaderboardId: string): string =>
  `board:${projectId}:${leaderboardId}`;

/** Events of this partition have been processed (message: the partition). */
export const processedTopic = (part: number): string => `processed:${part}`;

/** Events of the project have been tried by workers (message: `EventHandled[]`). */
export const eventsTopic = (projectId: string): string => `events:${projectId}`;
export type EventHandled = [id: string, eventType: string, externalUserId: string];

/** A lobby has a new version (message: `LobbyNotice`). */
export const lobbyTopic = (projectId: string, lobbyId: string): string => `lobby:${projectId}:${lobbyId}`;
export type LobbyNotice = { version: number; occurrences: Occurrence[] };

/** Transient signals between members of a lobby (message: `LobbySignal`). */
export const signalTopic = (projectId: string, lobbyId: string): string => `signal:${projectId}:${lobbyId}`;
export type LobbySignal = { id: string; from: string; to: string[] | null; payload: Json };

/** A lobby that is, or was, in the project's list of open lobbies has changed (message: its id). */
export const lobbiesTopic = (projectId: string): string => `lobbies:${projectId}`;

/** Updates for the readers of a channel (message: `ChatLine[]`, in order). */
export const chatTopic = (projectId: string, channelId: string): string => `chat:${projectId}:${channelId}`;

/** Transient state of a channel: typing, reads, presence (message: `ChatVolatileEvent`). */
export const chatVolatileTopic = (projectId: string, channelId: string): string =>
  `chat-volatile:${projectId}:${channelId}`;

/** Messages on a player's stream without a `seq` (message: `PlayerNotice`). */
export const noticeTopic = (projectId: string, playerId: string): string => `notice:${projectId}:${playerId}`;

/** One line of the player stream. `seq` has no gaps; the outbox keeps every line. */
export type PlayerMessage = {
  seq: number;
  id: string;
  type: string;
  data: Record<string, unknown>;
  at: string;
};
