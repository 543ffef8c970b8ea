import type { Json } from "../../../kernel/events/events.ts";
import { CUSTOM_TYPE } from "./catalogue.ts";
import { EXAMPLES } from "./examples.ts";
import { isCustomType } from "./event-types.ts";

/** Type of a test whose caller names none. */
export const TEST_TYPE = "webhook.test";

/** Returns sample data of a type from its example; undefined for a type without any. */
export const sampleOf = (type: string): Json | undefined => {
  if (type === TEST_TYPE) return { message: "This is a test. Nothing has happened." };
  if (isCustomType(type)) return { ...EXAMPLES[CUSTOM_TYPE]!.data, eventType: type.slice("custom.".length) };
  return type === CUSTOM_TYPE ? undefined : EXAMPLES[type]?.data;
};
