import type { Json } from "../events.ts";

/** Bytes of a score's `meta` as JSON. */
export const SCORE_META_MAX_BYTES = 1_024;

/** Whether it is small enough to go with a score. */
export const isMeta = (meta: Json): boolean =>
  Buffer.byteLength(JSON.stringify(meta)) <= SCORE_META_MAX_BYTES;
