import type { Effect } from "./events.ts";

/** What the sender of one event is told. */
export type EventResult = {
  eventId: string | null;
  status: "PENDING" | "PROCESSED" | "DUPLICATE" | "REJECTED" | "FAILED";
  skipped: boolean;
  message: string;
  existingEventId?: string;
  effects?: Effect[];
  /** How many more there are, which did not fit into the answer. */
  effectsLeftOut?: number;
  /** What the type's schema says against the event, which was taken all the same. */
  warnings?: string[];
};
