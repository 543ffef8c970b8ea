import { setTimeout as delay } from "node:timers/promises";
import { type RawBuilder, sql } from "kysely";
import { outageOf } from "../kernel/outages.ts";
import { kept, unansweredKept } from "../kernel/statements.ts";
import { LOCK_SPACES, type Transact, type Work } from "../kernel/work.ts";
import { countTry, QUEUED_EVENT, type QueuedEvent } from "./queue.ts";

/**
 * An event may end the process that evaluates it: memory is exhausted, native code crashes. That undoes its
 * transaction, and the event would end one process after another. So a claim commits which events it has in
 * hand before it evaluates them, and removes that note with their effects. A note in a partition that nobody
 * has locked is of a process that ended: its events are then evaluated apart, in groups of a tenth of those,
 * with nothing else in hand, and those of a group that ends a process again in groups of a tenth of it. One
 * that was evaluated alone counts a try.
 */

/** How long a live process has to remove the note of a claim that was undone, in ms. */
const ANSWER_MS = 1_000;
/** Which part of the events of a dead process is evaluated together. */
const GROUPS = 10;

/** Error of an attempt that ended the process in which the event was evaluated alone. */
class ProcessDied extends Error {
  constructor() {
    super("PROCESS_DIED: the process that evaluated this event, and nothing else, ended meanwhile");
  }
}

/**
 * What a claim has in hand; `isEvaluating`: an event that is alone in hand is to blame for the end of the
 * process. Until it is evaluated, and afterwards, its claim waits for the database.
 */
type ClaimNote = { id: string; events: readonly QueuedEvent[]; isEvaluating: boolean };

/**
 * Notes what a claim has in hand. A partition may have a note already: others noted and released it after this
 * transaction looked for notes, and before it got the lock. Theirs stays, and `holdClaim` says so.
 */
export const noteClaim = async ({ db }: Work, { id, events, isEvaluating }: ClaimNote): Promise<void> => {
  const rows = [...Map.groupBy(events, ({ part }) => part)].map(([part, own]) => ({
    part,
    ids: own.map(({ eventId }) => eventId),
  }));
  await unansweredKept(
    db,
    sql`
    insert into event_claims (part, id, event_ids, is_evaluating)
    select part, ${id}::uuid, ids, ${isEvaluating}::boolean from json_to_recordset(${JSON.stringify(rows)}::json)
      as x(part smallint, ids uuid[])
    on conflict (part) do nothing`,
  );
};

/** Locks the partitions of a claim that is noted. @returns false where others have one of them */
export const holdClaim = async ({ db }: Work, id: string, parts: readonly number[]): Promise<boolean> => {
  const keys = parts.toSorted((a, b) => a - b).join(",");
  await unansweredKept(
    db,
    sql`
    select pg_advisory_xact_lock(${LOCK_SPACES.QUEUE}::int, part) from unnest(${`{${keys}}`}::int[]) as x(part)`,
  );
  const { rows } = await kept(db, sql`select from event_claims where id = ${id}::uuid`);
  return rows.length === parts.length;
};

/** Changes the note of a claim, beside its transaction. */
export const noteEvaluating = (id: string, isEvaluating: boolean): RawBuilder<unknown> =>
  sql`update event_claims set is_evaluating = ${isEvaluating}::boolean where id = ${id}::uuid`;

/** Removes the note of a claim, in the transaction that saves its events. */
export const removeNote = ({ db }: Work, id: string): Promise<void> =>
  unansweredKept(db, sql`delete from event_claims where id = ${id}::uuid`);

/** Tries to remove the note of a claim that was undone, while the database is away. */
const REMOVALS_MAX = 100;
const REMOVE_AGAIN_MS = 250;

/** Removes the note of a claim that was undone; in the background while the database is away. Never rejects. */
export const disclaim = async (transact: Transact, id: string, tries = REMOVALS_MAX): Promise<void> => {
  try {
    await transact((work) => removeNote(work, id));
  } catch (error) {
    if (outageOf(error) === undefined || tries === 1) return;
    void delay(REMOVE_AGAIN_MS, undefined, { ref: false }).then(() => disclaim(transact, id, tries - 1));
  }
};

/** `onDied`: called with a partition and the number of events that a dead process had in hand in it. */
export type NoteObserver = {
  onError: (error: unknown, event: QueuedEvent) => void;
  onDied?: (part: number, events: number) => void;
};

