import { actorOf, type Caller } from "../../domain/kernel/caller.ts";
import type { Cause } from "../../domain/kernel/events/events.ts";

/** Returns the cause recorded for an API caller's change to a player. */
export const causeOf = (caller: Caller): Cause => ({ kind: "API", actor: actorOf(caller) });
