import { z } from "zod";
import { kindOf } from "../conditions/condition-kinds.ts";
import type { ConditionInputs, Test } from "../conditions/condition.ts";
import { compileGroup, conditionMetrics, conditionProblems, Group } from "../language/groups.ts";
import {
  ATTRIBUTES,
  compilePath,
  currencyOf,
  Description,
  Key,
  Name,
  PLAYER,
  referencesIn,
} from "../language/syntax.ts";
import { type Problem, refuseAll, type Tree, typeProblems, visitLeaves } from "../language/trees.ts";
import type { Metric } from "../metrics/compile.ts";
import { HOLDINGS, type InputReader, type PlayerState } from "../player-state.ts";
import { playerOf, type Turn, write } from "../turn.ts";
import type { Json } from "../../kernel/events/events.ts";
import { newId } from "../../kernel/ids.ts";

/** Returns the fields of the player named by the references in a condition. */
const referencedFields = (condition: unknown): string[] =>
  referencesIn(condition)
    .filter(({ referent }) => referent.startsWith(PLAYER))
    .map(({ referent }) => referent.slice(PLAYER.length));

/** Returns the inputs of a segment's conditions; each name once. */
export const inputsOf = (definition: unknown): ConditionInputs => {
  const names = new Set<string>();
  const segmentKeys = new Set<string>();
  let isTimed = false;
  visitLeaves(definition as Tree<Json & { type: string }>, (condition) => {
    const own = kindOf(condition.type)?.inputs(condition);
    own?.names.forEach((name) => names.add(name));
    own?.segmentKeys.forEach((key) => segmentKeys.add(key));
    const fields = referencedFields(condition);
    for (const field of fields) names.add(`field:${field}`);
    isTimed ||= own?.isTimed === true || fields.includes("lives");
  });
  const read = [...segmentKeys];
  return { names: [...names, ...read.map((key) => `segment:${key}`)], segmentKeys: read, isTimed };
};

const FIELDS: Record<string, InputReader> = {
  createdAt: (player) => player.createdAt.getTime(),
  lastSeenAt: (player) => player.lastSeenAt?.getTime(),
};

const fieldReader = (field: string): InputReader => {
  const currencyKey = currencyOf(field);
  if (currencyKey !== undefined) return readerOf(`currency:${currencyKey}`);
  if (field.startsWith(ATTRIBUTES)) {
    const read = compilePath(field.slice(ATTRIBUTES.length));
    return (player) => read(player.attributes);
  }
  return FIELDS[field] ?? ((player) => player[field as keyof PlayerState]);
};

const READERS: Readonly<Record<string, (name: string) => InputReader>> = {
  field: fieldReader,
  metric: (id) => (player) => player.doc.c?.[id],
  ...Object.assign({}, ...Object.values(HOLDINGS).map(({ inputs }) => inputs)),
};

/** Builds a reader of the input with a name, such as `field:xp` or `metric:{id}`. */
const readerOf = (name: string): InputReader => {
  const colon = name.indexOf(":");
  const [kind, rest] = colon === -1 ? [name, ""] : [name.slice(0, colon), name.slice(colon + 1)];
  return READERS[kind]?.(rest) ?? (() => undefined);
};

/** Numbers inputs by name, each once: the place of one in `readers`. */
export const indexInputs = (
  names: readonly string[],
): { placeOf: ReadonlyMap<string, number>; readers: InputReader[] } => {
  const once = [...new Set(names)];
  return { placeOf: new Map(once.map((name, place) => [name, place])), readers: once.map(readerOf) };
};

/** Maximum segments of one project that are not archived. */
export const SEGMENTS_MAX = 200;

const EVENT_ONLY = "cannot be about the event: these conditions are about the player, whatever has happened";

const eventReferences = (value: unknown): Problem[] =>
  referencesIn(value)
    .filter(({ referent }) => referent.startsWith("event."))
    .map(({ path }) => ({ path, message: EVENT_ONLY }));

const eventProblems = (value: unknown): Problem[] => {
  const conditions = typeProblems(value, (type) => type !== "event_property", EVENT_ONLY);
  return conditions.length > 0 ? conditions : eventReferences(value);
};

const explain = (definition: unknown, context: z.RefinementCtx): unknown => {
  const wrong = conditionProblems(definition);
  // Only valid trees of conditions are walked, since their size is bounded.
  const problems = wrong.length > 0 ? wrong : eventProblems(definition);
  return refuseAll(definition, problems, context);
};

/** Conditions of membership in a segment: those of rules, except `event_property`. */
export const SegmentConditions = z.preprocess(explain, Group);

export const segmentShape = z.strictObject({
  key: Key,
  name: Name,
  description: Description.optional(),
  kind: z
    .enum(["STATIC", "DYNAMIC"])
    .default("STATIC")
    .describe("STATIC: members are added and removed explicitly. DYNAMIC: players who meet the definition"),
  definition: SegmentConditions.optional().describe("For DYNAMIC segments"),
});

