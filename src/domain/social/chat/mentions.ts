import { sql } from "kysely";
import { type NewMessage, sendMessage } from "../../evaluation/inbox/send.ts";
import { invalid } from "../../kernel/errors.ts";
import type { ChatMessage, ChatSend } from "../../kernel/events/social-views.ts";
import { NIL_ID } from "../../kernel/ids.ts";
import { shareConfig, type Work } from "../../kernel/work.ts";
import { changePlayers } from "../../progression/change.ts";
import { type Channel, isPrivate } from "./channel-row.ts";
import { type ChatContext, type ContextPerson, type ContextQuestion, namesIn, renameIn } from "./context.ts";
import { MENTIONS_MAX, refuseMentions } from "./moderation/filters.ts";

/** Type of inbox messages about mentions. */
const MENTION_TYPE = "chat-mention";

/**
 * Returns the names mentioned in a text; with one too many the message is refused before any is looked up.
 */
export const mentionedIn = (text: string): string[] => namesIn(text).slice(0, MENTIONS_MAX + 1);

/**
 * Locks the players whom sends may mention, before the channel is locked: all transactions lock definitions,
 * players, channel in this order, for example when a player leaves a lobby whose channel then closes.
 * @returns their ids; no other player may be notified in this transaction
 */
export const lockMentioned = async (
  work: Work,
  projectId: string,
  { mentionedIds, mentionedNames }: Pick<ContextQuestion, "mentionedIds" | "mentionedNames">,
): Promise<ReadonlySet<string>> => {
  if (mentionedIds.length + mentionedNames.length === 0) return new Set();
  await shareConfig(work, [projectId]);
  const found = await sql<{ id: string }>`
    select id from players where project_id = ${projectId} and id in (
      select id from players where project_id = ${projectId}
        and id = any(${`{${mentionedIds.join(",")}}`}::uuid[])
      union
      select id from players where project_id = ${projectId} and external_user_id = any(array(
        select json_array_elements_text(${JSON.stringify(mentionedNames)}::json))))
    order by project_id, id for update`.execute(work.db);
  return new Set(found.rows.map(({ id }) => id));
};

/**
 * Resolves the mentioned members of the channel, by id or `@externalUserId`. Unknown ones are ignored.
 * @throws DomainError VALIDATION_ERROR SPAM for more than MENTIONS_MAX
 */
export const resolveMentions = (
  { people }: Pick<ChatContext, "people">,
  channel: Channel,
  { content, mentions = [] }: Pick<ChatSend, "content" | "mentions">,
): ContextPerson[] => {
  const refusal = refuseMentions(content, mentions);
  if (refusal) throw refusal;
  const names = new Set(namesIn(content));
  const ids = new Set(mentions.map((id) => id.toLowerCase()));
  if (channel.settings.mentions === "OFF") return [];
  const found = people.filter(({ id, externalUserId }) => ids.has(id) || names.has(externalUserId));
  if (found.length > MENTIONS_MAX) throw invalid("mentions", `must be at most ${MENTIONS_MAX}`, "SPAM");
  return found;
};

/** A message with those mentioned players who want to be notified. */
type Mentioning = { message: ChatMessage; people: readonly ContextPerson[] };

/** Creates inbox messages for the mentioned players, all in one batch. */
export const notifyMentioned = async (
  work: Work,
  channel: Channel,
  { mentionings, locked }: { mentionings: readonly Mentioning[]; locked: ReadonlySet<string> },
): Promise<void> => {
  const notified = mentionings.flatMap(({ message, people }) =>
    people
      .filter(({ id, notify }) => notify !== "NONE" && id !== message.sender?.playerId && locked.has(id))
      .map(({ id }) => ({ id, message })),
  );
  if (notified.length === 0) return;
  const byPlayer = Map.groupBy(notified, ({ id }) => id);
  await changePlayers(work, channel.projectId, [...byPlayer.keys()], (turn) => {
    for (const { message } of byPlayer.get(turn.player.id) ?? []) sendMessage(turn, noteOf(message, channel));
  });
};

/**
 * Builds the inbox message of a mention. It has no text: inbox messages and their events are read with other
 * rights than the channel, and a text would have to follow every edit and removal. For a private channel it
 * contains the location of the message, but not its author.
 */
const noteOf = (message: ChatMessage, channel: Channel): NewMessage => ({
  type: MENTION_TYPE,
  ...(isPrivate(channel) ? privateNote(message) : publicNote(message, channel)),
  body: null,
  rewardGrantId: null,
  expiresMs: null,
});

const privateNote = ({ channelId, seq }: ChatMessage): Pick<NewMessage, "title" | "data"> => ({
  title: "You were mentioned in a private channel",
  data: { channelId, seq },
});

