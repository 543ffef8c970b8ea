import assert from "node:assert/strict";
import { ADMINS } from "../../kernel/access.ts";
import type { Caller } from "../../kernel/caller.ts";
import { invalid } from "../../kernel/errors.ts";
import { getPlayer } from "../../progression/players/players.ts";
import type { Work } from "../../kernel/work.ts";
import type { ChatActor } from "../../kernel/events/chat-views.ts";

/**
 * Returns the actor of a REST call: a console user; a player whom a key names by `playerId` (a UUID, or
 * `ext:` and the externalUserId), with that player's rights; or the key itself as the server.
 * @throws DomainError NOT_FOUND for an unknown player
 */
export const chatActorOf = async (
  work: Work,
  projectId: string,
  caller: Caller,
  playerId?: string,
): Promise<ChatActor> => {
  if (caller.kind === "user") {
    if (playerId !== undefined) throw invalid("playerId", "is for API keys: console users act as themselves");
    // Without the right to moderate, a user reads what everybody in the channel reads.
    if (!ADMINS.includes(caller.role)) return { kind: "SERVER", isModerator: false };
    return { kind: "ADMIN", userId: caller.userId };
  }
  assert(caller.kind === "key", "the operation is a tenant's");
  if (playerId === undefined) return { kind: "SERVER", isModerator: caller.scopes.includes("chat:moderate") };
  const player = await getPlayer(work, projectId, playerId);
  return { kind: "PLAYER", playerId: player.id };
};
