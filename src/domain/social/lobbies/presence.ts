import type { Work } from "../../kernel/work.ts";
import { setAway, setPresent } from "./membership.ts";
import { type LobbyRef, type Member, memberOf } from "./state.ts";
import { type LobbyTurn, saveTurn, takeLobby } from "./turn.ts";
import type { LobbyChange } from "../../kernel/events/lobby-views.ts";

const changePresence = async (
  work: Work,
  { playerId, ...ref }: LobbyRef & { playerId: string },
  run: (turn: LobbyTurn, member: Member) => void,
): Promise<LobbyChange | undefined> => {
  const turn = await takeLobby(work, ref);
  const member = turn && memberOf(turn.lobby, playerId);
  if (!turn || !member) return undefined;
  run(turn, member);
  const change = await saveTurn(turn);
  return turn.isChanged ? change : undefined;
};

/**
 * A member's first socket is there: from now on sockets tell whether the member is. Changes nothing for
 * others to see when the member was not away, and nothing at all for one who is no member.
 */
export const connectMember = (
  work: Work,
  ref: LobbyRef,
  playerId: string,
): Promise<LobbyChange | undefined> =>
  changePresence(work, { ...ref, playerId }, (turn, member) => setPresent(turn, member, "SOCKET"));

/**
 * A member's last socket has gone without a leave: grace begins. Nothing for one who has had no socket, or is
 * away already, or is no member.
 */
export const disconnectMember = (
  work: Work,
  ref: LobbyRef,
  playerId: string,
): Promise<LobbyChange | undefined> =>
  changePresence(work, { ...ref, playerId }, (turn, member) => {
    if (member.presence === "SOCKET" && member.status !== "DISCONNECTED") setAway(turn, member);
  });
