import { createHash } from "node:crypto";
import { type DomainError, invalid } from "../../../kernel/errors.ts";
import type { Bucket, Count } from "../../../accounts/rate-limits/limiter.ts";
import { essenceOf } from "./runs.ts";

/**
 * Limit for one player's repetitions of a text, however it is written: twice in a minute, in all channels
 * together.
 */
export const REPEATS: Bucket = { name: "chat-repeats", points: 2, seconds: 60 };

/** Maximum number of people named in one message; more is spam. */
export const MENTIONS_MAX = 10;

/**
 * Returns the count of a player's repeated text. Exceeding it is refused with 429 SPAM; checked outside of
 * any transaction.
 */
export const repeatCount = (projectId: string, playerId: string, content: string): Count => {
  const essence = essenceOf(content) || content.trim();
  const mark = createHash("sha256").update(essence).digest("base64url").slice(0, 22);
  return { bucket: REPEATS, key: `${projectId}:${playerId}:${mark}` };
};

const NAMED = /(?:^|\s)@\S/gu;

/** Refuses a text that names too many people, in words or in its list of mentions. */
export const refuseMentions = (
  content: string,
  mentions: readonly string[] = [],
): DomainError | undefined => {
  const named = Math.max(new Set(mentions).size, content.match(NAMED)?.length ?? 0);
  if (named <= MENTIONS_MAX) return undefined;
  return invalid("content", `may mention at most ${MENTIONS_MAX} players`, "SPAM");
};
