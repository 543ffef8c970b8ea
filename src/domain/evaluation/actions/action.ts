import { hash } from "node:crypto";
import { z } from "zod";
import type { CapSet } from "../caps/cap.ts";
import type { SpawnedEvent } from "../effects.ts";
import { compileReference } from "../language/expressions.ts";
import {
  isPath,
  isReferenceObject,
  type Mention,
  type NamedKind,
  Reference,
  referentOf,
  Scalar,
  scalarList,
} from "../language/syntax.ts";
import { RuleFailure } from "../running/outcome.ts";
import { recordLoop, type Turn, write } from "../turn.ts";
import type { Cause, Json } from "../../kernel/events/events.ts";
import { newId } from "../../kernel/ids.ts";
import { EXTERNAL_ID_MAX } from "../../kernel/limits.ts";

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
const DELAY_MAX_SECONDS = 2_592_000;

/** The player that an action applies to. */
const Target = z
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

/** Finds an active definition by its key, as JSON. */
export type FindDefinition = (kind: NamedKind, key: string) => Json | undefined;

/**
 * A kind of action: to add one, add a file here and a line in `action-kinds.ts`. An action runs in two steps,
 * since it may be sent to another player or to a later time in between.
 */
type OwnKind<S extends z.ZodObject, R extends object> = {
  type: string;
  /** Summary in the catalogue of rules. */
  summary: string;
  schema: S;
  /** Returns its possible effects as causes (see causes.ts), for the check for endless loops. */
  causes(action: z.output<S>): readonly string[];
  /**
   * Prepares the first step: evaluates every number and reference when the rule fires. Its result is plain
   * JSON; undefined when there is nothing to do.
   */
  compile(action: z.output<S>, actionId: string): (turn: Turn) => R | undefined;
  /** The second step: changes the turn's player, or throws RuleFailure and leaves the player unchanged. */
  perform(turn: Turn, resolved: R, record: ActionRecord): void;
};

/** By default an action names and demands nothing, and does not fail. */
type Needs<S extends z.ZodObject> = {
  /**
   * Returns the definitions that it names by key; paths lead from the action. Those named by
   * references are added.
   */
  mentions(action: z.output<S>): Mention[];
  /**
   * Checks requirements on the definitions that it names, beyond their existence.
   * @returns the field and message of each violation
   */
  demands(action: z.output<S>, find: FindDefinition): readonly (readonly [field: string, message: string])[];
  /** Returns whether `perform` may throw RuleFailure; then earlier effects of the rule are rolled back. */
  canFail(action: z.output<S>): boolean;
};

export type ActionKind<S extends z.ZodObject, R extends object> = OwnKind<S, R> & Needs<S>;

const NO_NEEDS = { mentions: () => [], demands: () => [], canFail: () => false };

export const actionKind = <S extends z.ZodObject, R extends object>(
  kind: OwnKind<S, R> & Partial<Needs<S>>,
): ActionKind<S, R> => ({ ...NO_NEEDS, ...kind });

/** Returns how often the rule has fired for this root before. */
const firingNumber = ({ root }: Turn, { ruleId }: Firing): number => root.firings.get(ruleId) ?? 0;

/** Returns the key of the n-th firing for one root; the key of the first ends with the action. */
export const keyOf = (prefix: string, { ruleId, actionId }: Firing, n: number): string =>
  n === 0 ? `${prefix}:${ruleId}:${actionId}` : `${prefix}:${ruleId}:${actionId}:${n}`;

