/**
 * Publish and subscribe over all processes: JSON in, JSON out, at most once. Nothing depends on a message
 * arriving; every reader can ask the database instead.
 */
export type Topics = {
  publish(topic: string, message: unknown): void;
  /** Resolves when the subscription is live; call the answer to end it. */
  subscribe(topic: string, listener: (message: never) => void): Promise<() => void>;
};

/** Batches of the player's outbox rows: `PlayerMessage[]` in seq order. */
export const playerTopic = (projectId: string, playerId: string): string => `player:${projectId}:${playerId}`;

/** A period's entries changed (message: the period id). */
export const periodTopic = (projectId: string, periodId: string): string => `period:${projectId}:${periodId}`;

/** Events of this partition have been processed (message: the partition). */
export const processedTopic = (part: number): string => `processed:${part}`;

/** One line of the player stream. `seq` runs without gaps; the outbox keeps every line. */
export type PlayerMessage = {
  seq: number;
  id: string;
  type: string;
  data: Record<string, unknown>;
  at: string;
};
