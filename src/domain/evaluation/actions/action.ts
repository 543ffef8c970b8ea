import { hash } from "node:crypto";
import { z } from "zod";
import type { Cause, Json } from "../../kernel/events/events.ts";
import type { CapSet } from "../caps/cap.ts";
import type { Mention, NamedKind } from "../language/mention.ts";
import type { RewardBundle } from "../rewards/bundle.ts";
import type { Turn } from "../turn.ts";
import { Reference } from "../language/references.ts";

/** The rule and action that fire, with the rule's caps. */
export type Firing = {
  ruleId: string;
  ruleKey: string;
  ruleVersion: number;
  actionId: string;
  caps?: CapSet | undefined;
};

/** Performs an action of a rule that fires, or throws RuleFailure and leaves the player unchanged. */
export type Act = (turn: Turn) => void;

/** How an action is recorded. */
export type ActionRecord = {
  /** Deterministic idempotency key of its grant. */
  key: string;
  cause: Cause;
  reason: string;
  actionId: string;
  /** The caps of the rule. */
  caps?: CapSet | undefined;
};

/** Maximum delay of an action, in s: 30 days. */
export const DELAY_MAX_SECONDS = 2_592_000;

/** The player that an action applies to. */
export const Target = z
  .union([z.literal("PLAYER"), z.strictObject({ externalUserId: Reference })], {
    error: 'must be "PLAYER" or {"externalUserId": {"ref"}}',
  })
  .describe("Default: the player of the event");

/** Fields of every action. `id` is part of the idempotency key of the action's grants. */
export const actionFields = {
  id: z
    .string()
    .regex(/^[a-z0-9]{1,12}$/, "must be 1 to 12 lower-case letters or digits")
    .optional(),
  target: Target.optional(),
  delaySeconds: z.int().min(1).max(DELAY_MAX_SECONDS).optional(),
};

/**
 * Behaviour of an action when funds are insufficient: fail the rule, skip the action, or take what is
 * available.
 */
export const OnInsufficient = z.enum(["FAIL_RULE", "SKIP", "CLAMP"]);
export type OnInsufficient = z.output<typeof OnInsufficient>;

/** Possible effects of an action in its own pass: types of derived events, and bundles granted. */
export type Outcomes = {
  types: readonly string[];
  bundles: readonly RewardBundle[];
  /** Keys of quests whose rewards it may grant. */
  quests?: readonly string[];
  /** The same of adventures. */
  adventures?: readonly string[];
};

/** Outcomes of derived events of these types, without rewards. */
export const publishes = (...types: string[]): Outcomes => ({ types, bundles: [] });

/** Outcomes of granting one bundle of rewards. */
export const grants = (bundle: RewardBundle): Outcomes => ({ types: [], bundles: [bundle] });

/** Finds an active definition by its key, as JSON. */
export type FindDefinition = (kind: NamedKind, key: string) => Json | undefined;

/**
 * A kind of action: to add one, add a file here and a line in `action-kinds.ts`. An action runs in two steps,
 * since it may be sent to another player or to a later time in between.
 */
export type ActionKind<S extends z.ZodObject, R extends object> = {
  type: string;
  /** Summary in the catalogue of rules. */
  summary: string;
  schema: S;
  /**
   * Returns the definitions that it names by key; paths lead from the action. Those named by
   * references are added.
   */
  mentions(action: z.output<S>): Mention[];
  /** Returns its possible effects as causes (see causes.ts), for the check for endless loops. */
  causes(action: z.output<S>): readonly string[];
  /** Returns its possible effects in its own pass, whose shared counters are locked beforehand. */
  outcomes(action: z.output<S>): Outcomes;
  /**
   * Checks requirements on the definitions that it names, beyond their existence.
   * @returns the field and message of each violation
   */
  demands(action: z.output<S>, find: FindDefinition): readonly (readonly [field: string, message: string])[];
  /** Returns whether `perform` may throw RuleFailure; then earlier effects of the rule are rolled back. */
  canFail(action: z.output<S>): boolean;
  /**
   * Prepares the first step: evaluates every number and reference when the rule fires. Its result is plain
   * JSON; undefined when there is nothing to do.
   */
  compile(action: z.output<S>, actionId: string): (turn: Turn) => R | undefined;
  /** The second step: changes the turn's player, or throws RuleFailure and leaves the player unchanged. */
  perform(turn: Turn, resolved: R, record: ActionRecord): void;
};

export const actionKind = <S extends z.ZodObject, R extends object>(
  kind: ActionKind<S, R>,
): ActionKind<S, R> => kind;

/** Returns how often the rule has fired for this root before. */
export const firingNumber = ({ root }: Turn, { ruleId }: Firing): number => root.firings.get(ruleId) ?? 0;

/** Returns the key of the n-th firing for one root; the key of the first ends with the action. */
export const keyOf = (prefix: string, { ruleId, actionId }: Firing, n: number): string =>
  n === 0 ? `${prefix}:${ruleId}:${actionId}` : `${prefix}:${ruleId}:${actionId}:${n}`;

export const causeOf = (
  { event, root }: Turn,
  { ruleId, ruleKey, ruleVersion, actionId }: Firing,
  rootEventId = root.id,
): Cause => ({ kind: "RULE", eventId: event.id, rootEventId, ruleId, ruleKey, ruleVersion, actionId });

export const reasonOf = ({ ruleKey }: Pick<Firing, "ruleKey">): string => `rule:${ruleKey}`;

/** Length of a digest of 128 bits and more, as base64url. */
const DIGEST_LENGTH = 22;

/**
 * Returns the key of an action's grant: each line of a ledger has its key twice, in the row and in an index,
 * so event and rule are a digest there. Both are in the line's cause.
 */
export const grantKeyOf = (rootEventId: string, { ruleId, actionId }: Firing, n: number): string => {
  const digest = hash("sha256", `${rootEventId}:${ruleId}`, "base64url").slice(0, DIGEST_LENGTH);
  return `evt:${digest}:r:${actionId}${n === 0 ? "" : `:${n}`}`;
};

export const actionRecordOf = (turn: Turn, firing: Firing): ActionRecord => ({
  key: grantKeyOf(turn.root.id, firing, firingNumber(turn, firing)),
  cause: causeOf(turn, firing),
  reason: reasonOf(firing),
  actionId: firing.actionId,
  caps: firing.caps,
});

const GRANT_KEY = /^(evt:[^:]+:r|(tgt|dly):[^:]+:[^:]+):[a-z0-9]{1,12}(:\d+)?$/;

/** Returns whether a ledger key is that of an action itself, and not of a bundle that it has given. */
export const isGrantOfAction = (key: string): boolean => GRANT_KEY.test(key);
