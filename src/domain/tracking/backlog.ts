import { sql } from "kysely";
import { z } from "zod";
import { createSizedCache } from "../kernel/caches.ts";
import { OUTBOX_PARTITIONS, PARTITIONS, timeOfId } from "../kernel/ids.ts";
import type { Work } from "../kernel/work.ts";

/** A look at a project's number of processed events. `atMs`: of a monotonic clock. */
export type Look = { atMs: number; processed: number };

/** How far looks reach back, how far apart they are, and over how long a rate is computed at least, in ms. */
const LOOKS_MS = 60_000;
const LOOK_EVERY_MS = 1_000;
const RATE_MIN_MS = 5_000;
/** Projects whose looks a process keeps. */
const PROJECTS_MAX = 1_000;
const kept = createSizedCache<readonly Look[]>({ items: PROJECTS_MAX });

/** Returns the looks of the last minute with a further one, unless that follows the last one too closely. */
export const addLook = (looks: readonly Look[], look: Look): readonly Look[] => {
  const recent = looks.filter(({ atMs }) => atMs > look.atMs - LOOKS_MS);
  const last = recent.at(-1);
  return last && look.atMs - last.atMs < LOOK_EVERY_MS ? recent : [...recent, look];
};

/** Returns the events processed per second since the first of these looks; null where that is too near. */
export const rateSince = ([first]: readonly Look[], look: Look): number | null => {
  if (!first || look.atMs - first.atMs < RATE_MIN_MS) return null;
  return Math.round((1_000 * (look.processed - first.processed)) / (look.atMs - first.atMs));
};

/** Returns the events of a project that were processed per second, by the looks of this process. */
const rateOf = (projectId: string, look: Look): number | null => {
  const looks = addLook(kept.get(projectId) ?? [], look);
  kept.keep(projectId, looks, { owner: projectId });
  return rateSince(looks, look);
};

const Age = z.int().nullable().meta({ description: "Age of the oldest, in seconds; null without any" });

/** What a project has waiting. */
export const Backlog = z
  .object({
    events: z.object({
      waiting: z.int().meta({ description: "Events to be processed now" }),
      later: z.int().meta({ description: "Events that wait for another try, or for their time" }),
      oldestSeconds: Age,
      perSecond: z
        .int()
        .nullable()
        .meta({
          description:
            "Events processed in a second, over the last minute; null until one process was asked twice " +
            "within it, 5 seconds apart or more",
        }),
    }),
    commits: z
      .object({ waiting: z.int(), oldestSeconds: Age })
      .meta({ description: "Commits whose changes have not reached ranks, rooms and webhooks yet" }),
  })
  .meta({ id: "Backlog" });
type Backlog = z.output<typeof Backlog>;

type Row = {
  waiting: number;
  later: number;
  commits: number;
  event_id: string | null;
  outbox_id: string | null;
  processed: number | null;
};

/**
 * Reads what a project has waiting, and how old the oldest of it is. The rate is that of the types' totals,
 * which workers record every 5 s.
 */
export const readBacklog = async ({ db, serverNow }: Work, projectId: string): Promise<Backlog> => {
  // One index look-up per partition.
  const { rows } = await sql<Row>`
    select (select count(*) from event_q where project_id = ${projectId}::uuid) as waiting,
      (select count(*) from event_due where project_id = ${projectId}::uuid) as later,
      (select count(*) from outbox_q where project_id = ${projectId}::uuid) as commits,
      (select min(q.id::text) from generate_series(0, ${sql.lit(PARTITIONS - 1)}) as p(part)
        cross join lateral (
          select event_id as id from event_q where part = p.part and project_id = ${projectId}::uuid
          order by seq limit 1) q) as event_id,
      (select min(q.id::text) from generate_series(0, ${sql.lit(OUTBOX_PARTITIONS - 1)}) as p(part)
        cross join lateral (
          select outbox_ids[1] as id from outbox_q where part = p.part and project_id = ${projectId}::uuid
          order by seq limit 1) q) as outbox_id,
      (select sum(total) from event_types where project_id = ${projectId}::uuid) as processed`.execute(db);
  const row = rows[0]!;
  const age = (id: string | null): number | null =>
    id === null ? null : Math.max(0, Math.round((serverNow.getTime() - timeOfId(id)) / 1_000));
  return {
    events: {
      waiting: row.waiting,
      later: row.later,
      oldestSeconds: age(row.event_id),
      perSecond: rateOf(projectId, { atMs: performance.now(), processed: row.processed ?? 0 }),
    },
    commits: { waiting: row.commits, oldestSeconds: age(row.outbox_id) },
  };
};
