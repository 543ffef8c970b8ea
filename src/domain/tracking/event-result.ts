import type { Effect } from "./events.ts";

/** The response to the sender of one event. */
export type EventResult = {
  eventId: string | null;
  status: "PENDING" | "PROCESSED" | "DUPLICATE" | "REJECTED" | "FAILED";
  skipped: boolean;
  message: string;
  existingEventId?: string;
  effects?: Effect[];
  /** Number of effects that did not fit into the response. */
  effectsLeftOut?: number;
  /** Violations of the type's schema, and unknown fields, of an event that was accepted all the same. */
  warnings?: string[];
};
