import type { Json } from "../../kernel/events/events.ts";
import { kindOf } from "../conditions/condition-kinds.ts";
import type { ConditionInputs } from "../conditions/condition.ts";
import { HOLDINGS, type InputReader, type PlayerState } from "../player-state.ts";
import { compilePath } from "../language/paths.ts";
import { PLAYER, referencesIn } from "../language/references.ts";
import { type Tree, visitLeaves } from "../language/trees.ts";

/** Inputs of a segment's definition; each name once. */
export type SegmentInputs = ConditionInputs;

const CURRENCY = "currencies.";
const ATTRIBUTE = "attributes.";

/** Returns the fields of the player named by the references in a condition. */
const referencedFields = (condition: unknown): string[] =>
  referencesIn(condition)
    .filter(({ referent }) => referent.startsWith(PLAYER))
    .map(({ referent }) => referent.slice(PLAYER.length));

/** Returns the inputs of a segment's conditions. */
export const inputsOf = (definition: unknown): SegmentInputs => {
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
  if (field.startsWith(CURRENCY)) return readerOf(`currency:${field.slice(CURRENCY.length)}`);
  if (field.startsWith(ATTRIBUTE)) {
    const read = compilePath(field.slice(ATTRIBUTE.length));
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
export const readerOf = (name: string): InputReader => {
  const colon = name.indexOf(":");
  const [kind, rest] = colon === -1 ? [name, ""] : [name.slice(0, colon), name.slice(colon + 1)];
  return READERS[kind]?.(rest) ?? (() => undefined);
};
