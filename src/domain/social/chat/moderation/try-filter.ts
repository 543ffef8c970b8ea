import { nextSlice } from "../../../kernel/slices.ts";
import type { Work } from "../../../kernel/work.ts";
import { admit } from "../access.ts";
import { settingsFor } from "../settings.ts";
import { readFilter } from "./filters.ts";
import { moderate, type Verdict } from "./moderate.ts";
import { findForeignLink, findLinks } from "./links.ts";
import { screenWords, type WordMatch } from "./words.ts";

/** The moderation result of a text, and the rule behind it. */
export type Trial = {
  outcome: "VISIBLE" | "MASKED" | "HELD" | "BLOCKED";
  /** The text for other readers; null when it is blocked. */
  content: string | null;
  /** LINK_NOT_ALLOWED or MESSAGE_BLOCKED. */
  reason: string | null;
  flags: string[];
  words: WordMatch[];
  links: { host: string; domain: string | null }[];
};

/**
 * Moderates a text as of a player who may write, in a channel or, without one, in a PROJECT channel with its
 * defaults. Nothing is written.
 * @throws DomainError NOT_FOUND for an unknown channel
 */
export const tryFilter = async (
  work: Work,
  projectId: string,
  { text, channelId }: { text: string; channelId?: string | undefined },
): Promise<Trial> => {
  const settings =
    channelId === undefined
      ? settingsFor("PROJECT", {})
      : (await admit(work, { projectId, channelId }, { kind: "SERVER", isModerator: true })).channel.settings;
  const filter = await readFilter(work, projectId);
  const { now } = work;
  const verdict = moderate(
    {
      now,
      channel: { id: channelId ?? "", kind: "PROJECT", status: "ACTIVE", settings, readOnlyAt: null },
      sender: { kind: "PLAYER", role: "OWNER", isModerator: true, level: 0, createdAt: now },
      sanctions: [],
      filter,
    },
    text,
  );
  const foreign =
    settings.links === "ALLOW_LIST" ? findForeignLink(text, settings.allowedDomains) : undefined;
  // Its words are searched once more.
  await nextSlice();
  const links = settings.links === "ALLOW" ? [] : foreign ? [foreign] : findLinks(text);
  return {
    ...outcomeOf(verdict),
    words: screenWords(filter, settings.profanity, text).matches,
    links: links.map(({ host, domain }) => ({ host, domain })),
  };
};

const outcomeOf = (verdict: Verdict): Pick<Trial, "outcome" | "content" | "reason" | "flags"> => {
  if ("error" in verdict)
    return { outcome: "BLOCKED", content: null, reason: verdict.error.reason ?? null, flags: [] };
  const { outcome, content, flags } = verdict;
  return { outcome, content, reason: null, flags };
};
