import type { LobbyState } from "./state.ts";

const after = (time: Date, seconds: number): number => time.getTime() + seconds * 1_000;

/** Returns when an unchanged lobby is closed, or a game that nobody ends; ms. */
const endMs = ({ status, settings, updatedAt, startedAt, expiresAt }: LobbyState): number => {
  if (status === "IN_GAME") return after(startedAt!, settings.maxGameSeconds);
  return Math.min(after(updatedAt, settings.idleSeconds), expiresAt.getTime());
};

export const isOver = (lobby: LobbyState, now: Date): boolean => endMs(lobby) <= now.getTime();

/** Returns the time of a lobby's next time-based change; null for a closed one. */
export const dueAt = (lobby: LobbyState): Date | null => {
  if (lobby.status === "CLOSED") return null;
  const graces = lobby.members.flatMap(({ graceUntil }) => (graceUntil ? [graceUntil.getTime()] : []));
  const end = lobby.status === "STARTING" ? lobby.startsAt!.getTime() : endMs(lobby);
  return new Date(Math.min(end, ...graces));
};
