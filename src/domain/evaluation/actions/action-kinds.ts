import { z } from "zod";
import {
  type Act,
  type ActionKind,
  actionRecordOf,
  compileSending,
  type Firing,
  type Sending,
} from "./action.ts";
import { adjustCurrency } from "./adjust-currency.ts";
import { adjustLives } from "./adjust-lives.ts";
import { applyBoost } from "./apply-boost.ts";
import { emitEvent } from "./emit-event.ts";
import { grantReward } from "./grant-reward.ts";
import { grantXp } from "./grant-xp.ts";
import { submitScore } from "./submit-score.ts";
import { updateBadge } from "./update-badge.ts";
import { updatePlayer } from "./update-player.ts";
import { updateQuest } from "./update-quest.ts";

/** All kinds of actions. */
const KINDS = [
  grantXp,
  adjustCurrency,
  adjustLives,
  updateBadge,
  updateQuest,
  submitScore,
  updatePlayer,
  grantReward,
  applyBoost,
  emitEvent,
] as const;

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

type AnyKind = ActionKind<z.ZodObject, object>;

const BY_TYPE = new Map<string, AnyKind>(KINDS.map((kind) => [kind.type, kind as unknown as AnyKind]));

/** Returns the kind of an action that was resolved before; undefined when it no longer exists. */
export const kindOf = (type: string): AnyKind | undefined => BY_TYPE.get(type);

/** Summaries of all kinds, in order. */
export const ACTION_SUMMARIES: readonly (readonly [type: string, summary: string])[] = KINDS.map(
  ({ type, summary }) => [type, summary],
);

const sendingOf = ({ target, delaySeconds }: Action): Sending | undefined => {
  const other = target === undefined || target === "PLAYER" ? undefined : target.externalUserId;
  return other === undefined && delaySeconds === undefined ? undefined : { target: other, delaySeconds };
};

export const compileAction = (action: Action, firing: Firing): Act => {
  const kind = BY_TYPE.get(action.type)!;
  const resolve = kind.compile(action, firing.actionId);
  const sending = sendingOf(action);
  if (sending) return compileSending(sending, { type: kind.type, resolve, firing });
  return (turn) => {
    const resolved = resolve(turn);
    if (resolved !== undefined) kind.perform(turn, resolved, actionRecordOf(turn, firing));
  };
};

/** Returns whether the action may throw RuleFailure. */
export const canFail = (action: Action): boolean =>
  sendingOf(action) !== undefined || BY_TYPE.get(action.type)!.canFail(action);