const causeOf = (
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

/** @param sent of an action that was sent: its key, and the tracked event that caused it */
export const actionRecordOf = (
  turn: Turn,
  firing: Firing,
  sent?: { key: string; rootEventId: string },
): ActionRecord => ({
  key: sent?.key ?? grantKeyOf(turn.root.id, firing, firingNumber(turn, firing)),
  cause: causeOf(turn, firing, sent?.rootEventId),
  reason: reasonOf(firing),
  actionId: firing.actionId,
  caps: firing.caps,
});

const GRANT_KEY = /^(evt:[^:]+:r|(tgt|dly):[^:]+:[^:]+):[a-z0-9]{1,12}(:\d+)?$/;

/** Returns whether a ledger key is that of an action itself, and not of a bundle that it has given. */
export const isGrantOfAction = (key: string): boolean => GRANT_KEY.test(key);

/**
 * Maximum bytes of JSON that an action may pass on, the same as for an event: otherwise a rule that copies
 * its input several times would multiply the size with each event.
 */
export const PASSED_ON_MAX_BYTES = 16 * 1024;

/** Returns whether an action may pass `value` on. */
export const isPassable = (value: object): boolean =>
  Buffer.byteLength(JSON.stringify(value)) <= PASSED_ON_MAX_BYTES;

/** Maximum items of a list in a value. */
const ITEMS_MAX = 50;

/** A literal, a list of literals, or a reference that is resolved when the rule fires. */
export const Value = z.union([Scalar, Reference, scalarList(0, ITEMS_MAX)], {
  error: `must be a string, number, boolean, null, {"ref"} or a list of at most ${ITEMS_MAX} of these`,
});
export type Value = z.output<typeof Value>;

const isName = (text: string): boolean => !text.includes(".") && isPath(text);

/** Values by name, which compileValues takes. */
export const NamedValues = z.record(
  z.string().refine(isName, "must be 1 to 64 letters, digits, _ and -"),
  Value,
);

/** The effects of a change of some amount: an expression may be positive or negative. */
export const causesOfChange = (amount: unknown, gain: readonly string[], loss: readonly string[]) => {
  if (typeof amount !== "number") return [...gain, ...loss];
  return amount < 0 ? loss : gain;
};

type Setter = (turn: Turn, values: Json) => void;

const setterOf = ([name, value]: [string, unknown]): Setter => {
  if (!isReferenceObject(value)) return (_turn, values) => void (values[name] = value);
  const read = compileReference(value);
  return (turn, values) => {
    const found = read(turn);
    if (found === undefined) turn.warn(`${referentOf(value)} is missing: ${name} is left out`);
    else values[name] = found;
  };
};

/** Compiles named values; one whose reference resolves to nothing is left out, with a warning. */
export const compileValues = (given: Readonly<Record<string, Value>>): ((turn: Turn) => Json) => {
  const setters = Object.entries(given).map(setterOf);
  return (turn) => {
    const values: Json = {};
    for (const assign of setters) assign(turn, values);
    return values;
  };
};

/**
 * Maximum actions that one root event may send to other players or later times, by the number of hops: so the
 * effects of one tracked event end, whichever players they reach.
 */
export const SENT_MAX = [100, 10, 3, 1, 1];

const TOO_LARGE = `what is sent is larger than ${PASSED_ON_MAX_BYTES / 1_024} KiB`;

/** Properties of an event that carries an action, with all numbers and references evaluated. */
export type SentAction = {
  action: Json & { type: string };
  rule: Firing;
  /** The tracked event that caused it, and how often the rule had fired for it before. */
  rootEventId: string;
  firing: number;
  /** The player of that event. */
  fromPlayerId: string;
  /** Number of hops so far. */
  hop: number;
};

export type Sending = { target: Reference | undefined; delaySeconds: number | undefined };
type ResolveAction = (turn: Turn) => object | undefined;

/**
 * Compiles an action that is sent instead of performed: to the player named by a reference, or to a later
 * time. An oversized one fails the rule.
 */
export const compileSending = (
  { target, delaySeconds }: Sending,
  { type, resolve, firing }: { type: string; resolve: ResolveAction; firing: Firing },
): Act => {
  const readTarget = target && compileReference(target);
  return (turn) => {
    const externalUserId = readTarget ? readTarget(turn) : turn.player.externalUserId;
    if (!isExternalId(externalUserId)) {
      turn.warn(`${type} ${firing.actionId}: ${referentOf(target!)} names no player: it is left out`);
      return;
    }
    const resolved = resolve(turn);
    if (resolved === undefined || !mayStillSend(turn, firing)) return;
    const { root, player, event } = turn;
    const properties: SentAction = {
      action: { ...resolved, type },
      rule: firing,
      rootEventId: root.id,
      firing: firingNumber(turn, firing),
      fromPlayerId: player.id,
      hop: root.hop + 1,
    };
    if (!isPassable(properties)) throw new RuleFailure(firing.actionId, TOO_LARGE);
    write(turn, "spawned", {
      id: newId(),
      projectId: player.projectId,
      externalUserId,
      eventType: readTarget ? "system.grant" : "system.delayed_action",
      properties,
      ...timesOf(event.at, turn.nowMs, delaySeconds),
    });
  };
};

const isExternalId = (value: unknown): value is string =>
  typeof value === "string" && value !== "" && value.length <= EXTERNAL_ID_MAX;

/** The delay starts at the event's time, so that actions of imported past events are performed at once. */
const timesOf = (atMs: number, nowMs: number, delaySeconds = 0): Pick<SpawnedEvent, "atMs" | "dueMs"> => {
  const dueMs = atMs + delaySeconds * 1_000;
  return { atMs: dueMs, dueMs: dueMs > nowMs ? dueMs : null };
};

const mayStillSend = (turn: Turn, { ruleId, ruleKey, actionId }: Firing): boolean => {
  const { root, event } = turn;
  if (root.spawned < (SENT_MAX[root.hop] ?? 0)) {
    root.spawned++;
    return true;
  }
  turn.warn(`${actionId}: the event has sent too many actions to others: it is left out`);
  recordLoop(turn, [...(event.via ?? []), { ruleId, ruleKey }]);
  return false;
};
