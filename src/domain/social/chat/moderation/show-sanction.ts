import { z } from "zod";
import { type RawBuilder, sql } from "kysely";
import { audit } from "../../../accounts/audit/audit.ts";
import { actorOf } from "../../../kernel/caller.ts";
import { conflict, invalid, notFound } from "../../../kernel/errors.ts";
import {
  type ChatMessage,
  type Moderation,
  SANCTION_KINDS,
  type SanctionKind,
} from "../../../kernel/events/social-views.ts";
import { isId, newId } from "../../../kernel/ids.ts";
import { isoOf } from "../../../kernel/iso-time.ts";
import { type RowOf, shownRow } from "../../../kernel/json.ts";
import { offsetOf, orderBy, type Ordered, type PageQuery, type SortOf } from "../../../kernel/paging.ts";
import { mapInSlices } from "../../../kernel/slices.ts";
import { changeConfig, countRows, type Total, type Work } from "../../../kernel/work.ts";
import { isPlayer } from "../../../progression/players/players.ts";
import { admit, type Channel, type ChannelRef, type Viewer } from "../channel-row.ts";
import {
  isHidden,
  lockMessage,
  type MessageRow,
  ofMessage,
  publishToReaders,
  readRow,
  removeMessage,
  showMessage,
} from "../message-view.ts";
import { isInForce } from "./moderate.ts";
import {
  createTwinCheck,
  isComparable,
  LIST_ACTIONS,
  LIST_MATCHES,
  type ListAction,
  type ListMatch,
  TWINS_MAX,
} from "./word-filter.ts";
import { Person } from "../../../kernel/events/shapes.ts";

/** The kind of moderator, for `by` of `chat.message_moderated`. */
type Moderator = "MODERATOR" | "ADMIN";

const moderatorOf = ({ by }: Work): Moderator => (by?.caller.kind === "user" ? "ADMIN" : "MODERATOR");

/** Returns the actor's name, for `createdBy` and the like; `system` for the server's own actions. */
export const actorName = ({ by }: Work): string => (by ? actorOf(by.caller) : "system");

type ModeratorAct = {
  /** `noun.past_tense`; the noun is the type of the target. */
  action: string;
  projectId: string;
  id: string;
  data?: Record<string, unknown>;
};

/** Records a moderator's action, also one by an API key. The server's own actions are rows of their own. */
export const auditModerator = async (
  work: Work,
  { action, projectId, id, data }: ModeratorAct,
): Promise<void> => {
  const caller = work.by?.caller;
  if (caller?.kind !== "user" && caller?.kind !== "key") return;
  await audit(work, {
    action,
    target: { type: action.split(".", 1)[0]!, id },
    tenantId: caller.tenantId,
    data: { projectId, ...data },
  });
};

type ChannelKey = Pick<Channel, "projectId" | "id">;

/** Sees everything, without being the author of anything. */
const MODERATOR: Viewer = { playerId: null, isModerator: true };

/** Flag of a message that is held because of players' reports. */
const REPORTED_FLAG = "reports";

/** Holds a locked message that others can read; for them it disappears. */
export const holdMessage = async (work: Work, channel: ChannelKey, row: MessageRow): Promise<void> => {
  if (isHidden(row) || row.deleted_at !== null) return;
  const { seq } = row;
  const { rows } = await sql<{ flags: string[] }>`
    update chat_messages set moderation = 'HELD', flags = array_append(flags, ${REPORTED_FLAG})
    where ${ofMessage(channel, seq)} returning to_jsonb(flags) as flags`.execute(work.db);
  const moderated = { channelId: channel.id, seq, action: "HELD", by: "AUTO" } as const;
  work.emit(channel.projectId, "chat.message_moderated", { ...moderated, flags: rows[0]!.flags });
  const gone = { channelId: channel.id, seq, by: "MODERATOR" } as const;
  publishToReaders(work, channel, undefined, [{ name: "chat.deleted", data: gone }]);
};

/** Clears a message by a moderator; one that is deleted stays unchanged. @throws DomainError NOT_FOUND */
export const removeReported = async (work: Work, channel: ChannelKey, seq: number): Promise<void> => {
  const row = await lockModerated(work, channel, seq);
  if (row.deleted_at !== null) return;
  const lines = await removeMessage(work, channel, row, "MODERATOR");
  publishToReaders(work, channel, undefined, lines);
  emitModerated(work, channel, { seq, action: "REMOVED" });
};

/** Locks a message for a moderator. @throws DomainError NOT_FOUND */
const lockModerated = (work: Work, channel: ChannelKey, seq: number): Promise<MessageRow> =>
  lockMessage(work, channel, MODERATOR, seq);

type Moderated = { seq: number; action: "REMOVED" | "RESTORED" };

