import { z } from "zod";
import { PARTITIONS } from "../kernel/ids.ts";
import { RETRY_DELAYS_MS } from "../kernel/retries.ts";
import { CLAIM_PROJECTS, type QueuedEvent } from "./queue.ts";

/** A note of what another process has or had in hand. */
export type OthersNote = {
  id: string;
  text: string;
  /** Whether that process has ended, or has not been heard of for as long as a lease. */
  isDead: boolean;
};

/**
 * Where each process notes which events it has in hand, so that the note outlives it. Losing notes means that
 * an event that ends its process is not counted; nothing else depends on them.
 */
export type HandNotes = {
  /** Replaces the note of this process at once; an empty one removes it. Neither waits nor throws. */
  note(text: string): void;
  /**
   * Shows that this process is alive, and returns the notes of all others.
   * @throws when they cannot be read
   */
  look(): Promise<readonly OthersNote[]>;
  /** Removes notes of processes that have died, unless they were replaced meanwhile. */
  forget(notes: readonly OthersNote[]): Promise<void>;
  /** Removes the note of this process, which ends in order. */
  close(): Promise<void>;
};

/** Notes of a process whose events end with it. */
export const noHandNotes: HandNotes = {
  note: () => undefined,
  look: async () => [],
  forget: async () => undefined,
  close: async () => undefined,
};

/** Stretches of a note: those of each partition are in one claim. */
const STRETCHES_MAX = PARTITIONS * CLAIM_PROJECTS;
/** Characters of a note; a stretch has about 120. */
const LENGTH_MAX = 200 * (STRETCHES_MAX + 1);

const Part = z
  .int()
  .min(0)
  .max(PARTITIONS - 1);
const Seq = z.int().min(0);
const Stretch = z
  .object({ part: Part, projectId: z.uuid(), first: Seq, last: Seq })
  .refine(({ first, last }) => first <= last);
const Sole = z.object({
  part: Part,
  projectId: z.uuid(),
  eventId: z.uuid(),
  attempts: z.int().min(0).max(RETRY_DELAYS_MS.length),
});
const Note = z.object({
  stretches: z.array(Stretch).min(1).max(STRETCHES_MAX),
  size: z.int().min(1),
  alone: Sole.optional(),
});

/** Consecutive events of a project in a partition of the queue, by `seq`, both ends included. */
type Stretch = z.infer<typeof Stretch>;
/** The only event that a process has in hand, with its attempts before this one. */
export type SoleEvent = z.infer<typeof Sole>;
/** What a process has in hand; `size`: how many events. */
export type Noted = z.infer<typeof Note>;

/** Returns the stretches of the queue that events of one claim make up. */
const stretchesOf = (events: readonly QueuedEvent[]): Stretch[] => {
  const byProject = new Map<string, Map<number, Stretch>>();
  for (const { part, projectId, seq } of events) {
    let byPart = byProject.get(projectId);
    if (!byPart) byProject.set(projectId, (byPart = new Map()));
    const known = byPart.get(part);
    if (!known) byPart.set(part, { part, projectId, first: seq, last: seq });
    else if (seq > known.last) known.last = seq;
    else if (seq < known.first) known.first = seq;
  }
  return [...byProject.values()].flatMap((byPart) => [...byPart.values()]);
};

/** Parses a note; undefined when it is damaged, or says what cannot be. */
const parseNote = (text: string): Noted | undefined => {
  if (text.length > LENGTH_MAX) return undefined;
  try {
    return Note.safeParse(JSON.parse(text)).data;
  } catch {
    return undefined;
  }
};

type Waiting = { isAlone: boolean; enter: () => void };

/** Lets runs go beside one another, or one alone, in the order in which they come. */
export class Turnstile {
  readonly #waiting: Waiting[] = [];
  #running = 0;
  #isAlone = false;

  beside<T>(run: () => Promise<T>): Promise<T> {
    return this.#pass(false, run);
  }

  alone<T>(run: () => Promise<T>): Promise<T> {
    return this.#pass(true, run);
  }

  async #pass<T>(isAlone: boolean, run: () => Promise<T>): Promise<T> {
    if (this.#waiting.length === 0 && this.#isFree(isAlone)) this.#enter(isAlone);
    else await new Promise<void>((enter) => this.#waiting.push({ isAlone, enter }));
    try {
      return await run();
    } finally {
      this.#running--;
      this.#isAlone = false;
      this.#next();
    }
  }

  #isFree(isAlone: boolean): boolean {
    return this.#running === 0 || (!isAlone && !this.#isAlone);
  }

  #enter(isAlone: boolean): void {
    this.#running++;
    this.#isAlone = isAlone;
  }

  #next(): void {
    for (let next = this.#waiting[0]; next && this.#isFree(next.isAlone); next = this.#waiting[0]) {
      this.#waiting.shift();
      this.#enter(next.isAlone);
      next.enter();
    }
  }
}

