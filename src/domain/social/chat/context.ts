import { type RawBuilder, sql } from "kysely";
import { conflict, type DomainError, forbidden, invalid, notFound } from "../../kernel/errors.ts";
import {
  type ChannelSettings,
  type ChatActor,
  type ChatRole,
  CONTENT_MAX,
  type Notify,
} from "../../kernel/events/social-views.ts";
import { isAwaited } from "../../kernel/events/event-types.ts";
import { kept, unansweredKept } from "../../kernel/statements.ts";
import type { Work } from "../../kernel/work.ts";
import {
  type Channel,
  CHANNEL_COLUMNS,
  channelOf,
  type ChannelRef,
  type ChannelRow,
  foundOrGlobal,
  isMember,
  mayModerate,
} from "./channel-row.ts";
import { filterOf, guessFilter, listsVersion } from "./moderation/filters.ts";
import {
  type ActiveSanction,
  moderate,
  type ModerationContext,
  type SanctionRow,
  sanctionsByPlayer,
  sanctionsOf,
  type Screening,
  screenText,
  type Verdict,
} from "./moderation/moderate.ts";

/** A player who sends. */
export type ContextSender = {
  id: string;
  externalUserId: string;
  displayName: string | null;
  status: string;
  level: number;
  createdAt: string;
  role: ChatRole | null;
  isListed: boolean;
  isInLobby: boolean;
};

/** A player of the channel who may be mentioned. */
export type ContextPerson = { id: string; externalUserId: string; notify: Notify | null };

/** Everything that decides about a group of sends. */
export type ChatContext = {
  channel: Channel;
  senders: ReadonlyMap<string, ContextSender>;
  /** Maps `clientKey` to the seq of its message. */
  known: ReadonlyMap<string, number>;
  /** Existing seqs among those replied to. */
  replies: ReadonlySet<number>;
  people: readonly ContextPerson[];
  /** Whether the project allows direct messages. */
  isDirectAllowed: boolean;
  /** Of the senders. */
  sanctions: ReadonlyMap<string, ActiveSanction[]>;
  /** Version of the project's word lists, for `filterOf`. */
  listsVersion: string | null;
  /** Whether a webhook or a reader of the feed waits for messages. */
  isAwaited: boolean;
  row: ContextRow;
};

/** Parameters of a context. */
export type ContextQuestion = {
  senders: readonly { playerId: string | null; clientMsgId: string | undefined }[];
  replies: readonly number[];
  mentionedIds: readonly string[];
  mentionedNames: readonly string[];
};

/** Unique key of a send, as in the column of that name. */
export const clientKey = (channelId: string, playerId: string | null, clientMsgId: string): string =>
  `${channelId.toLowerCase()}${playerId ?? ""}${clientMsgId}`;

/** A context as it is read: values of JSON. */
export type ContextRow = {
  channel: ChannelRow | null;
  is_locked: boolean | null;
  senders: ContextSender[];
  known: { k: string; seq: number }[];
  replies: number[];
  people: ContextPerson[];
  direct_policy: string | null;
  sanctions: SanctionRow[];
  lists_version: string | null;
  is_awaited: boolean;
};

const NOTHING = sql`'[]'::json`;

/** Aggregates the rows of one branch to a single value. */
const all = (value: RawBuilder<unknown>, from: RawBuilder<unknown>, order = sql``) =>
  sql`(select coalesce(json_agg(${value} ${order}), '[]') from ${from})`;

/** Standing of the player `p` in the channel. */
const standing = ({ projectId, channelId }: ChannelRef) => sql`
  left join chat_members m on m.project_id = ${projectId} and m.channel_id = ${channelId}
    and m.player_id = p.id
  left join lobby_members l on l.project_id = ${projectId} and l.lobby_id = (select lobby_id from c)
    and l.player_id = p.id and l.is_active`;

const sendersArm = (ref: ChannelRef) =>
  all(
    sql`json_build_object('id', p.id, 'externalUserId', p.external_user_id, 'displayName', p.display_name,
      'status', p.status, 'level', p.level, 'createdAt', p.created_at, 'role', m.role,
      'isListed', m.player_id is not null and m.left_at is null, 'isInLobby', l.player_id is not null)`,
    sql`(select distinct p as id from s where p is not null) i
      join players p on p.project_id = ${ref.projectId} and p.id = i.id ${standing(ref)}`,
    sql`order by p.id`,
  );