const fits = ({ kind, definition }: z.output<typeof segmentShape>, context: z.RefinementCtx): void => {
  if ((kind === "DYNAMIC") === (definition !== undefined)) return;
  const message = kind === "DYNAMIC" ? "is required for a DYNAMIC segment" : "goes with kind DYNAMIC";
  context.addIssue({ code: "custom", path: ["definition"], message });
};

/** A segment of a project's players. */
export const Segment = segmentShape.superRefine(fits);
export type Segment = z.output<typeof Segment>;

/** A segment compiled for evaluation. */
export type CompiledSegment = {
  id: string;
  definition: Segment;
  /** Counters that its conditions read. */
  metrics: readonly Metric[];
  inputs: ConditionInputs;
  /** Returns whether the turn's player meets the definition; undefined for a STATIC segment. */
  test: Test | undefined;
};

const NO_INPUTS: ConditionInputs = { names: [], segmentKeys: [], isTimed: false };

export const compileSegment = ({ id, definition }: { id: string; definition: Segment }): CompiledSegment => {
  const conditions = definition.definition;
  return {
    id,
    definition,
    metrics: conditions ? conditionMetrics(conditions) : [],
    inputs: conditions ? inputsOf(conditions) : NO_INPUTS,
    test: conditions && compileGroup(conditions),
  };
};

/**
 * Sorts segments so that each comes after those that it reads.
 * @returns the keys of a cycle instead, if there is one
 */
export const orderSegments = <S extends { key: string; segmentKeys: readonly string[] }>(
  segments: readonly S[],
): { ordered: S[] } | { ring: string[] } => {
  const byKey = new Map(segments.map((segment) => [segment.key, segment]));
  const ordered: S[] = [];
  const done = new Set<string>();
  const way: string[] = [];
  const place = (segment: S): string[] | undefined => {
    if (done.has(segment.key)) return undefined;
    if (way.includes(segment.key)) return [...way.slice(way.indexOf(segment.key)), segment.key];
    way.push(segment.key);
    for (const key of segment.segmentKeys) {
      const next = byKey.get(key);
      const ring = next && place(next);
      if (ring) return ring;
    }
    way.pop();
    done.add(segment.key);
    ordered.push(segment);
    return undefined;
  };
  for (const segment of segments) {
    const ring = place(segment);
    if (ring) return { ring };
  }
  return { ordered };
};

/** A DYNAMIC segment in the index. */
type DynamicSegment = {
  key: string;
  test: Test;
  isTimed: boolean;
  /** Indexes of its inputs in `readers`. */
  inputs: readonly number[];
  /** Index of its own membership among the inputs, where another segment reads it. */
  ownInput: number | undefined;
};

/** The DYNAMIC segments of a project, each after those that it reads, and all their inputs. */
export type SegmentIndex = {
  dynamic: readonly DynamicSegment[];
  readers: readonly InputReader[];
};

/** To be built once per config version. */
export const indexSegments = (segments: readonly CompiledSegment[]): SegmentIndex => {
  const dynamic = segments.flatMap(({ definition: { key }, test, inputs }) =>
    test ? [{ key, test, ...inputs }] : [],
  );
  const order = orderSegments(dynamic);
  // A cycle cannot be saved; if there is one nevertheless, its segments are evaluated in the order of keys.
  const ordered = "ring" in order ? dynamic : order.ordered;
  const { placeOf, readers } = indexInputs(ordered.flatMap((segment) => segment.names));
  return {
    dynamic: ordered.map((segment) => ({
      key: segment.key,
      test: segment.test,
      isTimed: segment.isTimed,
      inputs: segment.names.map((name) => placeOf.get(name)!),
      ownInput: placeOf.get(`segment:${segment.key}`),
    })),
    readers,
  };
};

/**
 * The inputs of segments or quests when they were last evaluated. `isNew`: the player's have never been
 * evaluated, so all of them must be.
 */
type Seen = { values: unknown[]; isNew: boolean };
export type SeenInputs = WeakMap<PlayerState, Seen>;

/** Returns a function that makes the recorded inputs what they are now, for a turn that is undone as a whole. */
export const saveSeen = (inputs: SeenInputs, player: PlayerState): (() => void) => {
  const seen = inputs.get(player);
  const before = seen && { values: [...seen.values], isNew: seen.isNew };
  return () => void (before ? inputs.set(player, before) : inputs.delete(player));
};

/** Updates recorded inputs. @returns the indexes of those that have changed */
export const updateInputs = (
  readers: readonly InputReader[],
  player: PlayerState,
  { values }: Seen,
): Set<number> | undefined => {
  let changed: Set<number> | undefined;
  for (let place = 0; place < readers.length; place++) {
    const value = readers[place]!(player);
    if (Object.is(value, values[place])) continue;
    values[place] = value;
    (changed ??= new Set()).add(place);
  }
  return changed;
};

