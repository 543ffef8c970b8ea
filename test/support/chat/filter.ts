import type { ModerationContext } from "../../../src/domain/social/chat/moderation/moderate.ts";
import {
  compileWords,
  type ListAction,
  NO_LISTS,
  type WordFilter,
} from "../../../src/domain/social/chat/moderation/word-filter.ts";
import { settingsFor } from "../../../src/domain/social/chat/settings.ts";
import type { ChannelSettings } from "../../../src/domain/kernel/events/chat-views.ts";

export const NOW = new Date("2026-11-21T12:00:00Z");

type List = { action: ListAction; words: string[]; isWord?: boolean };

/** Lists of words, compiled; their names are list-0, list-1, and so on. */
export const filterOf = (...lists: List[]): WordFilter =>
  compileWords(
    "test",
    lists.map(({ action, words, isWord = true }, at) => ({
      list: `list-${at}`,
      action,
      isStart: isWord,
      isEnd: isWord,
      words,
    })),
  );

/** A player who may write, in a PROJECT channel. */
export const contextOf = (
  filter: WordFilter = NO_LISTS,
  settings: Partial<ChannelSettings> = {},
): ModerationContext => ({
  now: NOW,
  channel: {
    id: "c",
    kind: "PROJECT",
    status: "ACTIVE",
    settings: { ...settingsFor("PROJECT", {}), ...settings },
    readOnlyAt: null,
  },
  sender: { kind: "PLAYER", role: "MEMBER", isModerator: false, level: 5, createdAt: new Date(0) },
  sanctions: [],
  filter,
});
