import { sql } from "kysely";
import { changeConfig } from "../../../kernel/config-lock.ts";
import { conflict, invalid, notFound } from "../../../kernel/errors.ts";
import { newId } from "../../../kernel/ids.ts";
import { mapInSlices } from "../../../kernel/slices.ts";
import type { Work } from "../../../kernel/work.ts";
import { auditModerator } from "./moderator.ts";
import { timeOf } from "./show-sanction.ts";
import { createTwinCheck, isComparable, TWINS_MAX } from "./compile-words.ts";
import type { ListAction, ListMatch } from "./word-filter.ts";

/** Maximum number of word lists of a project. */
export const WORD_LISTS_MAX = 50;
/** Maximum number of words of a list. */
export const LIST_WORDS_MAX = 5_000;

export type WordListInput = { action: ListAction; match: ListMatch; words: readonly string[] };

/** A list without its words. */
export type WordListSummary = {
  key: string;
  action: ListAction;
  match: ListMatch;
  wordCount: number;
  createdAt: string;
  updatedAt: string;
};

export type WordList = WordListSummary & { words: string[] };

type Row = {
  key: string;
  action: ListAction;
  match: ListMatch;
  word_count: string | number;
  words: string[];
  created_at: Date | string;
  updated_at: Date | string;
};

const show = (row: Row): WordListSummary => ({
  key: row.key,
  action: row.action,
  match: row.match,
  wordCount: Number(row.word_count),
  createdAt: timeOf(row.created_at),
  updatedAt: timeOf(row.updated_at),
});

/** Lists all word lists of a project by key, without their words. */
export const listWordLists = async ({ db }: Work, projectId: string): Promise<WordListSummary[]> => {
  const { rows } = await sql<Row>`
    select key, action, match, json_array_length(words) as word_count, created_at, updated_at
    from chat_word_lists where project_id = ${projectId} order by key`.execute(db);
  return rows.map(show);
};

/** @throws DomainError NOT_FOUND */
export const getWordList = async ({ db }: Work, projectId: string, key: string): Promise<WordList> => {
  const { rows } = await sql<Row>`
    select key, action, match, json_array_length(words) as word_count, words, created_at, updated_at
    from chat_word_lists where project_id = ${projectId} and key = ${key}`.execute(db);
  if (!rows[0]) throw notFound("word list");
  return { ...show(rows[0]), words: rows[0].words };
};

const TWINS_ADVICE = `is the ${TWINS_MAX + 1}th word of these letters that differs in doubled ones alone`;

const checkWords = async (words: readonly string[], action: ListAction): Promise<string[]> => {
  const bad = (await mapInSlices(words, isComparable)).indexOf(false);
  if (bad !== -1)
    throw invalid(`words.${bad}`, "must have a letter, a digit or a picture, and 64 letters at most");
  const twin = (await mapInSlices(words, createTwinCheck(action))).indexOf(true);
  if (twin !== -1) throw invalid(`words.${twin}`, TWINS_ADVICE);
  return [...new Set(words)];
};

/**
 * Creates or replaces a list. It applies to every message sent after the commit.
 * @throws DomainError VALIDATION_ERROR for a word that no text can contain, or with too many twins; CONFLICT
 * LIMIT_REACHED
 */
export const putWordList = async (
  work: Work,
  projectId: string,
  key: string,
  { action, match, words }: WordListInput,
): Promise<WordList> => {
  const checked = await checkWords(words, action);
  await changeConfig(work, projectId);
  const at = sql`${work.now.toISOString()}::timestamptz`;
  await sql`
    insert into chat_word_lists
      (project_id, key, action, match, words, version, created_at, updated_at)
    values (${projectId}, ${key}, ${action}, ${match}, ${JSON.stringify(checked)}::json, ${newId()}, ${at},
      ${at})
    on conflict (project_id, key) do update set action = excluded.action, match = excluded.match,
      words = excluded.words, version = excluded.version, updated_at = excluded.updated_at`.execute(work.db);
  const lists = await listWordLists(work, projectId);
  if (lists.length > WORD_LISTS_MAX)
    throw conflict("LIMIT_REACHED", `a project has at most ${WORD_LISTS_MAX} word lists`);
  const data = { key, listAction: action, match, words: checked.length };
  await auditModerator(work, { action: "chat_word_list.saved", projectId, id: key, data });
  return getWordList(work, projectId, key);
};

/** @throws DomainError NOT_FOUND */
export const deleteWordList = async (work: Work, projectId: string, key: string): Promise<void> => {
  await changeConfig(work, projectId);
  const { rows } = await sql`
    delete from chat_word_lists where project_id = ${projectId} and key = ${key} returning 1`.execute(
    work.db,
  );
  if (rows.length === 0) throw notFound("word list");
  await auditModerator(work, { action: "chat_word_list.deleted", projectId, id: key });
};
