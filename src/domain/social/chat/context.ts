import { type RawBuilder, sql } from "kysely";
import { notFound } from "../../kernel/errors.ts";
import { isAwaited } from "../../kernel/events/awaited.ts";
import type { Work } from "../../kernel/work.ts";
import { kept, unansweredKept } from "../../kernel/statements.ts";
import { type Channel, channelOf, type ChannelRef, type ChannelRow, foundOrGlobal } from "./channel-row.ts";
import { listsVersion } from "./moderation/filters.ts";
import type { ActiveSanction } from "./moderation/moderate.ts";
import { sanctionsByPlayer, sanctionsOf, type SanctionRow } from "./moderation/sanctions.ts";
import type { ChatRole, Notify } from "../../kernel/events/chat-views.ts";

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
      select id, kind, key, name, lobby_id, settings, status, last_seq, read_only_at, created_at
      from chat_channels where project_id = ${ref.projectId} and id = ${ref.channelId}),
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
