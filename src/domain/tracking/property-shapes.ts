import type { Json } from "../kernel/events/events.ts";
import { fnv1a } from "../kernel/ids.ts";
import { isPath, PATH_MAX_SEGMENTS } from "../evaluation/language/syntax.ts";

/** Maximum property paths remembered for one event type. */
export const PATHS_MAX = 100;
/** Maximum sample values of one path. */
export const SAMPLES_MAX = 5;
/** Maximum length of a sample value, in characters. */
export const SAMPLE_MAX_LENGTH = 40;
/**
 * Number of players that must have sent a value before it becomes a sample. Personal values, such as a name
 * or an address, are therefore never stored, and need not be erased.
 */
export const SAMPLE_PLAYERS_MIN = 3;
/** Maximum values of one path whose senders are counted; the oldest is evicted. */
const CANDIDATES_MAX = 20;

/** The known types and sample values of one property path. */
export type PropertyShape = { types: string[]; samples: unknown[] };
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
export type ShapeLearner = {
  learn(properties: Json, externalUserId: string): void;
  /** Returns the known shapes; undefined when nothing was learnt since the last call. */
  take(): PropertyShapes | undefined;
  /** Estimated memory, in bytes. */
  readonly bytes: number;
};

export const createShapeLearner = (): ShapeLearner => {
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
    get bytes() {
      return bytes;
    },
    learn: (properties, externalUserId) => visit(properties, "", { player: fnv1a(externalUserId), depth: 1 }),
    take: () => {
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
