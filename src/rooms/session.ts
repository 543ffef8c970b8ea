import { type Client, ClientState } from "@colyseus/core";
import type { Principal } from "./authenticate.ts";

/** The base room's record of one socket. */
type Session = {
  sinceMs: number;
  /** Whether the join was confirmed to the client: from `sinceMs` on it has time to acknowledge that. */
  isJoinSent: boolean;
  isWarned: boolean;
  isClosing: boolean;
};

export type LiveClient = Client<{ auth: Principal; userData: Session; messages: Record<string, unknown> }>;

export const newSession = (nowMs: number): Session => ({
  sinceMs: nowMs,
  isJoinSent: false,
  isWarned: false,
  isClosing: false,
});

/** Core confirms a join after the client is welcomed, which takes long when many join at once. */
export const noteJoinSent = ({ userData }: LiveClient, nowMs: number): void =>
  void Object.assign(userData!, { sinceMs: nowMs, isJoinSent: true });

/** Data for a client that never acknowledges its join would be queued without end. */
export const isUnacknowledged = (
  { state, userData }: LiveClient,
  nowMs: number,
  patienceMs: number,
): boolean => state === ClientState.JOINING && userData!.isJoinSent && nowMs - userData!.sinceMs > patienceMs;
