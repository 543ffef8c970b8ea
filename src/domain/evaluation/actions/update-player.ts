import { z } from "zod";
import { about, CAUSES } from "../causes.ts";
import { compilePath, Key, mentionsAt, Path, smallRecord, toSafe } from "../language/syntax.ts";
import type { Json } from "../../kernel/events/events.ts";
import type { PlayerState } from "../player-state.ts";
import { updatePlayer as update } from "../profile.ts";
import type { Turn } from "../turn.ts";
import { setMembership } from "../segments/membership.ts";
import { compileExpression, Expression } from "../language/expressions.ts";
import { RuleFailure } from "../running/outcome.ts";
import { actionFields, actionKind, compileValues, Value } from "./action.ts";

const FIELDS_MAX = 20;
const SEGMENTS_MAX = 10;

const NOT_STATIC = "the members of a DYNAMIC segment follow from its definition";
const TOO_MANY = `more than ${FIELDS_MAX} attributes`;

const changes = {
  set: smallRecord(z.record(Path, Value), FIELDS_MAX, TOO_MANY).optional(),
  increment: smallRecord(z.record(Path, Expression), FIELDS_MAX, TOO_MANY).optional(),
  unset: z.array(Path).max(FIELDS_MAX).optional(),
  addTags: z.array(Key).max(FIELDS_MAX).optional(),
  removeTags: z.array(Key).max(FIELDS_MAX).optional(),
  addToSegments: z.array(Key).max(SEGMENTS_MAX).optional(),
  removeFromSegments: z.array(Key).max(SEGMENTS_MAX).optional(),
};
const CHANGES = Object.keys(changes) as (keyof typeof changes)[];

const schema = z
  .strictObject({ type: z.literal("update_player"), ...actionFields, ...changes })
  .refine((action) => CHANGES.some((name) => action[name] !== undefined), {
    message: `needs at least one of ${CHANGES.join(", ")}`,
  });

type Lists = "unset" | "addTags" | "removeTags" | "addToSegments" | "removeFromSegments";
/** `increment`: amounts to add to numbers, by path. */
type Resolved = Record<Lists, readonly string[]> & { set: Json; increment: Record<string, number> };

const compileSteps = (increment: Readonly<Record<string, Expression>>) => {
  const steps = Object.entries(increment).map(([path, step]) => [path, compileExpression(step)] as const);
  return (turn: Turn): Record<string, number> =>
    Object.fromEntries(steps.map(([path, stepOf]) => [path, stepOf(turn)]));
};

const counted = (turn: Turn, increment: Record<string, number>): Json => {
  const { attributes }: PlayerState = turn.player;
  const values: Json = {};
  for (const [path, step] of Object.entries(increment)) {
    const before = compilePath(path)(attributes) ?? 0;
    if (typeof before !== "number") turn.warn(`attribute ${path} is not a number: it counts from 0`);
    values[path] = toSafe((typeof before === "number" ? before : 0) + step);
  }
  return values;
};

const move = (turn: Turn, segmentKeys: readonly string[], isMember: boolean): void => {
  for (const segmentKey of segmentKeys) {
    const problem = setMembership(turn, segmentKey, isMember);
    if (problem !== undefined) turn.warn(`segment ${segmentKey}: ${problem}`);
  }
};

/** Changes attributes, tags and static segments. A result beyond the limits of a profile fails the rule. */
export const updatePlayer = actionKind<typeof schema, Resolved>({
  type: "update_player",
  summary: "Changes attributes, tags and membership in STATIC segments",
  schema,
  mentions: ({ addToSegments, removeFromSegments }) => [
    ...mentionsAt("addToSegments", "segment", addToSegments),
    ...mentionsAt("removeFromSegments", "segment", removeFromSegments),
  ],
  causes: ({ addToSegments = [], removeFromSegments = [] }) => [
    ...CAUSES.profile,
    ...[...addToSegments, ...removeFromSegments].flatMap((key) => about(CAUSES.segment, key)),
  ],
  demands: ({ addToSegments, removeFromSegments }, find) =>
    Object.entries({ addToSegments, removeFromSegments }).flatMap(([field, keys = []]) =>
      keys.flatMap((key, i): [string, string][] =>
        find("segment", key)?.["kind"] === "DYNAMIC" ? [[`${field}.${i}`, `${key}: ${NOT_STATIC}`]] : [],
      ),
    ),
  canFail: () => true,
  compile: (action) => {
    const { unset = [], addTags = [], removeTags = [] } = action;
    const { addToSegments = [], removeFromSegments = [] } = action;
    const rest = { unset, addTags, removeTags, addToSegments, removeFromSegments };
    const setOf = compileValues(action.set ?? {});
    const stepsOf = compileSteps(action.increment ?? {});
    return (turn) => ({ set: setOf(turn), increment: stepsOf(turn), ...rest });
  },
  perform: (turn, { set, increment, unset, addTags, removeTags, ...segments }, { cause, actionId }) => {
    const values = { ...set, ...counted(turn, increment) };
    const problem = update(turn, { set: values, unset, addTags, removeTags }, cause);
    if (problem !== undefined) throw new RuleFailure(actionId, problem);
    move(turn, segments.addToSegments, true);
    move(turn, segments.removeFromSegments, false);
  },
});
