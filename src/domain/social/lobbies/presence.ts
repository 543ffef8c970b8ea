import { forbidden } from "../../kernel/errors.ts";
import type { Work } from "../../kernel/work.ts";
import { setAway, setPresent } from "./membership.ts";
import { type LobbyRef, type Member, memberOf } from "./state.ts";
import { type LobbyEdit, saveEdit, takeLobby } from "./edit.ts";
import type { LobbyChange } from "../../kernel/events/lobby-views.ts";

const present = (edit: LobbyEdit, member: Member): Promise<LobbyChange | undefined> =>
  changed(edit, () => setPresent(edit, member, "SOCKET"));

const changed = async (edit: LobbyEdit, run: () => void): Promise<LobbyChange | undefined> => {
  run();
  const change = await saveEdit(edit);
  return edit.isChanged ? change : undefined;
};

const changePresence = async (
  work: Work,
  { playerId, ...ref }: LobbyRef & { playerId: string },
  run: (edit: LobbyEdit, member: Member) => void,
): Promise<LobbyChange | undefined> => {
  const edit = await takeLobby(work, ref);
  const member = edit && memberOf(edit.lobby, playerId);
  return edit && member && changed(edit, () => run(edit, member));
};

/**
 * Handles a member's first socket: from now on sockets determine the member's presence. Publishes nothing
 * when the member was not away, and does nothing at all for a non-member.
 */
export const connectMember = (
  work: Work,
  ref: LobbyRef,
  playerId: string,
): Promise<LobbyChange | undefined> =>
  changePresence(work, { ...ref, playerId }, (edit, member) => setPresent(edit, member, "SOCKET"));

/**
 * As `connectMember`, for somebody whom a room takes for a member; in a lobby that is closed nobody is one.
 * @throws DomainError FORBIDDEN NOT_A_MEMBER
 */
export const enterMember = async (
  work: Work,
  { playerId, ...ref }: LobbyRef & { playerId: string },
): Promise<LobbyChange | undefined> => {
  const edit = await takeLobby(work, ref);
  if (!edit) return undefined;
  const member = memberOf(edit.lobby, playerId);
  if (!member) throw forbidden("NOT_A_MEMBER", "the player is not in the lobby");
  return edit.lobby.status === "CLOSED" ? undefined : present(edit, member);
};

/**
 * Handles the end of a member's last socket without a leave: the grace period begins. Does nothing for a
 * player who has had no socket, or is away already, or is no member.
 */
export const disconnectMember = (
  work: Work,
  ref: LobbyRef,
  playerId: string,
): Promise<LobbyChange | undefined> =>
  changePresence(work, { ...ref, playerId }, (edit, member) => {
    if (member.presence === "SOCKET" && member.status !== "DISCONNECTED") setAway(edit, member);
  });
