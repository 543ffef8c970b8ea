import { DAY_MS, HOUR_MS } from "./streaks.ts";

/** The first moment of today by the real clock in UTC, which servers go by. */
export const today = (): number => Math.floor(Date.now() / DAY_MS) * DAY_MS;

export const dateOf = (daysAgo: number): string =>
  new Date(today() - daysAgo * DAY_MS).toISOString().slice(0, 10);

/** Noon so many days ago; today, its first moment. */
export const momentAgo = (days: number): string =>
  new Date(days === 0 ? today() : today() - days * DAY_MS + 12 * HOUR_MS).toISOString();

/** A zone where it is between 22:00 and 23:00 now; the sign of these zones is the other way round. */
export const lateZone = (): string => {
  const hours = 22 - new Date().getUTCHours();
  const ahead = hours > 12 ? hours - 24 : hours;
  return ahead === 0 ? "UTC" : `Etc/GMT${ahead > 0 ? "-" : "+"}${Math.abs(ahead)}`;
};
