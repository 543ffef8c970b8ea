/** Maximum tiers of a badge. */
export const TIERS_MAX = 20;
