import { z } from "zod";
import type { Cause, Json } from "../../kernel/events/events.ts";
import type { Mention, NamedKind } from "../language/mention.ts";
import type { RewardBundle } from "../rewards/bundle.ts";
import type { Turn } from "../turn.ts";
import { Reference } from "../language/references.ts";

/** What an action needs to know of the rule that fires it. */
export type Firing = { ruleId: string; ruleKey: string; ruleVersion: number; actionId: string };

/** Does an action of a rule that fires, or throws RuleFailure and leaves the player as it was. */
export type Act = (turn: Turn) => void;

/** How what an action does is recorded. */
export type Deed = {
  /** Deterministic key of what it grants: the same one never grants twice. */
  key: string;
  cause: Cause;
  reason: string;
  actionId: string;
};

/** The longest time an action may wait, in s: 30 days. */
export const DELAY_MAX_SECONDS = 2_592_000;

/** The one whom an action is done to. */
export const Target = z
  .union([z.literal("PLAYER"), z.strictObject({ externalUserId: Reference })], {
    error: 'must be "PLAYER" or {"externalUserId": {"$ref"}}',
  })
  .describe("Default: the player of the event");

/** Fields of every action. `id` is part of the idempotency key of what the action grants. */
export const actionFields = {
  id: z
    .string()
    .regex(/^[a-z0-9]{1,12}$/, "must be 1 to 12 lower-case letters or digits")
    .optional(),
  target: Target.optional(),
  delaySeconds: z.int().min(1).max(DELAY_MAX_SECONDS).optional(),
};

/** When an action finds too little, its rule fails, goes on without it, or takes what there is. */
export const OnInsufficient = z.enum(["FAIL_RULE", "SKIP", "CLAMP"]);
export type OnInsufficient = z.output<typeof OnInsufficient>;

/** What an action may bring about in its own pass: types of derived events, and bundles that it gives. */
export type Outcomes = { types: readonly string[]; bundles: readonly RewardBundle[] };

/** Derived events of these types, and no rewards. */
export const tells = (...types: string[]): Outcomes => ({ types, bundles: [] });

/** One bundle of rewards, and what follows from it. */
export const gives = (bundle: RewardBundle): Outcomes => ({ types: [], bundles: [bundle] });

/** Finds an active definition by its key, as JSON. */
export type FindDefinition = (kind: NamedKind, key: string) => Json | undefined;

/**
 * A kind of action: add one by a file beside this one and a line in `action-kinds.ts`. It is done in two
 * steps, since what it does may be sent to another player or to a later time in between.
 */
export type ActionKind<S extends z.ZodObject, R extends object> = {
  type: string;
  /** What it is for, in the catalogue of rules. */
  summary: string;
  schema: S;
  /** The definitions that it names by key; paths lead from the action. What a `$ref` names is added. */
  mentions(action: z.output<S>): Mention[];
  /** What it can bring about, as causes; see causes.ts. The check for endless loops follows them. */
  causes(action: z.output<S>): readonly string[];
  /** What it may bring about in its own pass: the shared counters of that are locked before. */
  outcomes(action: z.output<S>): Outcomes;
  /**
   * What it asks of the definitions that it names, beyond being there.
   * @returns the field and what is wrong with it, of each that is not met
   */
  demands(action: z.output<S>, find: FindDefinition): readonly (readonly [field: string, message: string])[];
  /** Whether `perform` may throw RuleFailure; then what the rule did before it is undone. */
  canFail(action: z.output<S>): boolean;
  /**
   * Prepares the first step: works out every number and reference when the rule fires. What it answers is
   * plain JSON; undefined when there is nothing to do.
   */
  compile(action: z.output<S>, actionId: string): (turn: Turn) => R | undefined;
  /** The second step: changes the turn's player, or throws RuleFailure and leaves the player as it was. */
  perform(turn: Turn, resolved: R, deed: Deed): void;
};

export const actionKind = <S extends z.ZodObject, R extends object>(
  kind: ActionKind<S, R>,
): ActionKind<S, R> => kind;

/** How often the rule has fired for this root before. */
export const firingNumber = ({ root }: Turn, { ruleId }: Firing): number => root.firings.get(ruleId) ?? 0;

/** The n-th firing for one root has a key of its own; that of the first ends with the action. */
export const keyOf = (prefix: string, { ruleId, actionId }: Firing, n: number): string =>
  n === 0 ? `${prefix}:${ruleId}:${actionId}` : `${prefix}:${ruleId}:${actionId}:${n}`;

export const causeOf = (
  { event, root }: Turn,
  { ruleId, ruleKey, ruleVersion, actionId }: Firing,
  rootEventId = root.id,
): Cause => ({ kind: "RULE", eventId: event.id, rootEventId, ruleId, ruleKey, ruleVersion, actionId });

export const reasonOf = ({ ruleKey }: Firing): string => `rule:${ruleKey}`;

export const deedOf = (turn: Turn, firing: Firing): Deed => ({
  key: keyOf(`evt:${turn.root.id}:r`, firing, firingNumber(turn, firing)),
  cause: causeOf(turn, firing),
  reason: reasonOf(firing),
  actionId: firing.actionId,
});