/**
 * By loaded player. The stored segments agreed with the stored inputs, so comparing these with the current
 * ones shows which segments to evaluate again.
 */
const SEEN: SeenInputs = new WeakMap();

/** See `saveSeen`. */
export const saveSeenSegments = (player: PlayerState): (() => void) => saveSeen(SEEN, player);

/** Records the inputs of a player's segments before a turn changes any of them. */
export const watchSegments = ({ dynamic, readers }: SegmentIndex, player: PlayerState): void => {
  if (dynamic.length === 0 || SEEN.has(player)) return;
  const values = readers.map((read) => read(player));
  // A player who has just been created has no line in the player stream yet.
  SEEN.set(player, { values, isNew: player.seq === 0 });
};

/**
 * Refreshes the dynamic segments that may have changed: `player.segment_entered`, `player.segment_left`. Only
 * those that read a changed input are evaluated. Times are measured at the turn's event, or, when that is
 * late, at the latest event of the player.
 */
export const refreshSegments = (index: SegmentIndex, turn: Turn): void => {
  if (index.dynamic.length === 0) return;
  const seen = SEEN.get(turn.player)!;
  const changed = updateInputs(index.readers, turn.player, seen);
  if (changed || seen.isNew) refreshSome(index, turn, { seen, changed: changed ?? new Set(), isTime: false });
};

/** As `refreshSegments`, including unchanged ones: all, or those that change with time alone. */
export const refreshAllSegments = (index: SegmentIndex, turn: Turn, which: "ALL" | "TIMED"): void => {
  const seen = SEEN.get(turn.player);
  if (!seen) return;
  const changed = updateInputs(index.readers, turn.player, seen) ?? new Set();
  seen.isNew ||= which === "ALL";
  refreshSome(index, turn, { seen, changed, isTime: true });
};

type Refresh = { seen: Seen; changed: Set<number>; isTime: boolean };

const refreshSome = ({ dynamic }: SegmentIndex, turn: Turn, { seen, changed, isTime }: Refresh): void => {
  const asOf = asOfLatest(turn);
  for (const segment of dynamic) {
    const { key, inputs, isTimed, ownInput } = segment;
    const isAffected = seen.isNew || (isTime && isTimed) || inputs.some((place) => changed.has(place));
    if (!isAffected) continue;
    const isMember = segment.test(asOf);
    if (!move(turn, key, isMember) || ownInput === undefined) continue;
    changed.add(ownInput);
    seen.values[ownInput] = isMember;
  }
  seen.isNew = false;
};

/** Membership is of the present: a late event does not restore an earlier state. */
const asOfLatest = (turn: Turn): Turn => {
  const { event, player } = turn;
  const latestMs = player.lastSeenAt?.getTime() ?? event.at;
  return latestMs > event.at ? { ...turn, event: { ...event, at: latestMs } } : turn;
};

/**
 * Records that the turn's player leaves a segment, or is merged into another: at the turn's event, or, when
 * that is late, at the latest event of the player. A spell of no time is none.
 */
export const endSpell = (turn: Turn, segmentKey: string): void => {
  const { player, nowMs } = turn;
  const enteredMs = player.segments.get(segmentKey);
  const leftMs = Math.min(asOfLatest(turn).event.at, nowMs);
  if (enteredMs === undefined || enteredMs >= leftMs) return;
  const { id: playerId, projectId } = player;
  write(turn, "segmentSpells", { id: newId(), projectId, playerId, segmentKey, enteredMs, leftMs });
};

/** @returns whether that was a change */
const move = (turn: Turn, segmentKey: string, isMember: boolean): boolean => {
  const { player, event, nowMs } = turn;
  if (player.segments.has(segmentKey) === isMember) return false;
  if (!isMember) endSpell(turn, segmentKey);
  if (isMember) player.segments.set(segmentKey, Math.min(event.at, nowMs));
  else player.segments.delete(segmentKey);
  player.dirty.segments.add(segmentKey);
  const type = isMember ? "player.segment_entered" : "player.segment_left";
  turn.emit(type, { ...playerOf(turn), segmentKey });
  return true;
};

/** Adds the player to a static segment, or removes it. @returns a message when that is not possible */
export const setMembership = (turn: Turn, segmentKey: string, isMember: boolean): string | undefined => {
  const segment = turn.project.segments.get(segmentKey);
  if (!segment) return `there is no segment ${segmentKey}`;
  if (segment.definition.kind === "DYNAMIC")
    return `segment ${segmentKey} is DYNAMIC: its definition decides who is in it`;
  move(turn, segmentKey, isMember);
  return undefined;
};
