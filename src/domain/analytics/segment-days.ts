export const SEGMENT_GROUPS = ["lifecycle", "engagement", "level", "xp"] as const;
export type SegmentGroup = (typeof SEGMENT_GROUPS)[number];

/** Days, back from the last complete one, that decide; longer pauses are all the same. */
export const WINDOW_DAYS = 7;
export const ENGAGEMENT_DAYS = 28;
export const PAUSE_DAYS = 30;
/** A pause of 30 days before the last 7 begins within these. */
export const KNOWN_DAYS = 40;
