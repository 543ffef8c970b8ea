import type { Work } from "../../kernel/work.ts";
import { setAway, setPresent } from "./membership.ts";
import { type LobbyRef, type Member, memberOf } from "./state.ts";
import { type LobbyEdit, saveEdit, takeLobby } from "./edit.ts";
import type { LobbyChange } from "../../kernel/events/lobby-views.ts";

const changePresence = async (
  work: Work,
  { playerId, ...ref }: LobbyRef & { playerId: string },
  run: (edit: LobbyEdit, member: Member) => void,
): Promise<LobbyChange | undefined> => {
  const edit = await takeLobby(work, ref);
  const member = edit && memberOf(edit.lobby, playerId);
  if (!edit || !member) return undefined;
  run(edit, member);
  const change = await saveEdit(edit);
  return edit.isChanged ? change : undefined;
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