/** One look-up in the index of client keys per send: `limit` keeps the planner from any other plan. */
const knownArm = ({ projectId }: ChannelRef) =>
  all(
    sql`json_build_object('k', s.k, 'seq', x.seq)`,
    sql`s cross join lateral (
      select x.seq from chat_messages x
      where x.project_id = ${projectId} and x.client_key = s.k limit 1) x where s.k is not null`,
  );

const repliesArm = ({ projectId, channelId }: ChannelRef, seqs: readonly number[]) =>
  seqs.length === 0
    ? NOTHING
    : all(
        sql`x.seq`,
        sql`chat_messages x where x.project_id = ${projectId} and x.channel_id = ${channelId}
          and x.seq = any(${`{${seqs.join(",")}}`}::bigint[])`,
      );

/** Players of the channel by id or external id, each through its index. */
const peopleArm = (ref: ChannelRef, { mentionedIds, mentionedNames }: ContextQuestion) => {
  if (mentionedIds.length + mentionedNames.length === 0) return NOTHING;
  const { projectId } = ref;
  const member = sql`case (select kind from c) when 'PROJECT' then true
    when 'LOBBY' then l.player_id is not null else m.player_id is not null and m.left_at is null end`;
  return all(
    sql`json_build_object('id', p.id, 'externalUserId', p.external_user_id, 'notify', m.notify)`,
    sql`(select id, external_user_id from players
        where project_id = ${projectId} and status = 'ACTIVE'
          and id = any(${`{${mentionedIds.join(",")}}`}::uuid[])
      union
      select id, external_user_id from players
        where project_id = ${projectId} and status = 'ACTIVE' and external_user_id = any(array(
          select json_array_elements_text(${JSON.stringify(mentionedNames)}::json)))) p
      ${standing(ref)} where ${member}`,
  );
};

const policyArm = ({ projectId }: ChannelRef) => sql`
  (select settings->'chat'->>'directPolicy' from projects
    where id = ${projectId} and (select kind from c) = 'DIRECT')`;

const sanctionsArm = ({ projectId, channelId }: ChannelRef, now: Date) => {
  const senders = sql`array(select distinct p from s where p is not null)`;
  return all(sql`row_to_json(x)`, sql`(${sanctionsOf(senders, { projectId, channelId, now })}) x`);
};

/** The channel whose row this transaction has locked. */
const LOCKED = sql.lit("laurel.locked_channel");

/** SQL: `with` the channel and the senders, of which `contextFields` are. */
export const contextParts = (ref: ChannelRef, { senders }: ContextQuestion): RawBuilder<unknown> => {
  const asked = senders.map(({ playerId, clientMsgId }) => ({
    p: playerId,
    k: clientMsgId === undefined ? null : clientKey(ref.channelId, playerId, clientMsgId),
  }));
  return sql`
    c as materialized (
      select ${CHANNEL_COLUMNS} from chat_channels c
      where project_id = ${ref.projectId} and id = ${ref.channelId}),
    s as materialized (
      select distinct s.p, s.k from json_to_recordset(${JSON.stringify(asked)}::json) as s(p uuid, k text))`;
};

/** SQL: the fields of a ContextRow, however many sends there are; `channel` is null for an unknown one. */
export const contextFields = (ref: ChannelRef, question: ContextQuestion, now: Date): RawBuilder<unknown> =>
  sql`
    (select row_to_json(c) from c) as channel,
    current_setting(${LOCKED}, true) = (select id::text from c) as is_locked,
    ${sendersArm(ref)} as senders, ${knownArm(ref)} as known,
    ${repliesArm(ref, question.replies)} as replies, ${peopleArm(ref, question)} as people,
    ${policyArm(ref)} as direct_policy, ${sanctionsArm(ref, now)} as sanctions,
    ${listsVersion(ref.projectId)} as lists_version,
    ${isAwaited(ref.projectId, "chat.message_sent", now)} as is_awaited`;

const readRow = async (
  { db, now }: Work,
  ref: ChannelRef,
  question: ContextQuestion,
): Promise<ContextRow | undefined> => {
  const found = await kept(
    db,
    sql<ContextRow>`
    with ${contextParts(ref, question)} select ${contextFields(ref, question, now)}`,
  );
  const row = found.rows[0]!;
  return row.channel === null ? undefined : row;
};

