import assert from "node:assert/strict";
import { sql } from "kysely";
import type { ChatLine } from "../../kernel/events/social-views.ts";
import { type Commit, type ReadStatement, statementOf } from "../../kernel/read.ts";
import { type ChannelRef, isPrivate } from "./channel-row.ts";
import {
  type ChatContext,
  contextFields,
  contextOf,
  contextParts,
  type ContextQuestion,
  type ContextRow,
  lockForSends,
  namesEveryone,
} from "./context.ts";
import {
  type Accepted,
  decide,
  type Decision,
  insertMessages,
  linesOf,
  newOf,
  questionOf,
  type Sending,
  type Sent,
  sentOf,
} from "./messages.ts";
import { knownFilter } from "./moderation/filters.ts";

/** Maximum senders whose standing is remembered: as many as a room has clients. */
const SENDERS_MAX = 500;

type Remembered = Pick<
  ContextRow,
  "channel" | "senders" | "sanctions" | "direct_policy" | "lists_version" | "is_awaited"
>;

/** What a room remembers of one channel and its senders: a guess at what the next send will find. */
export class SendMemory {
  #common: Pick<Remembered, "channel" | "direct_policy" | "lists_version" | "is_awaited"> | undefined;
  /** Those who have sent lately come last. */
  readonly #people = new Map<string, Pick<Remembered, "senders" | "sanctions">>();

