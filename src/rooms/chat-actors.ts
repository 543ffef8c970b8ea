import type { ChatActor } from "../domain/kernel/events/chat-views.ts";
import { forbidden } from "../domain/kernel/errors.ts";
import type { Principal } from "./authenticate.ts";

/** Who reads; the tokens of console users do not say what their role may do, so they only read. */
export const readerOf = ({ playerId }: Principal): ChatActor =>
  playerId === null ? { kind: "SERVER", isModerator: false } : { kind: "PLAYER", playerId };

/** Who asks for something. @throws DomainError FORBIDDEN PLAYER_TOKEN_REQUIRED */
export const speakerOf = ({ playerId }: Principal): ChatActor => {
  if (playerId === null) throw forbidden("PLAYER_TOKEN_REQUIRED", "console users only read here");
  return { kind: "PLAYER", playerId };
};
