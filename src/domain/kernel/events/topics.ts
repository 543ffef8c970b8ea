import type { Json } from "./events.ts";
import type { Occurrence } from "./lobby-views.ts";

/**
 * Publish and subscribe over all processes: JSON in, JSON out, at most once. Nothing depends on a message
 * arriving; every reader can ask the database instead.
 */
export type Topics = {
  publish(topic: string, message: unknown): void;
  /**
   * Publishes to the topics that somebody listens to now; no other message is made. Whoever begins to listen
   * while this runs may miss them, so a listener asks the database once its subscription is live.
   */
  publishIfSubscribed(messages: readonly MessageFor[]): Promise<void>;
  /** Resolves when the subscription is live; call the answer to end it. */
  subscribe(topic: string, listener: (message: never) => void): Promise<() => void>;
};

/** A topic, and what makes the message for it. */
export type MessageFor = readonly [topic: string, make: () => unknown];

/** Batches of the player's outbox rows: `PlayerMessage[]` in seq order. */
export const playerTopic = (projectId: string, playerId: string): string => `player:${projectId}:${playerId}`;

/** A period's entries have changed in the index (message: `Moved`). */
export const periodTopic = (projectId: string, periodId: string): string => `period:${projectId}:${periodId}`;

/**
 * A list of the board was closed (message: the data of `leaderboard.period_closed`), or its definition or
 * status is another one (null).
 */
export const boardTopic = (projectId: string, leaderboardId: string): string =>
  `board:${projectId}:${leaderboardId}`;

/** Events of this partition have been processed (message: the partition). */
export const processedTopic = (part: number): string => `processed:${part}`;

/** A lobby has a new version (message: `LobbyNotice`). */
export const lobbyTopic = (projectId: string, lobbyId: string): string => `lobby:${projectId}:${lobbyId}`;
export type LobbyNotice = { version: number; occurrences: Occurrence[] };

/** Signals between members of a lobby, which nothing keeps (message: `LobbySignal`). */
export const signalTopic = (projectId: string, lobbyId: string): string => `signal:${projectId}:${lobbyId}`;
export type LobbySignal = { id: string; from: string; to: string[] | null; payload: Json };

/** A lobby of the project that is, or was, in the list of open ones has changed (message: its id). */
export const lobbiesTopic = (projectId: string): string => `lobbies:${projectId}`;

/** What the readers of a channel are told (message: `ChatLine[]`, in order). */
export const chatTopic = (projectId: string, channelId: string): string => `chat:${projectId}:${channelId}`;

/** What nothing keeps of a channel: who types, reads, is there (message: `ChatVolatile`). */
export const chatVolatileTopic = (projectId: string, channelId: string): string =>
  `chat-volatile:${projectId}:${channelId}`;

/** Messages on a player's stream without a `seq` (message: `PlayerNotice`). */
export const noticeTopic = (projectId: string, playerId: string): string => `notice:${projectId}:${playerId}`;

/** One line of the player stream. `seq` runs without gaps; the outbox keeps every line. */
export type PlayerMessage = {
  seq: number;
  id: string;
  type: string;
  data: Record<string, unknown>;
  at: string;
};