/** Returns the context of a row whose channel exists. */
export const contextOf = (projectId: string, row: ContextRow): ChatContext => ({
  channel: channelOf(projectId, row.channel!),
  senders: new Map(row.senders.map((sender) => [sender.id, sender])),
  known: new Map(row.known.map(({ k, seq }) => [k, seq])),
  replies: new Set(row.replies),
  people: row.people,
  isDirectAllowed: row.direct_policy !== "OFF",
  sanctions: sanctionsByPlayer(row.sanctions),
  listsVersion: row.lists_version,
  isAwaited: row.is_awaited,
  row,
});

/** Reads the current context, without a lock. @throws DomainError NOT_FOUND */
export const readContext = async (
  work: Work,
  ref: ChannelRef,
  question: ContextQuestion,
): Promise<ChatContext> => {
  const row = await readRow(work, ref, question);
  if (!row) throw notFound("channel");
  return contextOf(ref.projectId, row);
};

/** SQL: locks the channel's row until the transaction ends. */
export const lockForSends = ({ projectId, channelId }: ChannelRef): RawBuilder<unknown> => sql`
  select set_config(${LOCKED}, id::text, true) from chat_channels
  where project_id = ${projectId} and id = ${channelId} for update`;

/** Both statements are sent at once; the second sees what was committed before the first had the lock. */
const lockRow = async (
  work: Work,
  ref: ChannelRef,
  question: ContextQuestion,
): Promise<ContextRow | undefined> => {
  await unansweredKept(work.db, lockForSends(ref));
  return readRow(work, ref, question);
};

/**
 * Locks the channel's row until commit, and reads the context under that lock.
 * @throws DomainError NOT_FOUND
 */
export const lockContext = async (
  work: Work,
  ref: ChannelRef,
  question: ContextQuestion,
): Promise<ChatContext> => {
  const row = await foundOrGlobal(work, ref, async () => {
    const found = await lockRow(work, ref, question);
    // A channel created between the two statements could not be locked.
    return found && found.is_locked !== true ? lockRow(work, ref, question) : found;
  });
  return contextOf(ref.projectId, row);
};

/**
 * Invisible characters that only confuse: control characters except the line feed, and marks that reverse the
 * direction of the following text.
 */
const CONTROLS = /[\p{Cc}\u202a-\u202e\u2066-\u2069\ufeff]/gu;
/** Maximum code points of an emoji that are examined: far more than the longest has. */
export const EMOJI_MAX = 32;

const clean = (text: string): string =>
  text
    .normalize("NFC")
    .replace(CONTROLS, (mark) => (mark === "\n" ? mark : ""))
    .trim();

/** @throws DomainError VALIDATION_ERROR for half of a surrogate pair */
const checkWellFormed = (field: string, text: string): void => {
  if (!text.isWellFormed()) throw invalid(field, "contains half of a surrogate pair");
};

/**
 * Returns the text of a message in its stored form: NFC, without control characters, trimmed.
 * @throws DomainError VALIDATION_ERROR when nothing is left, or more than `maxLength` code points
 */
const readContent = (text: string, maxLength: number): string => {
  checkWellFormed("content", text);
  const content = clean(text);
  if (content === "") throw invalid("content", "must not be empty");
  // There are never fewer UTF-16 units than code points, so most texts need not be counted.
  if (content.length > maxLength && [...content].length > maxLength)
    throw invalid("content", `must be at most ${maxLength} characters`);
  return content;
};

/** @throws DomainError VALIDATION_ERROR */
export const readEmoji = (text: string): string => {
  checkWellFormed("emoji", text);
  const emoji = clean(text);
  if (emoji === "" || emoji.length > EMOJI_MAX || /\s/.test(emoji))
    throw invalid("emoji", `must be 1 to ${EMOJI_MAX} characters without spaces`);
  return emoji;
};

/** `@name`, not inside a word such as an address; trailing punctuation belongs to the sentence. */
const NAMED = /(?<![\p{L}\p{N}_])@([\p{L}\p{N}_](?:[\p{L}\p{N}_.:-]{0,253}[\p{L}\p{N}_])?)/gu;
const EVERYONE = "everyone";

