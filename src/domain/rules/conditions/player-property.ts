import { z } from "zod";
import type { PlayerState } from "../../progression/turn.ts";
import { checkOperand, comparisonFields, compileComparison, expectedOf } from "../operators.ts";
import { compilePath } from "../paths.ts";
import { PLAYER_FIELDS, type PlayerField } from "../references.ts";
import { isPath } from "../syntax.ts";
import { conditionKind } from "./condition.ts";

const ATTRIBUTES = "attributes.";

const isField = (field: string): boolean =>
  Object.hasOwn(PLAYER_FIELDS, field) ||
  (field.startsWith(ATTRIBUTES) && isPath(field.slice(ATTRIBUTES.length)));

const readerOf = (field: string): ((player: PlayerState) => unknown) => {
  if (!field.startsWith(ATTRIBUTES)) return PLAYER_FIELDS[field as PlayerField];
  const read = compilePath(field.slice(ATTRIBUTES.length));
  return (player) => read(player.attributes);
};

/** The player's value at the moment the rule runs, after the rules before it. */
export const playerProperty = conditionKind({
  type: "player_property",
  schema: z
    .strictObject({
      type: z.literal("player_property"),
      field: z
        .string()
        .max(400)
        .refine(isField, `must be ${Object.keys(PLAYER_FIELDS).join(", ")} or attributes.{path}`),
      ...comparisonFields,
    })
    .superRefine(checkOperand),
  compile: (condition) => {
    const read = readerOf(condition.field);
    const holds = compileComparison(condition);
    return (turn) => holds(read(turn.player), turn);
  },
  explain: (condition, turn) => ({
    expected: expectedOf(condition, turn),
    actual: readerOf(condition.field)(turn.player),
  }),
});