  /** Takes what was just read. */
  learn({ senders, sanctions, ...common }: ContextRow): void {
    this.#common = common;
    for (const sender of senders) {
      this.#people.delete(sender.id);
      const own = sanctions.filter(({ playerId }) => playerId === sender.id);
      this.#people.set(sender.id, { senders: [sender], sanctions: own });
    }
    for (const id of this.#people.keys()) {
      if (this.#people.size <= SENDERS_MAX) break;
      this.#people.delete(id);
    }
  }

  /** Returns what is remembered of some senders; undefined unless all of them are known. */
  recall(playerIds: readonly string[], now: Date): Remembered | undefined {
    const people = [...new Set(playerIds)].toSorted().map((id) => this.#people.get(id));
    if (!this.#common || people.includes(undefined)) return undefined;
    const isOver = ({ expiresAt }: ContextRow["sanctions"][number]): boolean =>
      expiresAt !== null && new Date(expiresAt) <= now;
    const sanctions = people
      .flatMap((one) => one!.sanctions)
      .filter((one) => !isOver(one))
      .toSorted((a, b) => (a.id < b.id ? -1 : 1));
    return { ...this.#common, senders: people.flatMap((one) => one!.senders), sanctions };
  }
}

/** What must still be so for decisions to hold: the values as `IS_SO` compares them. */
const expectedOf = ({ channel, is_awaited: isAwaited, ...known }: Remembered, replies: number) => {
  const { last_seq: _, ...rest } = channel!;
  const { senders, sanctions, direct_policy: policy, lists_version: lists } = known;
  return { channel: rest, isAwaited, senders, sanctions, policy, lists, replies };
};

/** SQL: whether the row `x` of a context is as it was expected; `known` has nothing but repetitions. */
const IS_SO = sql`
  jsonb_build_object('channel', x.channel::jsonb - 'last_seq', 'isAwaited', x.is_awaited,
    'senders', x.senders::jsonb, 'sanctions', x.sanctions::jsonb, 'policy', x.direct_policy,
    'lists', x.lists_version, 'replies', json_array_length(x.replies))`;

type Answer = ContextRow & { is_so: boolean };

/** One statement: reads the context, and writes the messages if it is what they were decided by. */
const writeIfSo = (
  ref: ChannelRef,
  { question, known, accepted, now }: Guess & { accepted: readonly Accepted[] },
): ReadStatement => {
  const { projectId, channelId } = ref;
  const at = sql`${now.toISOString()}::timestamptz`;
  const isSo = sql`(select is_so from ok)`;
  const expected = JSON.stringify(expectedOf(known, question.replies.length));
  const lastSeq = sql`(select last_seq from c)`;
  return statementOf(sql`
    with ${contextParts(ref, question)},
    x as materialized (select ${contextFields(ref, question, now)}),
    ok as materialized (
      select x.is_locked and json_array_length(x.known) = 0 and ${IS_SO} = ${expected}::jsonb as is_so
      from x),
    u as (
      update chat_channels set last_seq = last_seq + ${accepted.length}::bigint, updated_at = ${at}
      where project_id = ${projectId} and id = ${channelId} and ${isSo}),
    m as (${insertMessages(ref, accepted, { at, lastSeq, where: isSo })})
    select x.*, coalesce(ok.is_so, false) as is_so from x cross join ok`);
};

type Guess = { question: ContextQuestion; known: Remembered; now: Date };

/** Whether a send waits for locks of players, or for events, which need a transaction of several steps. */
const needsSteps = ({ actor, send }: Sending): boolean =>
  actor.kind !== "PLAYER" || (send.mentions?.length ?? 0) > 0 || namesEveryone(send.content);

const guessOf = (memory: SendMemory, sendings: readonly Sending[], now: Date): Guess | undefined => {
  if (sendings.some(needsSteps)) return undefined;
  const question = questionOf(sendings);
  if (question.mentionedNames.length > 0) return undefined;
  const known = memory.recall(
    question.senders.flatMap(({ playerId }) => playerId ?? []),
    now,
  );
  return known && { question, known, now };
};

/** Decides about sends by what is remembered. Nobody waits for events of those that are accepted. */
const decideBy = async (
  { projectId }: ChannelRef,
  { question, known, now }: Guess,
  sendings: readonly Sending[],
): Promise<{ context: ChatContext; decisions: Decision[]; accepted: Accepted[] } | undefined> => {
  const row = { ...known, is_locked: true, known: [], replies: [...question.replies], people: [] };
  const context = contextOf(projectId, row);
  const { channel, sanctions, listsVersion, isAwaited } = context;
  const filter = knownFilter(projectId, listsVersion);
  if (!filter || (isAwaited && !isPrivate(channel))) return undefined;
  const decisions = await decide({ now, channel, sanctions, filter }, context, sendings);
  const accepted = newOf(decisions);
  const isModerated = accepted.some(({ verdict }) => verdict.outcome !== "VISIBLE" && !verdict.isShadowed);
  return accepted.length === 0 || isModerated ? undefined : { context, decisions, accepted };
};

/**
 * Commits a group of sends as `sendMessages` does for callers who tell the readers, in one message to the
 * database: they are decided by what the caller remembers, and written by a statement that finds the same
 * under the channel's lock. Nothing is written if it finds anything else, or if they need more statements.
 * @returns undefined then: the caller has to call `sendMessages`
 */
export const sendAsKnown = async (
  commit: Commit,
  ref: ChannelRef,
  { memory, sendings, now }: { memory: SendMemory; sendings: readonly Sending[]; now: Date },
): Promise<{ sent: Sent[]; lines: ChatLine[] } | undefined> => {
  const guess = guessOf(memory, sendings, now);
  const decided = guess && (await decideBy(ref, guess, sendings));
  if (!decided) return undefined;
  const { context, decisions, accepted } = decided;
  const lock = statementOf(lockForSends(ref));
  const [found] = await commit<Answer>([lock, writeIfSo(ref, { ...guess, accepted })]);
  const { is_so: isSo, ...row } = found!;
  if (row.channel) memory.learn(row);
  if (!isSo) return undefined;
  // They were numbered from where the channel was when it was last read.
  const missed = row.channel!.last_seq - context.channel.lastSeq;
  for (const { message } of accepted) message.seq += missed;
  const sent = sentOf(decisions, () => assert.fail("nothing was known to have been sent before"));
  return { sent, lines: accepted.flatMap(linesOf) };
};
