import { DAY_MS, HOUR_MS } from "./streaks.ts";

/** The first moment of today by the real clock in UTC, which servers go by. */
export const today = (): number => Math.floor(Date.now() / DAY_MS) * DAY_MS;

export const dateOf = (daysAgo: number): string =>
  new Date(today() - daysAgo * DAY_MS).toISOString().slice(0, 10);

/** Noon so many days ago; today, its first moment. */
export const momentAgo = (days: number): string =>
  new Date(days === 0 ? today() : today() - days * DAY_MS + 12 * HOUR_MS).toISOString();
