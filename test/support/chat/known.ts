import type { Commit } from "../../../src/domain/kernel/read.ts";
import { type Sending, sendMessages, type Sent } from "../../../src/domain/social/chat/messages.ts";
import { sendAsKnown, SendMemory } from "../../../src/domain/social/chat/send-known.ts";
import type { ChatLine } from "../../../src/domain/kernel/events/chat-views.ts";
import type { Domain } from "../domain/domain.ts";
import type { Talk } from "./talk.ts";

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
