import { z } from "zod";
import { actorOf, type Caller } from "../../domain/kernel/caller.ts";
import type { Cause } from "../../domain/kernel/events/events.ts";

const playerId = z
  .string()
  .max(300)
  .meta({ description: "The player's UUID, or ext: and the externalUserId" });

/** Paths of what belongs to a player. */
export const PlayerParams = z.object({ playerId });

/** The cause of what a caller of the API does to a player. */
export const causeOf = (caller: Caller): Cause => ({ kind: "API", actor: actorOf(caller) });
