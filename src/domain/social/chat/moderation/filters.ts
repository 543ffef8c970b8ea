import { z } from "zod";
import { sql } from "kysely";
import { createSizedCache } from "../../../kernel/caches.ts";
import { joinFlight } from "../../../kernel/flights.ts";
import { inSlices, nextSlice } from "../../../kernel/slices.ts";
import { retainedKey, type Transact, Unprepared, type Work } from "../../../kernel/work.ts";
import { admit } from "../channel-row.ts";
import { findForeignLink, findLinks, screenWords } from "./built-in-words.ts";
import { moderate, type Verdict } from "./moderate.ts";
import {
  type CompiledList,
  compileList,
  joinLists,
  type ListAction,
  type ListMatch,
  NO_LISTS,
  type WordFilter,
} from "./word-filter.ts";
import { settingsFor } from "../settings.ts";
import { createHash } from "node:crypto";
import { type DomainError, invalid } from "../../../kernel/errors.ts";
import type { Bucket, Count } from "../../../accounts/rate-limits/limiter.ts";
import { essenceOf } from "./runs.ts";

/**
 * Limit for one player's repetitions of a text, however it is written: twice in a minute, in all channels
 * together.
 */
const REPEATS: Bucket = { name: "chat-repeats", points: 2, seconds: 60 };

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

const MIB = 1024 * 1024;
/** Maximum memory of all compiled filters of a process, each including that of its lists. */
const FILTERS_BYTES_MAX = 320 * MIB;
/** Maximum memory of all lists that are kept beside the filters made of them. */
const LISTS_BYTES_MAX = 192 * MIB;
const KEPT_MAX = 10_000;

/** Filters by project; each has its version. */
const kept = createSizedCache<WordFilter>({ items: KEPT_MAX, bytes: FILTERS_BYTES_MAX });

/** Lists by project, key and version: after a change of one list the others need not be compiled again. */
const keptLists = createSizedCache<CompiledList>({ items: KEPT_MAX, bytes: LISTS_BYTES_MAX });

/** Attributes cached memory to its project. */
const sizeOf = (owner: string, { bytes }: { bytes: number }) => ({ owner, bytes });

/** Returns the lists of a project as this process last knew them: a guess at what `readFilter` will find. */
export const guessFilter = (projectId: string): WordFilter => kept.get(projectId) ?? NO_LISTS;

/** Returns the filter of a version of a project's lists, if this process has it. */
export const knownFilter = (projectId: string, version: string | null): WordFilter | undefined => {
  if (version === null) return NO_LISTS;
  const known = kept.get(projectId);
  return known?.version === version ? known : undefined;
};

type ListHead = { key: string; version: string };
type ListRow = ListHead & { action: ListAction; match: ListMatch; words: string[] };

/** Combined version of a project's lists: null for a project without any. */
export const listsVersion = (projectId: string) => sql<string | null>`
  (select string_agg(key || ':' || version, ' ' order by key)
    from chat_word_lists where project_id = ${projectId})`;

const readVersion = async ({ db }: Pick<Work, "db">, projectId: string): Promise<string | null> => {
  const found = await sql<{ version: string | null }>`
    select ${listsVersion(projectId)} as version`.execute(db);
  return found.rows[0]!.version;
};

/** Reads from the database, in a transaction each or in the existing one. */
type Read = <T>(run: (work: Pick<Work, "db">) => Promise<T>) => Promise<T>;

const readHeads = (read: Read, projectId: string): Promise<ListHead[]> =>
  read(async ({ db }) => {
    const { rows } = await sql<ListHead>`
      select key, version from chat_word_lists where project_id = ${projectId} order by key`.execute(db);
    return rows;
  });

const readList = (read: Read, projectId: string, key: string): Promise<ListRow | undefined> =>
  read(async ({ db }) => {
    const { rows } = await sql<ListRow>`
      select key, version, action, match, words from chat_word_lists
      where project_id = ${projectId} and key = ${key}`.execute(db);
    return rows[0];
  });

type VersionedList = { name: string; list: CompiledList };

const nameOf = ({ key, version }: ListHead): string => `${key}:${version}`;

