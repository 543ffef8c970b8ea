import { oneLine } from "../layout.ts";

/** Pages of the console that take a token. At custom domains they lead to it. */
export const TOKEN_PAGES = ["/verify-email", "/reset-password", "/accept-invitation"] as const;

/** Builds the links of a mail, which all lead to the console; those with a token may by a tenant's domain. */
export type Links = {
  withToken(path: (typeof TOKEN_PAGES)[number], token: string): string;
  /** @param parts of the path, which are encoded */
  to(...parts: string[]): string;
};

/** Base URLs of links, without a trailing slash: with a token, and others. */
export type LinkBases = { tokenUrl: string; consoleUrl: string };

export const linksTo = ({ tokenUrl, consoleUrl }: LinkBases): Links => ({
  withToken: (path, token) => `${tokenUrl}${path}?token=${encodeURIComponent(token.toWellFormed())}`,
  to: (...parts) => [consoleUrl, ...parts.map((part) => encodeURIComponent(part.toWellFormed()))].join("/"),
});

const DAY = new Intl.DateTimeFormat("en-GB", { dateStyle: "long", timeZone: "UTC" });

/** Formats the day of an ISO time, such as 21 November 2026; other texts are returned unchanged. */
export const dayOf = (text: string): string => {
  const ms = Date.parse(text);
  return Number.isNaN(ms) ? oneLine(text, 64) : DAY.format(ms);
};