/**
 * Looks at the notes in partitions that this transaction has locked. A claim that was undone by an outage has
 * one too, until its process removes it: so each is asked for, and is a dead one's if it is still there later.
 * @returns the partitions that have to be left until then
 */
export const settleNotes = async (
  work: Work,
  parts: readonly number[],
  observer: NoteObserver,
): Promise<readonly number[]> => {
  const isLeft = sql`asked_at < clock_timestamp() - interval '${sql.lit(ANSWER_MS)} ms'`;
  const { rows } = await sql<{ part: number; count: number; is_left: boolean }>`
    update event_claims set asked_at = coalesce(asked_at, clock_timestamp())
    where part = any(${`{${parts.join(",")}}`}::smallint[]) and (asked_at is null or ${isLeft})
    returning part, cardinality(event_ids) as count, ${isLeft} as is_left`.execute(work.db);
  const left = rows.filter((row) => row.is_left);
  for (const row of left) await settleDeath(work, row, observer);
  return parts.filter((part) => !left.some((row) => row.part === part));
};

const settleDeath = async (
  work: Work,
  { part, count }: { part: number; count: number },
  { onError, onDied }: NoteObserver,
): Promise<void> => {
  const { db } = work;
  const noted = sql`c.part = ${part} and q.part = c.part and q.event_id = any(c.event_ids)`;
  const { rows } = await sql<QueuedEvent>`
    select ${QUEUED_EVENT} from event_claims c, event_q q
    join tracked_events e on e.project_id = q.project_id and e.id = q.event_id
    where ${noted} and c.is_evaluating and cardinality(c.event_ids) = 1`.execute(db);
  onDied?.(part, count);
  const together = Math.ceil(count / GROUPS);
  await sql`update event_q q set together = least(together, ${together}::int)
    from event_claims c where ${noted}`.execute(db);
  for (const event of rows) await countTry(work, { event, error: new ProcessDied(), onError });
  await sql`delete from event_claims where part = ${part}`.execute(db);
};

/** Names a project's part of a partition, whose events are in order. */
export const lineOf = ({ part, projectId }: QueuedEvent): string => `${part}:${projectId}`;

/**
 * Events of a claim, apart from those to be evaluated apart and those of the same project behind them, which
 * keep their order; `apart`: those before which nothing else of their project waits in their partition.
 */
export type Sifted = Record<"free" | "held" | "apart", readonly QueuedEvent[]>;

/** @param events in order of `seq` within a project */
export const sift = (events: readonly QueuedEvent[]): Sifted => {
  const lines = new Map<string, "FREE" | "APART" | "BEHIND">();
  const placed = events.map((event) => {
    const own = event.together === null ? "FREE" : "APART";
    const place = (lines.get(lineOf(event)) ?? own) === own ? own : "BEHIND";
    lines.set(lineOf(event), place);
    return { event, place };
  });
  const those = (is: (place: string) => boolean) =>
    placed.filter(({ place }) => is(place)).map(({ event }) => event);
  return {
    free: those((place) => place === "FREE"),
    held: those((place) => place !== "FREE"),
    apart: those((place) => place === "APART"),
  };
};

/** Returns events that are evaluated apart in groups, each of one partition and project, in their order. */
export const groupsOf = (apart: readonly QueuedEvent[]): QueuedEvent[][] =>
  [...Map.groupBy(apart, lineOf).values()].flatMap((own) => {
    const groups: QueuedEvent[][] = [];
    for (const event of own) {
      const last = groups.at(-1);
      if (last && last.every(({ together }) => last.length < Math.min(together!, event.together!)))
        last.push(event);
      else groups.push([event]);
    }
    return groups;
  });

/** Runs claims beside one another, or one alone while no other runs. */
export class Turns {
  readonly #beside = new Set<Promise<unknown>>();
  #alone: Promise<unknown> = Promise.resolve();

  async beside<T>(run: () => Promise<T>): Promise<T> {
    for (let seen: unknown; seen !== this.#alone;) await (seen = this.#alone);
    const running = run();
    this.#beside.add(running);
    return running.finally(() => this.#beside.delete(running));
  }

  alone<T>(run: () => Promise<T>): Promise<T> {
    const turn = this.#alone.then(async () => {
      await Promise.allSettled(this.#beside);
      return run();
    });
    this.#alone = turn.catch(() => undefined);
    return turn;
  }
}
