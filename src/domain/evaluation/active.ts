import { conflict } from "../kernel/errors.ts";
import type { PlayerState } from "./player-state.ts";

/** Rejects changes to players that are not ACTIVE. @throws DomainError CONFLICT PLAYER_INACTIVE */
export const checkActive = ({ status }: Pick<PlayerState, "status">): void => {
  if (status !== "ACTIVE") throw conflict("PLAYER_INACTIVE", `the player is ${status}`);
};
