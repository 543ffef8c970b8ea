import type { Json } from "../../kernel/events/events.ts";
import { newId } from "../../kernel/ids.ts";
import { write } from "../event-steps.ts";
import { noteLoop } from "../loop-guard.ts";
import type { SpawnedEvent } from "../effects.ts";
import type { Turn } from "../turn.ts";
import { compileReference } from "../language/lookups.ts";
import { RuleFailure } from "../running/failures.ts";
import type { Reference } from "../language/references.ts";
import { type Act, type Firing, firingNumber } from "./action.ts";
import { isPassable, PASSED_ON_MAX_BYTES } from "./values.ts";

/**
 * Events that one root may send to other players or to later times, by how many were sent on the way to it:
 * what one tracked event brings about ends, whomever it reaches.
 */
export const SENT_MAX = [100, 10, 3, 1, 1];

const EXTERNAL_ID_MAX = 255;
const TOO_LARGE = `what is sent is larger than ${PASSED_ON_MAX_BYTES / 1_024} KiB`;

/** Properties of an event that carries an action; every number and reference in it has been worked out. */
export type SentAction = {
  action: Json & { type: string };
  rule: Firing;
  /** The tracked event that it came of, and how often the rule had fired for it before. */
  rootEventId: string;
  firing: number;
  /** The player whose event it was. */
  fromPlayerId: string;
  /** How many times an action has been sent on the way. */
  hop: number;
};

export type Sending = { target: Reference | undefined; delaySeconds: number | undefined };
type ResolveAction = (turn: Turn) => object | undefined;

/**
 * An action that is sent instead of done: to the player whom a reference names, or to a later time. One that
 * is too large fails the rule.
 */
export const compileSending = (
  { target, delaySeconds }: Sending,
  { type, resolve, firing }: { type: string; resolve: ResolveAction; firing: Firing },
): Act => {
  const readTarget = target && compileReference(target);
  return (turn) => {
    const externalUserId = readTarget ? readTarget(turn) : turn.player.externalUserId;
    if (!isExternalId(externalUserId)) {
      turn.warn(`${type} ${firing.actionId}: ${target!.$ref} names no player: it is left out`);
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

/** The delay runs from the event's time, so that what was imported late is done at once. */
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
  noteLoop(turn, [...(event.via ?? []), { ruleId, ruleKey }]);
  return false;
};
