import { sql } from "kysely";
import { shareConfig } from "../../kernel/config-lock.ts";
import { invalid } from "../../kernel/errors.ts";
import { type NewMessage, sendMessage } from "../../evaluation/inbox/send.ts";
import { changePlayers } from "../../progression/change.ts";
import type { Work } from "../../kernel/work.ts";
import { isPrivate } from "./access.ts";
import type { Channel } from "./channel-row.ts";
import { refuseMentions } from "./moderation/spam.ts";
import type { ChatContext, ContextPerson, ContextQuestion } from "./context.ts";
import { namesIn } from "./text.ts";
import type { ChatMessage, ChatSend } from "../../kernel/events/chat-views.ts";

/** Maximum number of players mentioned in one message. */
export const MENTIONS_MAX = 10;
/** Type of inbox messages about mentions. */
export const MENTION_TYPE = "chat-mention";

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
export type Mentioning = { message: ChatMessage; people: readonly ContextPerson[] };

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
  await changePlayers(work, channel.projectId, { playerIds: [...byPlayer.keys()] }, (turn) => {
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
