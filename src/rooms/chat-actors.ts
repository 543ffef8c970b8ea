import type { ChatActor } from "../domain/kernel/events/chat-views.ts";
import { forbidden } from "../domain/kernel/errors.ts";
import type { Principal } from "./authenticate.ts";

/** Returns the reader. Tokens of console users do not carry their role, so they may only read. */
export const readerOf = ({ playerId }: Principal): ChatActor =>
  playerId === null ? { kind: "SERVER", isModerator: false } : { kind: "PLAYER", playerId };

/** Returns the player who makes a request. @throws DomainError FORBIDDEN PLAYER_TOKEN_REQUIRED */
export const speakerOf = ({ playerId }: Principal): ChatActor => {
  if (playerId === null)
    throw forbidden("PLAYER_TOKEN_REQUIRED", "console users can only read here: use a player's token");
  return { kind: "PLAYER", playerId };
};