/** Returns the external ids mentioned in a text, each once; `@everyone` is not included. */
export const namesIn = (content: string): string[] => {
  if (!content.includes("@")) return [];
  const names = new Set([...content.matchAll(NAMED)].map(([, name]) => name!));
  names.delete(EVERYONE);
  return [...names];
};

export const namesEveryone = (content: string): boolean =>
  content.includes("@") && [...content.matchAll(NAMED)].some(([, name]) => name === EVERYONE);

/** Replaces the mentions of some names in a text: `@ann` becomes `@${name}`. */
export const renameIn = (content: string, isOne: (name: string) => boolean, name: string): string =>
  content.replace(NAMED, (mention, named: string) => (isOne(named) ? `@${name}` : mention));

/** Everything that texts of one channel are moderated by, read once for a group. */
export type ModerationScope = {
  now: Date;
  channel: Channel;
  sanctions: ReadonlyMap<string, ModerationContext["sanctions"]>;
  filter: ModerationContext["filter"];
};

/**
 * Uses what was read for the context; needs no statement.
 * @throws FilterUnready after a change of the project's word lists
 */
export const openModeration = async (
  work: Work,
  { channel, sanctions, listsVersion: version }: Pick<ChatContext, "channel" | "sanctions" | "listsVersion">,
): Promise<ModerationScope> => ({
  now: work.now,
  channel,
  sanctions,
  filter: await filterOf(work, channel.projectId, version),
});

/** The author; `sender` for a player. */
export type Author = { actor: ChatActor; sender: ContextSender | undefined };

const moderationContext = (scope: ModerationScope, { actor, sender }: Author): ModerationContext => {
  const { now, channel, sanctions, filter } = scope;
  const readOnlyAt = channel.closedMs === null ? null : new Date(channel.closedMs);
  return {
    now,
    channel: { ...channel, readOnlyAt },
    sender: {
      kind: actor.kind,
      role: sender?.role ?? "MEMBER",
      isModerator: mayModerate(actor),
      level: sender?.level ?? 0,
      createdAt: sender ? new Date(sender.createdAt) : now,
    },
    sanctions: (sender && sanctions.get(sender.id)) ?? [],
    filter,
  };
};

/** @throws DomainError NOT_FOUND for a player outside the channel, CONFLICT PLAYER_INACTIVE */
export const checkAuthor = ({ channel, now }: ModerationScope, { actor, sender }: Author): void => {
  if (channel.status === "ARCHIVED") throw forbidden("CHANNEL_RESTRICTED", "the channel is archived");
  if (actor.kind !== "PLAYER") return;
  if (!sender) throw notFound("player");
  if (sender.status !== "ACTIVE") throw conflict("PLAYER_INACTIVE", `the player is ${sender.status}`);
  const { kind, closedMs } = channel;
  if (!isMember({ kind, closedMs, ...sender }, now.getTime())) throw notFound("channel");
};

/** A verdict that accepts the text. */
export type Passed = Exclude<Verdict, { error: DomainError }>;

/**
 * Cleans a text and moderates it. Servers may use all of CONTENT_MAX. `ahead` is of `prepareText`.
 * @throws DomainError VALIDATION_ERROR, and the error of a refusing verdict
 */
export const passText = (
  scope: ModerationScope,
  author: Author,
  text: string,
  ahead?: Screening,
): Passed & { text: string } => {
  const isServer = author.actor.kind !== "PLAYER";
  const content = readContent(text, isServer ? CONTENT_MAX : scope.channel.settings.maxLength);
  const verdict = moderate(moderationContext(scope, author), content, ahead);
  if ("error" in verdict) throw verdict.error;
  return { ...verdict, text: content };
};

/**
 * Performs part of `passText` before the transaction, so that its CPU is not spent while the channel is
 * locked. Returns undefined, and never throws, for an invalid text, which is refused when it is sent.
 */
export const prepareText = (
  projectId: string,
  { profanity, maxLength }: Pick<ChannelSettings, "profanity" | "maxLength">,
  text: string,
): Screening | undefined => {
  let content: string;
  try {
    content = readContent(text, maxLength);
  } catch {
    return undefined;
  }
  return screenText(guessFilter(projectId), profanity, content);
};
