import { z } from "zod";
import { actorOf, type Caller } from "../../domain/kernel/caller.ts";
import type { Cause } from "../../domain/kernel/events/events.ts";

/** Returns the cause recorded for an API caller's change to a player. */
export const causeOf = (caller: Caller): Cause => ({ kind: "API", actor: actorOf(caller) });

/** Responses without a record. */
export const Accepted = z.object({ accepted: z.literal(true) });
export const Deleted = z.object({ deleted: z.literal(true) });

/** Answers when something is deleted. */
export const deleted = async (done: Promise<unknown>): Promise<{ deleted: true }> => {
  await done;
  return { deleted: true };
};

/** Answers when something is done that needs no other answer. */
export const accepted = async (done: Promise<unknown>): Promise<{ accepted: true }> => {
  await done;
  return { accepted: true };
};
