import { oneLine } from "../layout.ts";

/** Builds the links of a mail, which all lead to the console. */
export type Links = { withToken(path: string, token: string): string };

/** @param consoleUrl without a trailing slash */
export const linksTo = (consoleUrl: string): Links => ({
  withToken: (path, token) => `${consoleUrl}${path}?token=${encodeURIComponent(token.toWellFormed())}`,
});

const DAY = new Intl.DateTimeFormat("en-GB", { dateStyle: "long", timeZone: "UTC" });

/** Formats the day of an ISO time, such as 21 November 2026; other texts are returned unchanged. */
export const dayOf = (text: string): string => {
  const ms = Date.parse(text);
  return Number.isNaN(ms) ? oneLine(text, 64) : DAY.format(ms);
};