const emitModerated = (work: Work, { projectId, id }: ChannelKey, { seq, action }: Moderated): void => {
  const data = { channelId: id, seq, action, by: moderatorOf(work), flags: [] as string[] };
  work.emit(projectId, "chat.message_moderated", data);
};

type Restored = { content: string; moderation: Moderation };

/**
 * Releases a HELD message as others were to read it, or shows a MASKED one in its original form. A held
 * message that is masked too stays masked: restoring it again removes the mask.
 * @throws DomainError NOT_FOUND; CONFLICT INVALID_STATE when there is nothing to restore
 */
export const restoreMessage = async (work: Work, ref: ChannelRef, seq: number): Promise<ChatMessage> => {
  const { channel } = await admit(work, ref, { kind: "SERVER", isModerator: true });
  const row = await lockModerated(work, channel, seq);
  const isWaiting = row.moderation === "HELD" || row.moderation === "MASKED";
  if (row.deleted_at !== null || !isWaiting)
    throw conflict("INVALID_STATE", "only messages that are HELD or MASKED can be restored");
  const restored = await writeRestored(work, channel, row);
  emitModerated(work, channel, { seq, action: "RESTORED" });
  const line = { channelId: channel.id, seq, content: restored.content, editedAt: work.now.toISOString() };
  publishToReaders(work, channel, undefined, row.is_shadowed ? [] : [{ name: "chat.edited", data: line }]);
  const { projectId } = ref;
  const data = { channelId: channel.id, seq };
  await auditModerator(work, { action: "chat_message.restored", projectId, id: row.id, data });
  const shown = await readRow(work, channel, MODERATOR, seq);
  return showMessage(channel.id, shown!, MODERATOR);
};

const writeRestored = async (work: Work, channel: ChannelKey, row: MessageRow): Promise<Restored> => {
  const { seq } = row;
  // All texts before an edit are stored together, so the masked one cannot be recovered.
  if (row.moderation === "MASKED" && row.edited_at !== null)
    throw conflict("INVALID_STATE", "the message was edited since it was masked");
  const values =
    row.moderation === "MASKED"
      ? sql`content = coalesce(original, content), original = null, moderation = 'VISIBLE'`
      : sql`moderation = case when position('*' in content) > 0 and original is not null
          and edited_at is null then 'MASKED' else 'VISIBLE' end`;
  const { rows } = await sql<Restored>`
    update chat_messages set ${values} where ${ofMessage(channel, seq)}
    returning content, moderation`.execute(work.db);
  return rows[0]!;
};

export const APPEAL_STATUSES = ["OPEN", "ACCEPTED", "REJECTED"] as const;
export type AppealStatus = (typeof APPEAL_STATUSES)[number];

/** SQL: the Person with this id, given the alias of the joined player; null without an id. */
export const personOf = (id: RawBuilder<unknown>, player: string): RawBuilder<unknown> => sql`
  case when ${id} is not null then json_build_object('playerId', ${id},
    'externalUserId', coalesce(${sql.ref(`${player}.external_user_id`)}, ''),
    'displayName', ${sql.ref(`${player}.display_name`)}) end`;

/** A sanction as moderators see it. Times are ISO 8601. */
export const Sanction = z
  .object({
    id: z.uuid(),
    player: Person,
    kind: z.enum(SANCTION_KINDS),
    channelId: z.uuid().nullable().meta({ description: "null: in all channels of the project" }),
    reason: z.string(),
    isAutomatic: z.boolean(),
    isActive: z.boolean().meta({ description: "Neither revoked nor over" }),
    expiresAt: z.iso.datetime().nullable().meta({ description: "null: for good" }),
    createdBy: z.string(),
    createdAt: z.iso.datetime(),
    revokedAt: z.iso.datetime().nullable(),
    revokedBy: z.string().nullable(),
    appeal: z.object({ text: z.string(), status: z.enum(APPEAL_STATUSES), at: z.iso.datetime() }).nullable(),
  })
  .meta({ id: "ChatSanction" });
export type Sanction = z.output<typeof Sanction>;

type SanctionRow = Omit<RowOf<Sanction>, "isActive">;

/** The rows that `showSanction` takes: sanctions `s` with their players. */
const SANCTIONS = sql`
  select s.id, ${personOf(sql`s.player_id`, "p")} as player, s.kind, s.channel_id as "channelId", s.reason,
    s.is_automatic as "isAutomatic", s.expires_at as "expiresAt", s.created_by as "createdBy",
    s.created_at as "createdAt", s.revoked_at as "revokedAt", s.revoked_by as "revokedBy",
    case when s.appeal_status is not null then json_build_object('text', s.appeal, 'status', s.appeal_status,
      'at', s.appealed_at) end as appeal
  from chat_sanctions s left join players p on p.project_id = s.project_id and p.id = s.player_id`;

