import { sql } from "kysely";
import { isPath, PATH_MAX_SEGMENTS } from "../evaluation/language/syntax.ts";
import { createSizedCache } from "../kernel/caches.ts";
import type { Json } from "../kernel/events/events.ts";
import { fnv1a } from "../kernel/ids.ts";
import type { Work } from "../kernel/work.ts";

/** Maximum property paths remembered for one event type. */
export const PATHS_MAX = 100;
/** Maximum sample values of one path. */
export const SAMPLES_MAX = 5;
/** Maximum length of a sample value, in characters. */
const SAMPLE_MAX_LENGTH = 40;
/**
 * Number of players that must have sent a value before it becomes a sample. Personal values, such as a name
 * or an address, are therefore never stored, and need not be erased.
 */
export const SAMPLE_PLAYERS_MIN = 3;
/** Maximum values of one path whose senders are counted; the oldest is evicted. */
const CANDIDATES_MAX = 20;

/** The known types and sample values of one property path. */
type PropertyShape = { types: string[]; samples: unknown[] };
export type PropertyShapes = Record<string, PropertyShape>;

type Path = {
  types: Set<string>;
  /** Keyed by JSON text. */
  samples: Set<string>;
  /** Hashes of the players that sent a value, by its JSON text. In memory only. */
  candidates: Map<string, readonly number[]>;
};

/**
 * Estimated memory of a path with its name and types, and of a value with its senders, besides their
 * characters.
 */
const PATH_BYTES = 600;
const VALUE_BYTES = 200;
/** Estimated memory of an empty learner. */
const LEARNER_BYTES = 500;

/** Learns the shape of an event type's properties. */
export const createShapeLearner = () => {
  const paths = new Map<string, Path>();
  let isNew = false;
  let bytes = LEARNER_BYTES;

  const open = (path: string): Path | undefined => {
    if (paths.size >= PATHS_MAX) return undefined;
    const opened: Path = { types: new Set(), samples: new Set(), candidates: new Map() };
    paths.set(path, opened);
    bytes += PATH_BYTES + 2 * path.length;
    return opened;
  };

  const see = (path: string, value: unknown, player: number): void => {
    const known = paths.get(path) ?? open(path);
    if (!known) return;
    const type = typeOf(value);
    if (!known.types.has(type)) {
      known.types.add(type);
      isNew = true;
    }
    if (known.samples.size >= SAMPLES_MAX) return;
    bytes -= bytesOf(known);
    if (trySample(known, value, player)) isNew = true;
    bytes += bytesOf(known);
  };

  const visit = (object: Json, prefix: string, at: { player: number; depth: number }): void => {
    for (const name of Object.keys(object)) {
      // Names that no rule can refer to are ignored: those of a map keyed by addresses, for example.
      if (name.includes(".") || !isPath(name)) continue;
      const path = prefix === "" ? name : `${prefix}.${name}`;
      const value = object[name];
      const isInner = value !== null && typeof value === "object" && !Array.isArray(value);
      if (isInner && at.depth < PATH_MAX_SEGMENTS) visit(value as Json, path, { ...at, depth: at.depth + 1 });
      else see(path, value, at.player);
    }
  };

  return {
    /** Estimated memory, in bytes. */
    get bytes(): number {
      return bytes;
    },
    learn: (properties: Json, externalUserId: string): void =>
      visit(properties, "", { player: fnv1a(externalUserId), depth: 1 }),
    /** Returns the known shapes; undefined when nothing was learnt since the last call. */
    take: (): PropertyShapes | undefined => {
      if (!isNew) return undefined;
      isNew = false;
      return Object.fromEntries(
        [...paths].map(([path, { types, samples }]) => [
          path,
          { types: [...types], samples: [...samples].map((text): unknown => JSON.parse(text)) },
        ]),
      );
    },
  };
};

/** Values are short, so their lengths are not measured. */
const bytesOf = ({ samples, candidates }: Path): number => (samples.size + candidates.size) * VALUE_BYTES;

/** @returns whether the value has become a sample */
const trySample = ({ samples, candidates }: Path, value: unknown, player: number): boolean => {
  const text = sampleOf(value);
  if (text === undefined || samples.has(text)) return false;
  const before = candidates.get(text) ?? [];
  if (before.includes(player)) return false;
  if (before.length + 1 < SAMPLE_PLAYERS_MIN) {
    if (before.length === 0 && candidates.size >= CANDIDATES_MAX)
      candidates.delete(candidates.keys().next().value!);
    candidates.set(text, [...before, player]);
    return false;
  }
  candidates.delete(text);
  samples.add(text);
  if (samples.size >= SAMPLES_MAX) candidates.clear();
  return true;
};

