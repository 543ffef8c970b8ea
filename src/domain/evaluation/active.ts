import { conflict } from "../kernel/errors.ts";
import type { PlayerState } from "./player-state.ts";

/** Players who are not ACTIVE are given nothing. @throws DomainError CONFLICT PLAYER_INACTIVE */
export const checkActive = ({ status }: Pick<PlayerState, "status">): void => {
  if (status !== "ACTIVE") throw conflict("PLAYER_INACTIVE", `the player is ${status}`);
};
