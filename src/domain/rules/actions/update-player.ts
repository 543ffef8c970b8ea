import { z } from "zod";
import type { Json } from "../../events.ts";
import { updatePlayer as update } from "../../progression/profile.ts";
import type { Turn } from "../../progression/turn.ts";
import { compileExpression, Expression } from "../expressions.ts";
import { RuleFailure } from "../failures.ts";
import { compilePath } from "../paths.ts";
import { compileReference, isReferenceObject, Reference } from "../references.ts";
import { Key, Path, Scalar } from "../syntax.ts";
import { actionFields, actionKind, causeOf } from "./action.ts";

const FIELDS_MAX = 20;

const fewKeys = (record: Record<string, unknown>): boolean => Object.keys(record).length <= FIELDS_MAX;
const TOO_MANY = `more than ${FIELDS_MAX} attributes`;

const Value = z.union([Scalar, Reference, z.array(Scalar).max(50)], {
  error: 'must be a string, number, boolean, null, {"$ref"} or a list of at most 50 of these',
});

const schema = z
  .strictObject({
    type: z.literal("update_player"),
    ...actionFields,
    set: z.record(Path, Value).refine(fewKeys, TOO_MANY).optional(),
    increment: z.record(Path, Expression).refine(fewKeys, TOO_MANY).optional(),
    unset: z.array(Path).max(FIELDS_MAX).optional(),
    addTags: z.array(Key).max(FIELDS_MAX).optional(),
    removeTags: z.array(Key).max(FIELDS_MAX).optional(),
  })
  .refine((action) => action.set ?? action.increment ?? action.unset ?? action.addTags ?? action.removeTags, {
    message: "needs at least one of set, increment, unset, addTags, removeTags",
  });

type Setter = (turn: Turn, values: Json) => void;

const setterOf = ([path, value]: [string, unknown]): Setter => {
  if (!isReferenceObject(value)) return (_turn, values) => void (values[path] = value);
  const read = compileReference(value);
  return (turn, values) => {
    const found = read(turn);
    if (found === undefined) turn.warn(`${value.$ref} is missing: attribute ${path} is left alone`);
    else values[path] = found;
  };
};

const incrementOf = ([path, expression]: [string, Expression]): Setter => {
  const current = compilePath(path);
  const step = compileExpression(expression);
  return (turn, values) => {
    const before = current(turn.player.attributes) ?? 0;
    if (typeof before !== "number") turn.warn(`attribute ${path} is not a number: it counts from 0`);
    const sum = (typeof before === "number" ? before : 0) + step(turn);
    values[path] = Math.max(Number.MIN_SAFE_INTEGER, Math.min(Number.MAX_SAFE_INTEGER, sum));
  };
};

/** Changes attributes and tags. A result beyond the limits of a profile fails the rule. */
export const updatePlayer = actionKind({
  type: "update_player",
  schema,
  canFail: true,
  compile: (action, firing) => {
    const setters = [
      ...Object.entries(action.set ?? {}).map(setterOf),
      ...Object.entries(action.increment ?? {}).map(incrementOf),
    ];
    const { unset = [], addTags = [], removeTags = [] } = action;
    return (turn) => {
      const set: Json = {};
      for (const assign of setters) assign(turn, set);
      const problem = update(turn, { set, unset, addTags, removeTags }, causeOf(turn, firing));
      if (problem !== undefined) throw new RuleFailure(firing.actionId, problem);
    };
  },
});
