import assert from "node:assert/strict";
import type { ModerationContext } from "../../../src/domain/social/chat/moderation/moderate.ts";
import {
  compileWords,
  type ListAction,
  NO_LISTS,
  type WordFilter,
} from "../../../src/domain/social/chat/moderation/word-filter.ts";
import { settingsFor } from "../../../src/domain/social/chat/settings.ts";
import type {
  ChannelSettings,
  ChatActor,
  ChatLine,
  ChatMessage,
  ChatSend,
} from "../../../src/domain/kernel/events/social-views.ts";
import type { Commit } from "../../../src/domain/kernel/read.ts";
import {
  readMessages,
  type Sending,
  sendMessages,
  type Sent,
} from "../../../src/domain/social/chat/messages.ts";
import { sendAsKnown, SendMemory } from "../../../src/domain/social/chat/send-known.ts";
import type { Domain } from "../domain/domain.ts";
import { globalChannelId } from "../../../src/domain/social/chat/channel-row.ts";
import { pluck } from "../pluck.ts";

export const NOW = new Date("2026-11-21T12:00:00Z");

type List = { action: ListAction; words: string[]; isWord?: boolean };

/** Lists of words, compiled; their names are list-0, list-1, and so on. */
export const filterOf = (...lists: List[]): WordFilter =>
  compileWords(
    "test",
    lists.map(({ action, words, isWord = true }, at) => ({
      list: `list-${at}`,
      action,
      isStart: isWord,
      isEnd: isWord,
      words,
    })),
  );

/** A player who may write, in a PROJECT channel. */
export const contextOf = (
  filter: WordFilter = NO_LISTS,
  settings: Partial<ChannelSettings> = {},
): ModerationContext => ({
  now: NOW,
  channel: {
    id: "c",
    kind: "PROJECT",
    status: "ACTIVE",
    settings: { ...settingsFor("PROJECT", {}), ...settings },
    readOnlyAt: null,
  },
  sender: { kind: "PLAYER", role: "MEMBER", isModerator: false, level: 5, createdAt: new Date(0) },
  sanctions: [],
  filter,
});

export type PlayerActor = Extract<ChatActor, { kind: "PLAYER" }>;

/** A project's channel `global` with some players, over the domain alone. */
export type Talk = {
  projectId: string;
  ref: { projectId: string; channelId: string };
  players: PlayerActor[];
  send(...sendings: readonly Sending[]): Promise<{ sent: Sent[]; lines: ChatLine[] }>;
  /** One text of a player, which must be accepted. */
  say(actor: ChatActor, content: string, more?: Omit<ChatSend, "content">): Promise<ChatMessage>;
  /** Oldest first, all of it. */
  read(actor: ChatActor): Promise<ChatMessage[]>;
};

/** The message of a send that must not have been refused. */
export const messageOf = (sent: Sent | undefined): ChatMessage => {
  if (!sent || "error" in sent) throw sent?.error ?? new Error("nothing was sent");
  return sent.message;
};

export const aTalk = async (domain: Domain, players: number): Promise<Talk> => {
  const projectId = await domain.addProject();
  const actors: PlayerActor[] = [];
  for (let i = 0; i < players; i++)
    actors.push({ kind: "PLAYER", playerId: await domain.addPlayer(projectId, `p${i}`) });
  const ref = { projectId, channelId: globalChannelId(projectId) };
  const send: Talk["send"] = (...sendings) => domain.transact((work) => sendMessages(work, ref, sendings));
  return {
    projectId,
    ref,
    players: actors,
    send,
    say: async (actor, content, more = {}) =>
      messageOf((await send({ actor, send: { content, ...more } })).sent[0]),
    read: (actor) => domain.transact((work) => readMessages(work, ref, actor, { after: 0, limit: 10_000 })),
  };
};

/** 1 to n. */
export const upTo = (n: number): number[] => Array.from({ length: n }, (_, i) => i + 1);

/**
 * Eight callers send 200 messages twice, in groups that overlap differently: each is there once, numbered 1
 * to 200, and all players read the same.
 */
export const raceSends = async (talk: Talk): Promise<void> => {
  const ids = upTo(200).map((i) => `m${i}`);
  const callers = upTo(8).map(async (caller) => {
    const actor = talk.players[caller % 4]!;
    const mine = ids.filter((_, i) => i % 4 === caller % 4);
    const size = 4 + caller;
    for (let at = 0; at < mine.length; at += size) {
      const group = mine.slice(at, at + size);
      const sendOf = (id: string) => ({ content: `text ${id} @p${caller % 3}`, clientMsgId: id });
      const { sent } = await talk.send(...group.map((id) => ({ actor, send: sendOf(id) })));
      assert.deepEqual(
        sent.map((one) => messageOf(one).clientMsgId),
        group,
      );
    }
  });
  await Promise.all(callers);
  const seen = await Promise.all(talk.players.map((player) => talk.read(player)));
  for (const read of seen) {
    assert.deepEqual(
      pluck(read, "seq", "id"),
      upTo(200).map((seq) => [seq, seen[0]![seq - 1]?.id]),
    );
    assert.equal(new Set(read.map(({ content }) => content)).size, 200);
  }
};

/** A room's way of sending, over the domain alone. */
export type KnownSends = {
  /** Commits by what is remembered where that holds, or else as anybody does, and remembers. */
  send(...sendings: readonly Sending[]): Promise<{ sent: Sent[]; lines: ChatLine[] }>;
  /** Only the first: undefined where it wrote nothing. */
  guess(...sendings: readonly Sending[]): Promise<{ sent: Sent[] } | undefined>;
  /** How many groups were committed by what was remembered, and how many were not. */
  counts: { known: number; steps: number };
};

export const knownSends = (
  { transact, clock }: Pick<Domain, "transact" | "clock">,
  { ref }: Pick<Talk, "ref">,
  commit: Commit,
): KnownSends => {
  const memory = new SendMemory();
  const counts = { known: 0, steps: 0 };
  const guess = (sendings: readonly Sending[]) =>
    sendAsKnown(commit, ref, { memory, sendings, now: clock() });
  return {
    counts,
    guess: (...sendings) => guess(sendings),
    send: async (...sendings) => {
      const known = await guess(sendings);
      counts[known ? "known" : "steps"]++;
      if (known) return known;
      const done = await transact((work) => sendMessages(work, ref, sendings, true));
      memory.learn(done.context.row);
      return done;
    },
  };
};
