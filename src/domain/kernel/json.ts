import type { Json } from "./events/events.ts";

/** Whether a value is an object of JSON: no list, and not null. */
export const isJsonObject = (value: unknown): value is Json =>
  value !== null && typeof value === "object" && !Array.isArray(value);