const publicNote = (
  { channelId, sender, seq, id }: ChatMessage,
  { name, key }: Channel,
): Pick<NewMessage, "title" | "data"> => {
  const who = sender === null ? "The server" : (sender.displayName ?? sender.externalUserId);
  const where = name ?? key ?? "a channel";
  return {
    title: `${who.slice(0, 100)} mentioned you in ${where.slice(0, 60)}`,
    data: { channelId, messageId: id, seq, playerId: sender?.playerId ?? null },
  };
};

/** Number of a project's messages examined per step. */
const LOOKED_AT_ONCE = 5_000;
/** Number of inbox messages deleted per step. */
const INBOX_AT_ONCE = 1_000;
/** Replacement for a name: `@erased`. */
const ERASED = "erased";
const FIRST = [NIL_ID, 0] as const;

type Row = {
  channel_id: string;
  seq: number;
  id: string;
  content: string | null;
  original: string | null;
};

/** As a parameter of `unnest()`; the texts may contain any characters. */
const texts = (values: readonly string[]) =>
  sql`array(select json_array_elements_text(${JSON.stringify(values)}::json))`;

/**
 * Removes the names of a person from a page of others' messages that mention them, `@name`; the messages and
 * their events stay.
 * @returns how many have changed, and where the next page begins
 */
export const eraseMentions = async (
  { db }: Work,
  { projectId, names }: { projectId: string; names: readonly string[] },
  after: readonly (string | number)[],
): Promise<{ count: number; after: (string | number)[] | undefined }> => {
  const [channelId, seq] = after.length === 2 ? after : FIRST;
  const found = await sql<Row>`
    with page as materialized (
      select channel_id, seq, id, content, original from chat_messages
      where project_id = ${projectId} and (channel_id, seq) > (${channelId}::uuid, ${seq}::bigint)
      order by channel_id, seq limit ${LOOKED_AT_ONCE})
    select p.channel_id, p.seq, p.id, case when named.it then p.content end as content,
      case when named.it then p.original end as original
    from page p cross join lateral (
      select exists (select 1 from unnest(${texts(names)}) as n(name)
        where position('@' || n.name in p.content || ' ' || coalesce(p.original, '')) > 0) as it) named
    order by p.channel_id, p.seq`.execute(db);
  const isName = (name: string): boolean => names.includes(name);
  const changed = found.rows.flatMap(({ channel_id: c, seq: s, id, content, original }) =>
    content === null
      ? []
      : [
          {
            c,
            s,
            i: id,
            t: renameIn(content, isName, ERASED),
            o: original === null ? null : renameIn(original, isName, ERASED),
          },
        ],
  );
  if (changed.length > 0)
    await sql`
      with x as materialized (
        select * from json_to_recordset(${JSON.stringify(changed)}::json)
          as x(c uuid, s bigint, i uuid, t text, o text)),
      told as (
        update outbox o set data = case
            when o.type = 'chat.message_sent' then jsonb_set(o.data, '{content}', to_jsonb(x.t), false)
            else jsonb_set(o.data, '{lines}', coalesce((
              select jsonb_agg(jsonb_set(l, '{data,content}', to_jsonb(x.t), false))
              from jsonb_array_elements(o.data->'lines') as l), '[]')) end
        from x where o.project_id = ${projectId} and o.id = x.i
          and (o.type = 'chat.message_sent' or o.type = 'chat.changed' and o.data ? 'lines'))
      update chat_messages m set content = x.t, original = x.o from x
      where m.project_id = ${projectId} and m.channel_id = x.c and m.seq = x.s`.execute(db);
  const last = found.rows.length === LOOKED_AT_ONCE ? found.rows.at(-1)! : undefined;
  return { count: changed.length, after: last && [last.channel_id, last.seq] };
};

/**
 * Deletes a page of the inbox messages that the person's mentions have created for others, whose streams keep
 * their seqs.
 * @returns whether there may be more
 */
export const eraseInboxMessages = async (
  { db }: Work,
  { projectId, ids }: { projectId: string; ids: readonly string[] },
): Promise<boolean> => {
  const inboxMessages = await sql`
    delete from inbox_messages where ctid = any(array(
      select ctid from inbox_messages
      where project_id = ${projectId} and type = ${sql.lit(MENTION_TYPE)}
        and data->>'playerId' = any(${texts(ids)}) limit ${INBOX_AT_ONCE})) returning 1`.execute(db);
  const lines = await sql`
    update outbox set data = data || '{"title": "erased", "body": null, "data": {}}'
    where project_id = ${projectId} and id = any(array(
      select id from outbox
      where project_id = ${projectId} and type = 'inbox.message'
        and data->>'type' = ${sql.lit(MENTION_TYPE)}
        and data->'data'->>'playerId' = any(${texts(ids)}) limit ${INBOX_AT_ONCE})) returning 1`.execute(db);
  return Math.max(inboxMessages.rows.length, lines.rows.length) === INBOX_AT_ONCE;
};
