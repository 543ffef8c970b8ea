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

type ListRow = { key: string; action: ListAction; match: ListMatch; words: string[] };

/**
 * The compiled word lists of a project, by one small statement in this transaction, and a second one after a
 * change: what was committed before the statement holds, in all processes.
 */
export const readFilter = async ({ db }: Work, projectId: string): Promise<WordFilter> => {
  const found = await sql<{ version: string | null }>`
    select string_agg(key || ':' || version, ' ' order by key) as version
    from chat_word_lists where project_id = ${projectId}`.execute(db);
  const version = found.rows[0]!.version;
  if (version === null) {
    forget(projectId);
    return NO_LISTS;
  }
  const known = kept.get(projectId);
  if (known?.version === version) {
    kept.delete(projectId);
    kept.set(projectId, known);
    return known;
  }
  return compileLists({ db }, projectId);
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