const typeOf = (value: unknown): string => {
  if (value === null) return "null";
  return Array.isArray(value) ? "array" : typeof value;
};

/** Returns the JSON of a short scalar; lists and objects are not sampled. */
const sampleOf = (value: unknown): string | undefined => {
  if (value === null || typeof value === "object") return undefined;
  if (typeof value === "string" && value.length > SAMPLE_MAX_LENGTH) return undefined;
  return JSON.stringify(value);
};

/** Merges the shapes learnt by two processes. */
export const mergeShapes = (a: PropertyShapes, b: PropertyShapes): PropertyShapes => {
  const merged: PropertyShapes = { ...a };
  for (const [path, { types, samples }] of Object.entries(b)) {
    const known = merged[path];
    if (!known && Object.keys(merged).length >= PATHS_MAX) continue;
    const texts = new Set([...(known?.samples ?? []), ...samples].map((value) => JSON.stringify(value)));
    merged[path] = {
      types: [...new Set([...(known?.types ?? []), ...types])],
      samples: [...texts].slice(0, SAMPLES_MAX).map((text): unknown => JSON.parse(text)),
    };
  }
  return merged;
};

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
type SeenType = {
  projectId: string;
  name: string;
  total: number;
  firstMs: number;
  lastMs: number;
  /** Undefined when nothing new was learnt. */
  shapes: PropertyShapes | undefined;
};

type SeenEvent = { projectId: string; externalUserId: string; eventType: string; properties: Json };

const keyOf = ({ projectId, name }: { projectId: string; name: string }): string => `${projectId}\0${name}`;

/**
 * Counts the events that this process evaluates, by type, and learns the shapes of their properties from a
 * sample. Counts are exact except for those not yet flushed by a process that is killed, and for types of a
 * project beyond COUNTED_MAX in one flush.
 * @param bytesMax maximum memory of learnt shapes
 */
export const createEventTypeRecorder = (bytesMax = LEARNT_BYTES_MAX) => {
  const learners = createSizedCache<ReturnType<typeof createShapeLearner>>({
    items: LEARNT_MAX,
    bytes: bytesMax,
  });
  let counts = new Counts();

  const learn = (key: string, { projectId, properties, externalUserId }: SeenEvent): void => {
    const learner = learners.get(key) ?? createShapeLearner();
    learner.learn(properties, externalUserId);
    learners.keep(key, learner, { owner: projectId, bytes: learner.bytes });
  };

  return {
    /** To be called after the commit that evaluated them. */
    seen: (events: readonly SeenEvent[], nowMs: number): void => {
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
    /** Returns the observations since the last call, without shapes; the caller must write them. */
    take: (): SeenType[] => {
      const taken = counts.all();
      counts = new Counts();
      return taken;
    },
    /** Adds the learnt shapes to an observation that was taken. */
    describe: (type: SeenType): SeenType => ({
      ...type,
      shapes: learners.get(keyOf(type))?.take() ?? type.shapes,
    }),
    /** Returns observations that could not be written, to be counted again. */
    restore: (types: readonly SeenType[]): void => {
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

/**
 * Adds observations to the table in two statements. Types beyond EVENT_TYPES_MAX of a project are ignored.
 * Concurrent processes lock in one order, so they wait for each other without deadlocks.
 */
export const writeEventTypes = async ({ db }: Work, types: readonly SeenType[]): Promise<void> => {
  const sorted = types.toSorted((a, b) => (keyOf(a) < keyOf(b) ? -1 : 1));
  const names = JSON.stringify(sorted.map(({ projectId, name }) => ({ p: projectId, n: name })));
  const known = await sql<Pick<SeenType, "projectId" | "name"> & { properties: PropertyShapes }>`
    select t.project_id as "projectId", t.name, t.properties from event_types t
    join json_to_recordset(${names}::json) as x(p uuid, n text) on t.project_id = x.p and t.name = x.n
    order by t.project_id, t.name for update of t`.execute(db);
  const shapesOf = new Map(known.rows.map((row) => [keyOf(row), row.properties]));
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
