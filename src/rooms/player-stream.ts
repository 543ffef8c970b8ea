import { STREAM_REPLAY_MAX } from "../domain/outbox/stream.ts";
import type { PlayerMessage } from "../domain/topics.ts";

/** A published line may overtake another; the database is asked only when one stays missing this long. */
export const GAP_WAIT_MS = 100;
/** Waits after a read that failed. */
const READ_RETRY_MS = 1_000;
/** Lines kept while an earlier one is missing; more are read again from the database. */
const WAITING_MAX = 1_000;

/** The truth after a seq: the player's newest seq, and the lines up to it (perhaps a few later ones) in order. */
export type StreamPage = { seq: number; messages: readonly PlayerMessage[] };

export type PlayerStreamParts<P extends StreamPage> = {
  read(afterSeq: number): Promise<P>;
  /** The next line; called in seq order without gaps or repeats. */
  deliver(message: PlayerMessage): void;
  /** The stream goes on at `page.seq`: what lies between can no longer be told line by line. */
  jump(page: P): void;
  later(delayMs: number, run: () => unknown): void;
  onError(error: unknown): void;
};

export type PlayerStream = {
  /** The newest line delivered. */
  head(): number;
  /** Begins at `seq`; what was received before is kept until then. */
  start(seq: number): void;
  /** Published lines, in any order, any number of times. */
  receive(messages: readonly PlayerMessage[]): void;
  /** Somebody saw that the player's stream has reached `seq`. */
  expect(seq: number): void;
};

/** True when `page` does not continue right after `seq`, or is too long to be told line by line. */
export const isBroken = (page: StreamPage, seq: number): boolean =>
  page.seq < seq ||
  page.seq - seq > STREAM_REPLAY_MAX ||
  (page.seq > seq && page.messages[0]?.seq !== seq + 1) ||
  page.messages.some((message, i) => message.seq !== seq + 1 + i);

/**
 * Puts the published lines of one player in order. Publishing may lose, repeat or reorder lines; what comes out is each
 * line once, in order, with what is missing read from the database.
 */
export const createPlayerStream = <P extends StreamPage>(parts: PlayerStreamParts<P>): PlayerStream => {
  const waiting = new Map<number, PlayerMessage>();
  let head = -1;
  let expected = -1;
  let isHealing = false;

  const advance = (): void => {
    for (let next = waiting.get(head + 1); next; next = waiting.get(head + 1)) {
      waiting.delete(next.seq);
      head = next.seq;
      parts.deliver(next);
    }
  };

  const skipTo = (seq: number): void => {
    head = seq;
    for (const known of waiting.keys()) if (known <= head) waiting.delete(known);
  };

  /** True while a later line than the head is known of. */
  const isBehind = (): boolean => head >= 0 && (expected > head || waiting.size > 0);

  const heal = (delayMs: number): void => {
    if (isHealing || !isBehind()) return;
    isHealing = true;
    parts.later(delayMs, async () => {
      const wanted = expected;
      let waitMs = GAP_WAIT_MS;
      try {
        if (!isBehind()) return;
        expected = -1;
        await fill();
      } catch (error) {
        parts.onError(error);
        expected = Math.max(expected, wanted);
        waitMs = READ_RETRY_MS;
      } finally {
        isHealing = false;
        heal(waitMs);
      }
    });
  };

  const fill = async (): Promise<void> => {
    const after = head;
    const known = [...waiting.keys()];
    const page = await parts.read(after);
    // A line is published once it is committed, so one that this read does not know will never be.
    for (const seq of known) if (seq > page.seq) waiting.delete(seq);
    if (page.seq > head && isBroken(page, after)) {
      skipTo(page.seq);
      parts.jump(page);
    }
    for (const message of page.messages) if (message.seq > head) waiting.set(message.seq, message);
    advance();
  };

  return {
    head: () => head,
    start(seq) {
      skipTo(seq);
      advance();
      heal(0);
    },
    receive(messages) {
      for (const message of messages) {
        if (message.seq <= head) continue;
        expected = Math.max(expected, message.seq);
        if (waiting.size < WAITING_MAX) waiting.set(message.seq, message);
      }
      if (head >= 0) advance();
      heal(GAP_WAIT_MS);
    },
    expect(seq) {
      expected = Math.max(expected, seq);
      heal(0);
    },
  };
};
