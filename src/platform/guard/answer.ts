import { RESPONSE_BODY_MAX } from "../../domain/delivery/webhooks/delivering/sender.ts";

/** An HTTP date, in the only form that may be sent today. */
const HTTP_DATE = /^(Mon|Tue|Wed|Thu|Fri|Sat|Sun), \d{2} [A-Z][a-z]{2} \d{4} \d{2}:\d{2}:\d{2} GMT$/;

/**
 * Returns the seconds from `nowMs` that Retry-After asks for, as a number or as a date; null for anything
 * else.
 */
export const retryAfterSeconds = (header: string | undefined, nowMs: number): number | null => {
  const text = header?.trim() ?? "";
  if (/^\d{1,9}$/.test(text)) return Number(text);
  const atMs = HTTP_DATE.test(text) ? Date.parse(text) : Number.NaN;
  return Number.isNaN(atMs) ? null : Math.max(0, Math.ceil((atMs - nowMs) / 1_000));
};

/**
 * Decodes a body, whatever its bytes are: at most RESPONSE_BODY_MAX bytes of UTF-8, without NUL, which
 * PostgreSQL does not store. A character split by the cut is omitted.
 */
export const bodyText = (parts: readonly Buffer[], isCut: boolean): string => {
  const decoder = new TextDecoder();
  const bytes = parts.length === 1 ? parts[0] : Buffer.concat(parts);
  const text = decoder.decode(bytes, { stream: isCut }).replaceAll("\0", "");
  // Replacing invalid UTF-8 makes the text longer.
  if (text.length * 3 <= RESPONSE_BODY_MAX || Buffer.byteLength(text) <= RESPONSE_BODY_MAX) return text;
  return new TextDecoder().decode(Buffer.from(text).subarray(0, RESPONSE_BODY_MAX), { stream: true });
};