const showSanction = ({ appeal, ...row }: SanctionRow, now: Date): Sanction => ({
  ...shownRow<Omit<Sanction, "isActive" | "appeal">>(row),
  isActive: row.revokedAt === null && (row.expiresAt === null || row.expiresAt > now),
  appeal: appeal && { ...appeal, at: isoOf(appeal.at) },
});

/** Orders of the list. */
export const SANCTION_ORDERS = { by: { createdAt: sql`s.id` }, usual: "desc" } as const;

type SanctionQuery = PageQuery &
  Ordered<SortOf<typeof SANCTION_ORDERS>> & {
    /** A UUID, or `ext:` and the externalUserId. */
    playerId?: string | undefined;
    channelId?: string | undefined;
    kind?: SanctionKind | undefined;
    /** Those in force, or those that are not. */
    active?: boolean | undefined;
    appealStatus?: AppealStatus | undefined;
  };

const whereOf = async (work: Work, projectId: string, query: SanctionQuery): Promise<RawBuilder<unknown>> => {
  const { playerId, channelId, kind, active, appealStatus } = query;
  const parts = [
    sql`s.project_id = ${projectId}`,
    await isPlayer(work, projectId, sql`s.player_id`, playerId),
  ];
  if (channelId !== undefined) parts.push(sql`s.channel_id = ${channelId}::uuid`);
  if (kind !== undefined) parts.push(sql`s.kind = ${kind}`);
  if (active !== undefined) parts.push(sql`${active ? sql`` : sql`not`} ${isInForce(work.now)}`);
  if (appealStatus !== undefined) parts.push(sql`s.appeal_status = ${appealStatus}`);
  return sql.join(parts, sql` and `);
};

/** Lists a project's sanctions, newest first. @throws DomainError NOT_FOUND for an unknown player */
export const listSanctions = async (
  work: Work,
  projectId: string,
  query: SanctionQuery,
): Promise<Total & { sanctions: Sanction[] }> => {
  const where = await whereOf(work, projectId, query);
  const { rows } = await sql<SanctionRow>`
    ${SANCTIONS} where ${where} order by ${orderBy(SANCTION_ORDERS, query, sql`s.id`)}
    limit ${query.limit} offset ${offsetOf(query)}`.execute(work.db);
  const total = await countRows(work, sql`chat_sanctions s where ${where}`);
  return { sanctions: rows.map((row) => showSanction(row, work.now)), ...total };
};

/** @param lock what follows the condition: how the row is locked @throws DomainError NOT_FOUND */
export const getSanction = async (
  work: Work,
  projectId: string,
  id: string,
  lock = sql``,
): Promise<Sanction> => {
  if (!isId(id)) throw notFound("sanction");
  const { rows } = await sql<SanctionRow>`
    ${SANCTIONS} where s.project_id = ${projectId} and s.id = ${id} ${lock}`.execute(work.db);
  if (!rows[0]) throw notFound("sanction");
  return showSanction(rows[0], work.now);
};

/** Maximum number of word lists of a project. */
export const WORD_LISTS_MAX = 50;
/** Maximum number of words of a list. */
export const LIST_WORDS_MAX = 5_000;

type WordListInput = { action: ListAction; match: ListMatch; words: readonly string[] };

/** A list without its words. */
export const WordListSummary = z.object({
  key: z.string(),
  action: z.enum(LIST_ACTIONS),
  match: z.enum(LIST_MATCHES),
  wordCount: z.int(),
  createdAt: z.iso.datetime(),
  updatedAt: z.iso.datetime(),
});
export type WordListSummary = z.output<typeof WordListSummary>;

type WordList = WordListSummary & { words: string[] };

/** SQL: the fields of a WordListSummary. */
const SUMMARY = sql`key, action, match, json_array_length(words) as "wordCount", created_at as "createdAt",
  updated_at as "updatedAt"`;

/** Lists all word lists of a project by key, without their words. */
export const listWordLists = async ({ db }: Work, projectId: string): Promise<WordListSummary[]> => {
  const { rows } = await sql<RowOf<WordListSummary>>`
    select ${SUMMARY} from chat_word_lists where project_id = ${projectId} order by key`.execute(db);
  return rows.map((row) => shownRow(row));
};

/** @throws DomainError NOT_FOUND */
export const getWordList = async ({ db }: Work, projectId: string, key: string): Promise<WordList> => {
  const { rows } = await sql<RowOf<WordList>>`
    select ${SUMMARY}, words from chat_word_lists
    where project_id = ${projectId} and key = ${key}`.execute(db);
  if (!rows[0]) throw notFound("word list");
  return shownRow(rows[0]);
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
