import { playerRef } from "./show.ts";
import { playersOf } from "./state.ts";
import { type LobbyEdit, announce, touch } from "./edit.ts";
import type { LobbyCloseReason, LobbyResult, LobbyStatus } from "../../kernel/events/lobby-views.ts";

/** Duration of a game in whole seconds; null when none began. */
export const secondsSince = (startedAt: Date | null, now: Date): number | null =>
  startedAt && Math.round((now.getTime() - startedAt.getTime()) / 1_000);

/** Closes a lobby permanently; all seats become free. Emits `lobby.ended` as its last event. */
export const closeLobby = (edit: LobbyEdit, reason: LobbyCloseReason, results?: LobbyResult[]): void => {
  const { lobby, work } = edit;
  const { now } = work;
  const players = playersOf(lobby).map(playerRef);
  const previousStatus = lobby.status as Exclude<LobbyStatus, "CLOSED">;
  for (const member of lobby.members)
    touch(edit, Object.assign(member, { status: "LEFT", graceUntil: null }));
  lobby.members = [];
  Object.assign(lobby, { status: "CLOSED", closeReason: reason, endedAt: now, startsAt: null });
  touch(edit);
  announce(edit, "lobby.ended", {
    lobbyId: lobby.id,
    matchId: lobby.matchId,
    mode: lobby.mode,
    previousStatus,
    closeReason: reason,
    startedAt: lobby.startedAt?.toISOString() ?? null,
    endedAt: now.toISOString(),
    durationSeconds: secondsSince(lobby.startedAt, now),
    players,
    results: results ?? null,
    metadata: lobby.metadata,
  });
};
