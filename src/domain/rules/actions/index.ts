import { z } from "zod";
import type { Act, ActionKind, Firing } from "./action.ts";
import { grantXp } from "./grant-xp.ts";
import { submitScore } from "./submit-score.ts";
import { updatePlayer } from "./update-player.ts";

/** Every kind of action there is. */
const KINDS = [grantXp, submitScore, updatePlayer] as const;

export type Action = z.output<(typeof KINDS)[number]["schema"]>;

export const ACTION_TYPES: readonly string[] = KINDS.map(({ type }) => type);

export const ActionSchema = z.discriminatedUnion(
  "type",
  KINDS.map(({ schema }) => schema) as unknown as [(typeof KINDS)[number]["schema"]],
  {
    error: (issue) =>
      issue.code === "invalid_union" ? `must be one of ${ACTION_TYPES.join(", ")}` : undefined,
  },
) as unknown as z.ZodType<Action>;

const BY_TYPE = new Map<string, ActionKind<z.ZodObject>>(
  KINDS.map((kind) => [kind.type, kind as unknown as ActionKind<z.ZodObject>]),
);

export const compileAction = (action: Action, firing: Firing): Act =>
  BY_TYPE.get(action.type)!.compile(action, firing);

/** Whether the action may throw RuleFailure. */
export const canFail = (action: Action): boolean => BY_TYPE.get(action.type)!.canFail;
