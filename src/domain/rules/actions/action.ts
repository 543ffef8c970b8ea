import { z } from "zod";
import type { Cause } from "../../events.ts";
import type { Turn } from "../../progression/turn.ts";

/** What an action needs to know of the rule that fires it. */
export type Firing = { ruleId: string; ruleKey: string; ruleVersion: number; actionId: string };

/** Changes the turn's player, or throws RuleFailure and leaves the player as it was. */
export type Act = (turn: Turn) => void;

/** Fields of every action. `id` is part of the idempotency key of what the action grants. */
export const actionFields = {
  id: z
    .string()
    .regex(/^[a-z0-9]{1,12}$/, "must be 1 to 12 lower-case letters or digits")
    .optional(),
  target: z.literal("PLAYER").optional(),
};

/** A kind of action: add one by a file beside this one and a line in `index.ts`. */
export type ActionKind<S extends z.ZodObject> = {
  type: string;
  schema: S;
  /** True when `act` may throw RuleFailure; then what the rule did before it is undone. */
  canFail: boolean;
  compile(action: z.output<S>, firing: Firing): Act;
};

export const actionKind = <S extends z.ZodObject>(kind: ActionKind<S>): ActionKind<S> => kind;

export const causeOf = ({ event }: Turn, { ruleId, ruleKey, ruleVersion, actionId }: Firing): Cause => ({
  kind: "RULE",
  eventId: event.id,
  rootEventId: event.id,
  ruleId,
  ruleKey,
  ruleVersion,
  actionId,
});
