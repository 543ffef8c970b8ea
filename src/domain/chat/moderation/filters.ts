import { sql } from "kysely";
import type { Work } from "../../work.ts";
import { compileWords, type ListAction, type ListMatch, NO_LISTS, type WordFilter } from "./word-filter.ts";

/** Words of all filters that a process keeps compiled; some 300 bytes each. */
const KEPT_WORDS_MAX = 1_000_000;

const kept = new Map<string, WordFilter>();
let keptWords = 0;

/** The one that was used longest ago goes first. */
const keep = (projectId: string, filter: WordFilter): void => {
  forget(projectId);
  kept.set(projectId, filter);
  keptWords += filter.words;
  for (const oldest of kept.keys()) {
    if (keptWords <= KEPT_WORDS_MAX || oldest === projectId) break;
    forget(oldest);
  }
};

const forget = (projectId: string): void => {
  keptWords -= kept.get(projectId)?.words ?? 0;
  kept.delete(projectId);
};

/** The lists of a project as this process last knew them: a guess at what `readFilter` will find. */
export const guessFilter = (projectId: string): WordFilter => kept.get(projectId) ?? NO_LISTS;

type ListRow = { key: string; action: ListAction; match: ListMatch; words: string[] };

/** What a project's lists are like, in one value: null for a project without any. */
export const listsVersion = (projectId: string) => sql<string | null>`
  (select string_agg(key || ':' || version, ' ' order by key)
    from chat_word_lists where project_id = ${projectId})`;

/**
 * The compiled word lists of a project, by one small statement in this transaction, and a second one after a
 * change: what was committed before the statement holds, in all processes.
 */
export const readFilter = async ({ db }: Work, projectId: string): Promise<WordFilter> => {
  const found = await sql<{ version: string | null }>`
    select ${listsVersion(projectId)} as version`.execute(db);
  return filterOf({ db }, projectId, found.rows[0]!.version);
};

/** As `readFilter`, by the `listsVersion` that this transaction has read. */
export const filterOf = async (
  work: Pick<Work, "db">,
  projectId: string,
  version: string | null,
): Promise<WordFilter> => {
  if (version === null) {
    forget(projectId);
    return NO_LISTS;
  }
  const known = kept.get(projectId);
  if (known?.version !== version) return compileLists(work, projectId);
  kept.delete(projectId);
  kept.set(projectId, known);
  return known;
};

const compileLists = async ({ db }: Pick<Work, "db">, projectId: string): Promise<WordFilter> => {
  // The version is read again: a list may have changed since.
  const { rows } = await sql<ListRow & { version: string }>`
    select key, version, action, match, words from chat_word_lists
    where project_id = ${projectId} order by key`.execute(db);
  const filter = compileWords(
    rows.map(({ key, version }) => `${key}:${version}`).join(" "),
    rows.map(({ key, action, match, words }) => ({
      list: key,
      action,
      isStart: match === "WORD",
      isEnd: match === "WORD",
      words,
    })),
  );
  keep(projectId, filter);
  return filter;
};
