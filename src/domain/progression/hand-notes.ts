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
export type Stretch = z.infer<typeof Stretch>;
/** The only event that a process has in hand, with its attempts before this one. */
export type SoleEvent = z.infer<typeof Sole>;
/** What a process has in hand; `size`: how many events. */
export type Noted = z.infer<typeof Note>;

/** Returns the stretches of the queue that events of one claim make up. */
export const stretchesOf = (events: readonly QueuedEvent[]): Stretch[] => {
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
export const parseNote = (text: string): Noted | undefined => {
  if (text.length > LENGTH_MAX) return undefined;
  try {
    return Note.safeParse(JSON.parse(text)).data;
  } catch {
    return undefined;
  }
};
