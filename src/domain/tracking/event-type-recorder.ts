import { sql } from "kysely";
import type { Json } from "../kernel/events/events.ts";
import { createSizedCache } from "../kernel/sized-cache.ts";
import type { Work } from "../kernel/work.ts";
import {
  createShapeLearner,
  mergeShapes,
  type PropertyShapes,
  type ShapeLearner,
} from "./property-shapes.ts";

/** Maximum listed event types of one project. */
export const EVENT_TYPES_MAX = 1_000;
/**
 * Maximum types, of all projects, that a process learns shapes of, and their memory; idle ones are evicted.
 */
const LEARNT_MAX = 5_000;
const LEARNT_BYTES_MAX = 64 * 1024 * 1024;
/** Maximum types counted between two flushes: of a project, which lists no more anyway, and in all. */
const COUNTED_MAX = 2 * EVENT_TYPES_MAX;
const ALL_COUNTED_MAX = 100_000;
/** Events of each type that are sampled first between two flushes, and the sampling interval after these. */
const LOOKED_AT_FIRST = 50;
const LOOK_EVERY = 64;

/** Observations of an event type by a process since the last flush. */
export type SeenType = {
  projectId: string;
  name: string;
  total: number;
  firstMs: number;
  lastMs: number;
  /** Undefined when nothing new was learnt. */
  shapes: PropertyShapes | undefined;
};

export type SeenEvent = { projectId: string; externalUserId: string; eventType: string; properties: Json };

/**
 * Counts the events that this process evaluates, by type, and learns the shapes of their properties from a
 * sample. Counts are exact except for those not yet flushed by a process that is killed, and for types of a
 * project beyond COUNTED_MAX in one flush.
 */
export type EventTypeRecorder = {
  /** To be called after the commit that evaluated them. */
  seen(events: readonly SeenEvent[], nowMs: number): void;
  /** Returns the observations since the last call, without shapes; the caller must write them. */
  take(): SeenType[];
  /** Adds the learnt shapes to an observation that was taken. */
  describe(type: SeenType): SeenType;
  /** Returns observations that could not be written, to be counted again. */
  restore(types: readonly SeenType[]): void;
};

const keyOf = ({ projectId, name }: { projectId: string; name: string }): string => `${projectId}\0${name}`;

/** @param bytesMax maximum memory of learnt shapes */
export const createEventTypeRecorder = (bytesMax = LEARNT_BYTES_MAX): EventTypeRecorder => {
  const learners = createSizedCache<ShapeLearner>({ items: LEARNT_MAX, bytes: bytesMax });
  let counts = new Counts();

  const learn = (key: string, { projectId, properties, externalUserId }: SeenEvent): void => {
    const learner = learners.get(key) ?? createShapeLearner();
    learner.learn(properties, externalUserId);
    learners.keep(key, learner, { owner: projectId, bytes: learner.bytes });
  };

  return {
    seen: (events, nowMs) => {
      for (const event of events) {
        // The service's own events are not among the integrator's event types.
        if (event.eventType.startsWith("system.")) continue;
        const { projectId, eventType: name } = event;
        const key = keyOf({ projectId, name });
        const count = counts.get(key) ?? counts.open(key, { projectId, name }, nowMs);
        if (!count) continue;
        count.total++;
        count.lastMs = nowMs;
        if (count.total <= LOOKED_AT_FIRST || count.total % LOOK_EVERY === 0) learn(key, event);
      }
    },
    take: () => {
      const taken = counts.all();
      counts = new Counts();
      return taken;
    },
    describe: (type) => ({ ...type, shapes: learners.get(keyOf(type))?.take() ?? type.shapes }),
    restore: (types) => {
      for (const type of types) counts.add(keyOf(type), type);
    },
  };
};

/** Counts by type key, bounded per project and in all. */
class Counts {
  readonly #types = new Map<string, SeenType>();
  readonly #ofProject = new Map<string, number>();

  get(key: string): SeenType | undefined {
    return this.#types.get(key);
  }

  /** Starts counting a type; undefined when there are too many. */
  open(key: string, type: Pick<SeenType, "projectId" | "name">, nowMs: number): SeenType | undefined {
    return this.#put(key, { ...type, total: 0, firstMs: nowMs, lastMs: nowMs, shapes: undefined });
  }

  add(key: string, type: SeenType): void {
    const known = this.#types.get(key);
    if (!known) return void this.#put(key, type);
    known.total += type.total;
    known.firstMs = Math.min(known.firstMs, type.firstMs);
    known.shapes ??= type.shapes;
  }

  all(): SeenType[] {
    return [...this.#types.values()];
  }

  #put(key: string, type: SeenType): SeenType | undefined {
    const count = this.#ofProject.get(type.projectId) ?? 0;
    if (count >= COUNTED_MAX || this.#types.size >= ALL_COUNTED_MAX) return undefined;
    this.#ofProject.set(type.projectId, count + 1);
    this.#types.set(key, type);
    return type;
  }
}

type KnownRow = { project_id: string; name: string; properties: PropertyShapes };

/**
 * Adds observations to the table in two statements. Types beyond EVENT_TYPES_MAX of a project are ignored.
 * Concurrent processes lock in one order, so they wait for each other without deadlocks.
 */
export const writeEventTypes = async ({ db }: Work, types: readonly SeenType[]): Promise<void> => {
  const sorted = types.toSorted((a, b) => (keyOf(a) < keyOf(b) ? -1 : 1));
  const names = JSON.stringify(sorted.map(({ projectId, name }) => ({ p: projectId, n: name })));
  const known = await sql<KnownRow>`
    select t.project_id, t.name, t.properties from event_types t
    join json_to_recordset(${names}::json) as x(p uuid, n text) on t.project_id = x.p and t.name = x.n
    order by t.project_id, t.name for update of t`.execute(db);
  const shapesOf = new Map(
    known.rows.map(({ project_id: projectId, name, properties }) => [keyOf({ projectId, name }), properties]),
  );
  const rows = sorted.map((type) => ({
    p: type.projectId,
    n: type.name,
    t: type.total,
    f: type.firstMs,
    l: type.lastMs,
    s: type.shapes ? mergeShapes(shapesOf.get(keyOf(type)) ?? {}, type.shapes) : null,
    k: shapesOf.has(keyOf(type)),
  }));
  await sql`
    insert into event_types as t (project_id, name, total, first_seen_at, last_seen_at, properties)
    select p, n, x.t, to_timestamp(f / 1000.0), to_timestamp(l / 1000.0), coalesce(s, '{}'::jsonb)
    from (select x.*, row_number() over (partition by p, k order by n) as place
      from json_to_recordset(${JSON.stringify(rows)}::json) as x(
        p uuid, n text, t bigint, f float8, l float8, s jsonb, k boolean)) x
    where k or exists (select 1 from projects r where r.id = x.p)
      and place + (select count(*) from event_types e where e.project_id = x.p) <= ${EVENT_TYPES_MAX}
    order by p, n
    on conflict (project_id, name) do update set total = t.total + excluded.total,
      first_seen_at = least(t.first_seen_at, excluded.first_seen_at),
      last_seen_at = greatest(t.last_seen_at, excluded.last_seen_at),
      properties = case when excluded.properties = '{}'::jsonb then t.properties
        else t.properties || excluded.properties end`.execute(db);
};
