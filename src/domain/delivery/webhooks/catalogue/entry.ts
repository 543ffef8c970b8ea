import type { z } from "zod";
import type { EventData, EventType } from "../../../kernel/events/domain-events.ts";

/** Documentation of an event type. */
export type Entry<T = unknown> = {
  /** When it is sent, in a sentence. */
  occurs: string;
  /** The schema of `data`. */
  data: z.ZodType<T>;
};

/** Entries whose schemas match the emitted events. */
export type EntriesOf<T extends EventType> = { [K in T]: Entry<EventData<K>> };
