import { type RawBuilder, sql } from "kysely";
import type { Work } from "../../kernel/work.ts";
import { closeLobby } from "./close.ts";
import { isOver } from "./due.ts";
import { removeMember, setAway } from "./membership.ts";
import type { LobbyRef, Lock, Member } from "./state.ts";
import { beginGame } from "./start.ts";
import { type LobbyEdit, saveEdit, takeLobby } from "./edit.ts";
import type { LobbyChange } from "../../kernel/events/lobby-views.ts";

/** Maximum number of lobbies per read of a sweep. */
export const DUE_AT_ONCE = 100;

const isDue = (time: Date | null, now: Date): boolean => time !== null && time <= now;

/** Marks members without a heartbeat as away, and removes those whose grace period is over. */
const endGraces = (edit: LobbyEdit): void => {
  const { lobby, work } = edit;
  const due: Member[] = lobby.members.filter(({ graceUntil }) => isDue(graceUntil, work.now));
  for (const member of due) {
    // The removal of an earlier one may have closed the lobby.
    if (edit.lobby.status === "CLOSED") return;
    if (member.status === "DISCONNECTED") removeMember(edit, member, "TIMEOUT");
    else setAway(edit, member);
  }
};

const advance = (edit: LobbyEdit): void => {
  const { lobby, work } = edit;
  if (lobby.status === "CLOSED") return;
  endGraces(edit);
  if (lobby.status === "STARTING" && isDue(lobby.startsAt, work.now)) return beginGame(edit);
  if (edit.isChanged || lobby.status === "STARTING" || !isOver(lobby, work.now)) return;
  closeLobby(edit, lobby.status === "IN_GAME" ? "ABORTED" : "EXPIRED");
};

/**
 * Applies a lobby's due time-based change: the start of a game, the end of a grace period, of a game or of
 * the lobby. A concurrent second call finds nothing due.
 * @param lock "skip" skips a lobby that another transaction has locked
 * @returns undefined when nothing was due
 */
export const advanceLobby = async (
  work: Work,
  ref: LobbyRef,
  lock?: Lock,
): Promise<LobbyChange | undefined> => {
  const edit = await takeLobby(work, ref, lock);
  if (!edit || edit.lobby.status === "CLOSED") return undefined;
  advance(edit);
  const change = await saveEdit(edit);
  return edit.isChanged ? change : undefined;
};

const dueLobbies = (at: Date): RawBuilder<unknown> =>
  sql`from lobbies where status <> 'CLOSED' and due_at <= ${at.toISOString()}::timestamptz`;

/** Whether a lobby of any project has a due change. */
export const areLobbiesDue = (at: Date): RawBuilder<unknown> => sql`exists (select ${dueLobbies(at)})`;

/** Returns the lobbies of all projects with a due change, longest overdue first. */
export const findDueLobbies = async ({ db, now }: Work): Promise<LobbyRef[]> => {
  const { rows } = await sql<LobbyRef>`
    select project_id as "projectId", id as "lobbyId" ${dueLobbies(now)}
    order by due_at limit ${DUE_AT_ONCE}`.execute(db);
  return rows;
};
