import { parseCookie, stringifySetCookie } from "cookie";
import type { App } from "../../app.ts";
import { invalid } from "../../domain/kernel/errors.ts";
import { Reply } from "../route.ts";

/** With this prefix, browsers allow only this host to set the cookie, and only over TLS. */
export const cookieOf = ({ config }: App) => {
  const secure = config.publicUrl.startsWith("https:");
  const name = secure ? "__Host-laurel-oauth" : "laurel-oauth";
  const set = (value: string, maxAge: number): string =>
    stringifySetCookie({ name, value, maxAge, path: "/", httpOnly: true, secure, sameSite: "lax" });
  const read = (cookie: string): string | undefined => parseCookie(cookie)[name];
  return { read, set, clear: () => set("", 0) };
};

/** Keeps addresses with secrets out of caches and Referer headers. */
export const redirect = (location: string, cookie?: string): Reply<undefined> =>
  new Reply(302, undefined, {
    Location: location,
    "Cache-Control": "no-store",
    "Referrer-Policy": "no-referrer",
    ...(cookie === undefined ? {} : { "Set-Cookie": cookie }),
  });

/** @throws VALIDATION_ERROR for a repeated parameter */
export const answerOf = (query: Record<string, unknown>): URLSearchParams => {
  const answer = new URLSearchParams();
  for (const [name, value] of Object.entries(query)) {
    if (typeof value !== "string") throw invalid(name, "must be given once");
    answer.set(name, value);
  }
  return answer;
};
