import type { KeptAnswer } from "../domain/analytics/ask.ts";
import { BoardCache, type ListFacts } from "../domain/leaderboards/live-list.ts";
import type { RankedValues } from "../domain/leaderboards/value-ranks.ts";
import { createSizedCache, type OwnChanges, type ReadyJson, YoungCache } from "../domain/kernel/caches.ts";
import type { ChatHistory } from "../domain/social/chat/messages.ts";
import type { Metrics } from "../metrics.ts";

/** Maximum answers, and bytes of them, that a process keeps. */
const ANSWERS_KEPT = { items: 20_000, bytes: 32 * 1024 * 1024 };

/** As above, of analytics. */
const QUESTIONS_KEPT = { items: 2_000, bytes: 16 * 1024 * 1024 };

/** As above, of facts of lists. */
const LISTS_KEPT = { items: 10_000, bytes: 5 * 1024 * 1024 };

/** As above, of values of breakdowns in their order. */
const VALUES_KEPT = { items: 1_000, bytes: 8 * 1024 * 1024 };

/** As above, of the newest messages of channels. */
const HISTORIES_KEPT = { items: 1_000, bytes: 8 * 1024 * 1024 };

/** Creates what reads remember between requests, each bounded in bytes. */
export const createAnswerCaches = ({ cacheLookUps, watchCaches }: Metrics, changes: OwnChanges) => {
  const count = (cache: string, isHit: boolean): void =>
    cacheLookUps.inc({ cache, result: isHit ? "hit" : "miss" });
  const young = <T>(cache: string, kept: { items: number; bytes: number }): YoungCache<T> =>
    new YoungCache<T>({ ...kept, changes, onLookUp: (isHit) => count(cache, isHit) });
  const boards = new BoardCache(count);
  const listFacts = young<ListFacts | undefined>("lists", LISTS_KEPT);
  /** Values of breakdowns in their order, of which pages are cut. */
  const rankedValues = young<RankedValues>("values", VALUES_KEPT);
  /** Answers that are sent for a moment as they are. */
  const answers = young<ReadyJson>("answers", ANSWERS_KEPT);
  /** The newest messages of channels, as everybody sees them. */
  const chatHistories = young<ChatHistory>("chats", HISTORIES_KEPT);
  /** Answers of analytics, for as long as nothing has happened. */
  const questions = createSizedCache<KeptAnswer>(QUESTIONS_KEPT);
  watchCaches(() => ({
    sizes: {
      ...boards.sizes,
      lists: listFacts.size,
      values: rankedValues.size,
      answers: answers.size,
      questions: questions.size,
      chats: chatHistories.size,
    },
    ownEntries: changes.waiting,
  }));
  return { boards, listFacts, rankedValues, answers, questions, chatHistories };
};