/** Compiles the current version, which may be a newer one; undefined when it is deleted. */
const compiledList = async (
  read: Read,
  projectId: string,
  head: ListHead,
): Promise<VersionedList | undefined> => {
  const cacheKey = (one: ListHead): string => `${projectId}:${nameOf(one)}`;
  const known = keptLists.get(cacheKey(head));
  if (known) return { name: nameOf(head), list: known };
  const row = await readList(read, projectId, head.key);
  if (!row) return undefined;
  const { key, action, match, words } = row;
  const isWord = match === "WORD";
  const list = await inSlices(compileList({ list: key, action, isStart: isWord, isEnd: isWord, words }));
  return { name: nameOf(row), list: keptLists.keep(cacheKey(row), list, sizeOf(projectId, list)) };
};

/** Compiles uncached lists of a project, in slices, and caches the result. */
const compileFilter = async (read: Read, projectId: string): Promise<WordFilter> => {
  const lists: VersionedList[] = [];
  for (const head of await readHeads(read, projectId)) {
    const list = await compiledList(read, projectId, head);
    if (list) lists.push(list);
  }
  const version = lists.map(({ name }) => name).join(" ");
  const filter = await inSlices(
    joinLists(
      version,
      lists.map(({ list }) => list),
    ),
  );
  return kept.keep(projectId, filter, sizeOf(projectId, filter));
};

const compiling = new Map<string, Promise<unknown>>();

/**
 * Compiles the lists of a project before a transaction that needs them, so that none is open meanwhile: a
 * hundred thousand words take a second. Concurrent callers share the compilation.
 */
export const prepareFilter = async (
  { transact }: { transact: Transact },
  projectId: string,
): Promise<void> => {
  const version = await transact((work) => readVersion(work, projectId));
  if (knownFilter(projectId, version)) return;
  await joinFlight<unknown>(compiling, projectId, () => compileFilter(transact, projectId));
};

/** Whether lists were compiled for the transaction, in case they have changed again before its retry. */
const COMPILED = retainedKey("word lists were compiled", () => false);

/** Thrown when a project's lists are not compiled, so that no channel is locked meanwhile. */
class FilterUnready extends Unprepared {
  readonly #projectId: string;
  readonly #retained: Work["retained"];

  constructor(projectId: string, retained: Work["retained"]) {
    super("the word lists of a project are not compiled");
    this.#projectId = projectId;
    this.#retained = retained;
  }

  override async prepare(transact: Transact): Promise<void> {
    await prepareFilter({ transact }, this.#projectId);
    this.#retained.set(COMPILED, true);
  }
}

/**
 * Returns the compiled word lists of a project, with one small statement in this transaction: everything
 * committed before the statement applies, in all processes. @throws FilterUnready as `filterOf` does
 */
const readFilter = async (work: Work, projectId: string): Promise<WordFilter> =>
  filterOf(work, projectId, await readVersion(work, projectId));

/**
 * As `readFilter`, given the `listsVersion` that this transaction has read. Lists that have changed again
 * since they were compiled for it are compiled in the transaction, in slices.
 * @throws FilterUnready, once in a transaction
 */
export const filterOf = async (
  work: Pick<Work, "db" | "retained">,
  projectId: string,
  version: string | null,
): Promise<WordFilter> => {
  if (version === null) kept.drop(projectId);
  const known = knownFilter(projectId, version);
  if (known) return known;
  if (!work.retained.get(COMPILED)) throw new FilterUnready(projectId, work.retained);
  return compileFilter((run) => run(work), projectId);
};

/** The moderation result of a text, and the rule behind it. */
export const Trial = z
  .object({
    outcome: z.enum(["VISIBLE", "MASKED", "HELD", "BLOCKED"]),
    content: z.string().nullable().meta({ description: "As others would read it; null: blocked" }),
    reason: z.string().nullable().meta({ description: "LINK_NOT_ALLOWED or MESSAGE_BLOCKED" }),
    flags: z.array(z.string()),
    words: z
      .array(
        z.object({
          list: z.string().meta({
            description: "@en is the built-in list, @unread stands for text that takes too long to search",
          }),
          word: z.string(),
          action: z.enum(["MASK", "BLOCK", "HOLD"]),
          start: z.int().meta({ description: "In UTF-16 units of the text" }),
          end: z.int().meta({ description: "Exclusive" }),
        }),
      )
      .meta({ description: "The rules that matched, and where: of a list the longest at each place" }),
    links: z
      .array(z.object({ host: z.string(), domain: z.string().nullable() }))
      .meta({ description: "Where links are not all allowed: those that were found" }),
  })
  .meta({ id: "ChatFilterTrial" });
export type Trial = z.output<typeof Trial>;

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
