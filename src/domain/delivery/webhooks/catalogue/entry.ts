import type { z } from "zod";
import type { EventData, EventType } from "../../../kernel/events/domain-events.ts";

/** What a type of event is about. */
export type Entry<T = unknown> = {
  /** When it is sent, in a sentence. */
  occurs: string;
  /** The shape of `data`. */
  data: z.ZodType<T>;
};

/** Entries whose shapes are those that the server emits. */
export type EntriesOf<T extends EventType> = { [K in T]: Entry<EventData<K>> };