/** How long a note may name events that are done, in ms: the next claim usually replaces it before. */
const CLEAR_AFTER_MS = 100;

/** A readable note of another process. */
export type OthersHand = OthersNote & { noted: Noted };

/**
 * What one claim has in hand; `take` replaces what it took before. From `evaluate` to `evaluated`, an event
 * that is alone in hand is to blame for the end of the process: before and after, the claim waits for the
 * database.
 */
export type ClaimHand = {
  take(events: readonly QueuedEvent[]): void;
  evaluate(): void;
  evaluated(): void;
  close(): void;
};

/** Events of a claim, apart from suspects and those behind them. */
export type Sifted = {
  free: readonly QueuedEvent[];
  /** Suspects and the events of their projects behind them, which keep their order. */
  held: readonly QueuedEvent[];
  /** The suspects among them before which nothing else of their project waits in their partition. */
  suspects: readonly QueuedEvent[];
};

/** A stretch of suspects, of which at most `together` may be run at once. */
type Suspected = Stretch & { together: number };

/**
 * What this process has in hand, noted before it is evaluated, and the suspects: events that another process,
 * or an earlier life of this one, had in hand when it died. Claims leave suspects in the queue. They are run
 * in groups of half of what was in hand, with nothing else in hand: a group that survives is done, and one
 * that dies is halved in its turn, until an event is alone.
 */
export class InHand {
  readonly #notes: HandNotes;
  readonly #turnstile = new Turnstile();
  readonly #claims = new Map<ClaimHand, Taken>();
  #begun: Promise<void> | undefined;
  #noted = "";
  #clearing: NodeJS.Timeout | undefined;
  #others: readonly OthersHand[] = [];
  /** Whether the last look has failed, or is not answered yet. */
  #isBlind = false;
  /** Suspects by project and partition, and by id. */
  #stretches = new Map<string, Suspected[]>();
  #ids = new Set<string>();

  constructor(notes: HandNotes) {
    this.#notes = notes;
  }

