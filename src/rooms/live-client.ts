import { type Client, ClientState } from "@colyseus/core";
import type { Principal } from "./authenticate.ts";

/** What the base room knows of one socket. */
export type Session = {
  sinceMs: number;
  /** Whether it has been told that it is in: from `sinceMs` on it may take its time to acknowledge that. */
  isTold: boolean;
  isWarned: boolean;
  isClosing: boolean;
};

export type LiveClient = Client<{ auth: Principal; userData: Session; messages: Record<string, unknown> }>;

export const newSession = (nowMs: number): Session => ({
  sinceMs: nowMs,
  isTold: false,
  isWarned: false,
  isClosing: false,
});

/** Core tells a client that it is in once it is welcome, which takes long where many come at once. */
export const noteTold = ({ userData }: LiveClient, nowMs: number): void =>
  void Object.assign(userData!, { sinceMs: nowMs, isTold: true });

/** What is sent to a client that never acknowledges its join would wait without end. */
export const isUnacknowledged = (
  { state, userData }: LiveClient,
  nowMs: number,
  patienceMs: number,
): boolean => state === ClientState.JOINING && userData!.isTold && nowMs - userData!.sinceMs > patienceMs;
