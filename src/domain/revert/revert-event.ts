import { conflict, notFound } from "../kernel/errors.ts";
import type { Work } from "../kernel/work.ts";
import { revertEvents } from "./revert-events.ts";
import type { HowToRevert, RevertResult } from "./revert-result.ts";

export type Revert = HowToRevert & { eventId: string };

/**
 * Reverts one event with everything that it has caused, as `revertEvents`.
 * @throws DomainError NOT_FOUND; CONFLICT: INVALID_STATE for an event without effects, EVENT_TOO_LARGE,
 * SHORTFALL
 */
export const revertEvent = async (
  work: Work,
  projectId: string,
  { eventId, ...how }: Revert,
): Promise<RevertResult> => {
  const { results, refused } = await revertEvents(work, projectId, { eventIds: [eventId], ...how });
  const [result] = results;
  if (result) return result;
  const status = refused.get(eventId);
  if (status === undefined) throw notFound("event");
  throw conflict("INVALID_STATE", `the event is ${status}: it has no effects`);
};
