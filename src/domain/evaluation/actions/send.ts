import type { Json } from "../../kernel/events/events.ts";
import { EXTERNAL_ID_MAX } from "../../kernel/limits.ts";
import { newId } from "../../kernel/ids.ts";
import { write } from "../event-steps.ts";
import { recordLoop } from "../loop-guard.ts";
import type { SpawnedEvent } from "../effects.ts";
import type { Turn } from "../turn.ts";
import { compileReference } from "../language/lookups.ts";
import { RuleFailure } from "../running/failures.ts";
import { type Reference, referentOf } from "../language/references.ts";
import { type Act, type Firing, firingNumber } from "./action.ts";
import { isPassable, PASSED_ON_MAX_BYTES } from "./values.ts";

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
    if (!isPassable(properties, turn)) throw new RuleFailure(firing.actionId, TOO_LARGE);
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
