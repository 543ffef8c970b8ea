/** A published line may overtake another; the database is queried only if one stays missing this long. */
export const GAP_WAIT_MS = 100;
/** Delay before a failed read is retried. */
const READ_RETRY_MS = 1_000;
/**
 * Maximum number of lines kept while an earlier one is missing; beyond that they are read from the database.
 */
const WAITING_MAX = 1_000;

/** A client further behind than this gets the newest state instead of the lines it missed. */
export const REPLAY_MAX = 500;

type Line = { seq: number };

/**
 * The committed lines after a seq: the stream's newest seq, and the lines up to it (perhaps a few later ones)
 * in order.
 */
export type StreamPage<M extends Line = Line> = { seq: number; messages: readonly M[] };

export type OrderedStreamParts<M extends Line, P extends StreamPage<M>> = {
  read(afterSeq: number): Promise<P>;
  /** Receives the next line; called in seq order without gaps or repeats. */
  deliver(message: M): void;
  /** Called after the last delivery of a batch. */
  delivered?(): void;
  /** Continues the stream at `page.seq`: the lines in between can no longer be replayed one by one. */
  jump(page: P): void;
  later(delayMs: number, run: () => unknown): void;
  onError(error: unknown): void;
};

/** Whether `page` does not continue right after `seq`, or is too long to be replayed line by line. */
export const isBroken = (page: StreamPage, seq: number): boolean =>
  page.seq < seq ||
  page.seq - seq > REPLAY_MAX ||
  (page.seq > seq && page.messages[0]?.seq !== seq + 1) ||
  page.messages.some((message, i) => message.seq !== seq + 1 + i);

/**
 * Orders the published lines of one player or channel. Publishing may lose, repeat or reorder them; the
 * output is each line once, in order, with missing ones read from the database.
 */
export class OrderedStream<M extends Line, P extends StreamPage<M>> {
  readonly #parts: OrderedStreamParts<M, P>;
  readonly #waiting = new Map<number, M>();
  #head = -1;
  #expected = -1;
  #isHealing = false;

  constructor(parts: OrderedStreamParts<M, P>) {
    this.#parts = parts;
  }

  /** Seq of the newest line delivered; -1 before the start. */
  get head(): number {
    return this.#head;
  }

  /** Begins at `seq`; lines received earlier are kept until then. */
  start(seq: number): void {
    this.#skipTo(seq);
    this.#advance();
    this.#heal(0);
  }

  /** Accepts published lines, in any order, any number of times. */
  receive(messages: readonly M[]): void {
    for (const message of messages) {
      if (message.seq <= this.#head) continue;
      this.#expected = Math.max(this.#expected, message.seq);
      if (this.#waiting.size < WAITING_MAX) this.#waiting.set(message.seq, message);
    }
    if (this.#head >= 0) this.#advance();
    this.#heal(GAP_WAIT_MS);
  }

  /** Notes that the stream has reached `seq`. */
  expect(seq: number): void {
    this.#expected = Math.max(this.#expected, seq);
    this.#heal(0);
  }

  #skipTo(seq: number): void {
    this.#head = seq;
    for (const known of this.#waiting.keys()) if (known <= seq) this.#waiting.delete(known);
  }

  #advance(): void {
    const before = this.#head;
    try {
      for (;;) {
        const next = this.#waiting.get(this.#head + 1);
        if (!next) return;
        this.#waiting.delete(next.seq);
        this.#head = next.seq;
        this.#parts.deliver(next);
      }
    } finally {
      if (this.#head > before) this.#parts.delivered?.();
    }
  }

  /** Whether a line later than the head is known. */
  #isBehind(): boolean {
    return this.#head >= 0 && (this.#expected > this.#head || this.#waiting.size > 0);
  }

  #heal(delayMs: number): void {
    if (this.#isHealing || !this.#isBehind()) return;
    this.#isHealing = true;
    this.#parts.later(delayMs, async () => {
      const wanted = this.#expected;
      let waitMs = GAP_WAIT_MS;
      try {
        if (!this.#isBehind()) return;
        this.#expected = -1;
        await this.#fill();
      } catch (error) {
        this.#parts.onError(error);
        this.#expected = Math.max(this.#expected, wanted);
        waitMs = READ_RETRY_MS;
      } finally {
        this.#isHealing = false;
        this.#heal(waitMs);
      }
    });
  }

  async #fill(): Promise<void> {
    const after = this.#head;
    const known = [...this.#waiting.keys()];
    const page = await this.#parts.read(after);
    // A line is published after its commit, so one that this read does not know never will be.
    for (const seq of known) if (seq > page.seq) this.#waiting.delete(seq);
    if (page.seq > this.#head && isBroken(page, after)) {
      this.#skipTo(page.seq);
      this.#parts.jump(page);
    }
    for (const message of page.messages) {
      if (message.seq > this.#head) this.#waiting.set(message.seq, message);
    }
    this.#advance();
  }
}
