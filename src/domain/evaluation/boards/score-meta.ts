import type { Json } from "../../kernel/events/events.ts";
import { fitsBytes } from "../../kernel/oversize.ts";

/** Maximum bytes of a score's `meta` as JSON. */
export const SCORE_META_MAX_BYTES = 1_024;

/** Returns whether it is small enough to be stored with a score. */
export const isMeta = (meta: Json): boolean => fitsBytes(meta, SCORE_META_MAX_BYTES);
