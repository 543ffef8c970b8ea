import type { Json } from "../../../kernel/events/events.ts";
import { CUSTOM_TYPE } from "./catalogue.ts";
import { EXAMPLES } from "./examples.ts";
import { isCustomType } from "./event-types.ts";

/** What a test is called where its caller names no type. */
export const TEST_TYPE = "webhook.test";

/** Data of an event for a try: the example of its type; undefined for a type without any. */
export const sampleOf = (type: string): Json | undefined => {
  if (type === TEST_TYPE) return { message: "This is a test. Nothing has happened." };
  if (isCustomType(type)) return { ...EXAMPLES[CUSTOM_TYPE]!.data, eventType: type.slice("custom.".length) };
  return type === CUSTOM_TYPE ? undefined : EXAMPLES[type]?.data;
};
