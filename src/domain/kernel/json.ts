import type { Json } from "./events/events.ts";

/** Returns whether a value is a JSON object: not a list, and not null. */
export const isJsonObject = (value: unknown): value is Json =>
  value !== null && typeof value === "object" && !Array.isArray(value);
