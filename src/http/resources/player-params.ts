import { z } from "zod";
import { actorOf, type Caller } from "../../domain/kernel/caller.ts";
import type { Cause } from "../../domain/kernel/events/events.ts";

const playerId = z
  .string()
  .max(300)
  .meta({ description: "The player's UUID, or ext: and the externalUserId" });

/** Path parameters of a player's resources. */
export const PlayerParams = z.object({ playerId });

/** Returns the cause recorded for an API caller's change to a player. */
export const causeOf = (caller: Caller): Cause => ({ kind: "API", actor: actorOf(caller) });