  /** Resolves when the notes of others have been read once, or could not be read; never rejects. */
  begin(): Promise<void> {
    return (this.#begun ??= this.look().catch(() => undefined));
  }

  /** Processes that died with events in hand which may still wait. */
  get dead(): readonly OthersHand[] {
    return this.#others.filter(({ isDead }) => isDead);
  }

  /** The partitions of the suspects. */
  get suspectParts(): ReadonlySet<number> {
    const dead = this.dead.map(({ noted }) => noted);
    return new Set(
      dead
        .flatMap(({ stretches, alone }) => [...stretches, ...(alone ? [alone] : [])])
        .map(({ part }) => part),
    );
  }

  /** Runs a claim beside others of this process. */
  beside<T>(run: () => Promise<T>): Promise<T> {
    return this.#turnstile.beside(run);
  }

  /** Runs a claim while no other claim of this process runs. */
  alone<T>(run: () => Promise<T>): Promise<T> {
    return this.#turnstile.alone(run);
  }

  /** Opens the hand of a claim; to be closed when its transaction is over. */
  open(): ClaimHand {
    const mark = (isEvaluated: boolean): void => {
      const taken = this.#claims.get(claim);
      if (!taken || taken.isEvaluated === isEvaluated) return;
      taken.isEvaluated = isEvaluated;
      this.#write();
    };
    const claim: ClaimHand = {
      take: (events) => {
        this.#claims.set(claim, { stretches: stretchesOf(events), events, isEvaluated: false });
        this.#write();
      },
      evaluate: () => mark(true),
      evaluated: () => mark(false),
      close: () => {
        this.#claims.delete(claim);
        this.#clearing ??= setTimeout(() => this.#write(), CLEAR_AFTER_MS).unref();
      },
    };
    return claim;
  }

  /** Reads the notes of others. @throws when they cannot be read */
  async look(): Promise<void> {
    this.#isBlind = true;
    const others = await this.#notes.look();
    this.#isBlind = false;
    const read = others.map((other) => ({ ...other, noted: parseNote(other.text) }));
    this.#others = read.flatMap(({ noted, ...other }) => (noted ? [{ ...other, noted }] : []));
    this.#suspect();
    const damaged = read.filter(({ noted, isDead }) => !noted && isDead);
    if (damaged.length > 0) await this.#notes.forget(damaged);
  }

  /** As `look`, but does not fail, and does not wait again for notes that could not be read just now. */
  async glance(): Promise<void> {
    if (!this.#isBlind) await this.look().catch(() => undefined);
  }

  /** Forgets dead processes whose events no longer wait. */
  async forget(hands: readonly OthersHand[]): Promise<void> {
    if (hands.length === 0) return;
    await this.#notes.forget(hands);
    const gone = new Set(hands);
    this.#others = this.#others.filter((hand) => !gone.has(hand));
    this.#suspect();
  }

  close(): Promise<void> {
    clearTimeout(this.#clearing);
    return this.#notes.close();
  }

  /** Takes suspects out of the events of a claim, which are in order of `seq` within a project. */
  sift(events: readonly QueuedEvent[]): Sifted {
    if (this.#stretches.size === 0 && this.#ids.size === 0) return { free: events, held: [], suspects: [] };
    const free: QueuedEvent[] = [];
    const held: QueuedEvent[] = [];
    const suspects: QueuedEvent[] = [];
    // By project and partition: whether only suspects were found since the first one.
    const lines = new Map<string, boolean>();
    for (const event of events) {
      const line = lineOf(event);
      const isSuspect = this.#togetherOf(event) !== undefined;
      if (!isSuspect && !lines.has(line)) {
        free.push(event);
        continue;
      }
      const isNext = isSuspect && lines.get(line) !== false;
      if (isNext) suspects.push(event);
      lines.set(line, isNext);
      held.push(event);
    }
    return { free, held, suspects };
  }

  /**
   * Returns the suspects to be run together next, at most `max`, in their order: at most half as many as were
   * in hand at any death of one of them, and first those that were among the most.
   */
  groupOf(suspects: readonly QueuedEvent[], max: number): QueuedEvent[] {
    const lines = [...Map.groupBy(suspects, lineOf).values()];
    const group: QueuedEvent[] = [];
    let atMost = max;
    for (const line of lines.toSorted((a, b) => this.#boundOf(b[0]!) - this.#boundOf(a[0]!)))
      for (const event of line) {
        const bound = Math.min(atMost, this.#boundOf(event));
        if (group.length >= bound || !this.mayRun(event)) break;
        atMost = bound;
        group.push(event);
      }
    return group;
  }

  /**
   * Whether a suspect may be run: not while another process has it in hand, or has died with it alone and its
   * try is not counted yet.
   */
  mayRun(event: QueuedEvent): boolean {
    const { eventId, attempts } = event;
    return this.#others.every(({ isDead, noted: { alone, stretches } }) => {
      if (alone?.eventId === eventId && alone.attempts === attempts) return false;
      return isDead || !stretches.some((stretch) => isWithin(event, stretch));
    });
  }

  #boundOf(event: QueuedEvent): number {
    return this.#togetherOf(event) ?? 1;
  }

  /** How many suspects may be run together with an event; undefined where it is none. */
  #togetherOf(event: QueuedEvent): number | undefined {
    if (this.#ids.has(event.eventId)) return 1;
    const own = this.#stretches.get(lineOf(event))?.filter((stretch) => isWithin(event, stretch)) ?? [];
    return own.length === 0 ? undefined : Math.min(...own.map(({ together }) => together));
  }

  #suspect(): void {
    const noted = this.dead.map((hand) => hand.noted);
    this.#stretches = Map.groupBy(
      noted.flatMap(({ stretches, size }) =>
        stretches.map((stretch) => ({ ...stretch, together: Math.ceil(size / 2) })),
      ),
      lineOf,
    );
    this.#ids = new Set(noted.flatMap(({ alone }) => alone?.eventId ?? []));
  }

  #write(): void {
    clearTimeout(this.#clearing);
    this.#clearing = undefined;
    const text = noteOf([...this.#claims.values()]);
    if (text === this.#noted) return;
    this.#noted = text;
    this.#notes.note(text);
  }
}

type Taken = { stretches: readonly Stretch[]; events: readonly QueuedEvent[]; isEvaluated: boolean };

/** Names a project's part of a partition, whose events are in order. */
export const lineOf = ({ part, projectId }: { part: number; projectId: string }): string =>
  `${part}:${projectId}`;

const isWithin = (event: QueuedEvent, { part, projectId, first, last }: Stretch): boolean =>
  event.part === part && event.projectId === projectId && first <= event.seq && event.seq <= last;

const noteOf = (claims: readonly Taken[]): string => {
  const stretches = claims.flatMap((claim) => claim.stretches);
  if (stretches.length === 0) return "";
  const size = claims.reduce((sum, { events }) => sum + events.length, 0);
  const [sole, second] = claims.flatMap(({ events, isEvaluated }) =>
    events.slice(0, 2).map((event) => ({ ...event, isEvaluated })),
  );
  if (!sole?.isEvaluated || second) return JSON.stringify({ stretches, size });
  const { part, projectId, eventId, attempts } = sole;
  return JSON.stringify({ stretches, size, alone: { part, projectId, eventId, attempts } });
};
