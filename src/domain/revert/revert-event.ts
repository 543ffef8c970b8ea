import { sql } from "kysely";
import { holdEvents } from "../kernel/config-lock.ts";
import type { EventData } from "../kernel/events/domain-events.ts";
import { conflict, notFound } from "../kernel/errors.ts";
import type { Json } from "../kernel/events/events.ts";
import { partitionOf } from "../kernel/ids.ts";
import { openTurn } from "../evaluation/evaluate.ts";
import { loadPlans, projectPlans } from "../progression/plan.ts";
import { saveBatch } from "../progression/save.ts";
import { PacedBudget, paced } from "../kernel/pace.ts";
import { StepsExceeded } from "../kernel/step-budget.ts";
import type { Work } from "../kernel/work.ts";
import { type EventStatus, readStatuses } from "../tracking/events.ts";
import { type Caused, isBounded, readCaused, readEvents, SENT_EVENTS_MAX } from "./read-record.ts";
import { newReversal, type Reversal, type RevertedEvent } from "./record.ts";
import { reversePlayer } from "./reverse.ts";
import {
  lockAll,
  playerIdOf,
  reachedBy,
  readRevertState,
  recordOf,
  type RevertState,
} from "./revert-state.ts";
import { tooLarge } from "./too-large.ts";

export type Revert = {
  eventId: string;
  reason: string;
  /** What happens when granted amounts are no longer there: take back what is left, or nothing at all. */
  onShortfall: "CLAMP" | "REJECT";
  actor: string;
};

/** Result of a revert's job. */
export type RevertResult = {
  eventId: string;
  /** False if the event had been reverted before. */
  isReverted: boolean;
  reversed: EventData<"event.reverted">["reversed"];
  lives: number;
  streaks: string[];
  shortfall: Record<string, number>;
  /** Number of pending actions on other players or for later times that were cancelled. */
  cancelled: number;
  players: number;
  /** Effects that remain. */
  left: string[];
};

/**
 * Reverts one event with everything that it has caused, for all affected players, in one transaction. No
 * worker processes these players' events meanwhile. Idempotent.
 * @throws DomainError NOT_FOUND; CONFLICT: INVALID_STATE for an event without effects, EVENT_TOO_LARGE,
 * SHORTFALL
 */
export const revertEvent = async (work: Work, projectId: string, revert: Revert): Promise<RevertResult> => {
  const events = await holdAll(work, projectId, revert.eventId);
  const statuses = await statusesOf(work, projectId, events);
  const root = events.find(({ id }) => id === revert.eventId)!;
  const reversal = newReversal(root, revert);
  const status = statuses.get(root.id)!;
  if (status === "REVERTED") return resultOf(root, reversal, { isReverted: false, players: 0, cancelled: 0 });
  if (status !== "PROCESSED" && status !== "PENDING")
    throw conflict("INVALID_STATE", `the event is ${status}: it has no effects`);
  const pending = events.filter(({ id }) => statuses.get(id) === "PENDING");
  const done = events.filter(({ id }) => statuses.get(id) === "PROCESSED");
  await cancel(work, projectId, pending);
  const players = await bounded(() => reverseAll(work, projectId, { root, done, reversal, revert }));
  await markReverted(work, projectId, { events: [...pending, ...done], reversal });
  return resultOf(root, reversal, {
    isReverted: true,
    players,
    cancelled: pending.filter(({ id }) => id !== root.id).length,
  });
};

/** Maximum steps for reverting an event with everything that it has sent: a few seconds. */
const REVERT_STEPS_MAX = 20_000_000;

/** @throws DomainError CONFLICT EVENT_TOO_LARGE when `run` exceeds the limits */
const bounded = async <T>(run: () => Promise<T>): Promise<T> => {
  try {
    return await run();
  } catch (error) {
    if (error instanceof StepsExceeded) throw tooLarge("it has too many effects on too many definitions");
    throw error;
  }
};

const resultOf = (
  { id: eventId }: RevertedEvent,
  reversal: Reversal,
  more: Pick<RevertResult, "isReverted" | "players" | "cancelled">,
): RevertResult => ({
  eventId,
  reversed: reversedOf(reversal),
  lives: reversal.lives,
  streaks: [...reversal.streaks].toSorted(),
  shortfall: reversal.shortfall,
  left: [...reversal.left].toSorted(),
  ...more,
});

const reversedOf = ({ xp, currencies, badges, scores }: Reversal): RevertResult["reversed"] => ({
  xp,
  currencies,
  badges: [...badges].toSorted(),
  quests: [],
  scores: [...scores].toSorted(),
});

/** Reads the event and what it has sent, and keeps workers away from the players of these events. */
const holdAll = async (work: Work, projectId: string, eventId: string): Promise<RevertedEvent[]> => {
  const held = new Set<number>();
  for (;;) {
    const events = await readEvents(work, projectId, eventId);
    if (events.length === 0) throw notFound("event");
    if (events.length > SENT_EVENTS_MAX) throw tooLarge(`it has reached more than ${SENT_EVENTS_MAX} others`);
    const parts = events.map(({ externalUserId }) => partitionOf(projectId, externalUserId));
    if (parts.every((part) => held.has(part))) return events;
    // A batch in progress may have sent more: read again, now that there is none.
    await holdEvents(work, projectId, parts);
    for (const part of parts) held.add(part);
  }
};

const statusesOf = async (
  work: Work,
  projectId: string,
  events: readonly RevertedEvent[],
): Promise<Map<string, EventStatus>> => {
  const ids = events.map(({ id }) => id);
  const found = await readStatuses(work, projectId, ids);
  return new Map(found.map(({ eventId, status }) => [eventId, status]));
};

const idsOf = (rows: readonly { id: string }[]): string => `{${rows.map(({ id }) => id).join(",")}}`;

/** Removes waiting events from the queue. */
const cancel = async ({ db }: Work, projectId: string, events: readonly RevertedEvent[]): Promise<void> => {
  if (events.length === 0) return;
  const those = sql`project_id = ${projectId} and event_id = any(${idsOf(events)}::uuid[])`;
  await sql`
    with q as (delete from event_q where ${those})
    delete from event_due where ${those}`.execute(db);
};

const markReverted = async (
  { db, now }: Work,
  projectId: string,
  { events, reversal }: { events: readonly RevertedEvent[]; reversal: Reversal },
): Promise<void> => {
  const at = sql`${now.toISOString()}::timestamptz`;
  const grants = JSON.stringify(reversal.grants);
  await sql`
    with x as (
      update rule_executions set reverted_at = ${at}
      where project_id = ${projectId} and event_id = any(${idsOf(events)}::uuid[]) and reverted_at is null),
    g as (
      update reward_grants t set status = 'REVOKED', updated_at = ${at}
      from json_to_recordset(${grants}::json) as x("playerId" uuid, id uuid)
      where t.project_id = ${projectId} and t.player_id = x."playerId" and t.id = x.id)
    insert into event_results (project_id, event_id, status, error, attempts, processed_at)
    select ${projectId}::uuid, id, 'REVERTED', null, 1, ${at} from unnest(${idsOf(events)}::uuid[]) as u(id)
    on conflict (project_id, event_id) do update set status = excluded.status, error = null`.execute(db);
};

type Reversing = {
  root: RevertedEvent;
  done: readonly RevertedEvent[];
  reversal: Reversal;
  revert: Revert;
};

/** Reverts the effects, and emits one event about it. @returns the number of affected players */
const reverseAll = async (
  work: Work,
  projectId: string,
  { root, done, reversal, revert }: Reversing,
): Promise<number> => {
  const plan = (await loadPlans(work, [projectId], projectPlans)).get(projectId);
  if (!plan) throw notFound("project");
  const ids = done.map(({ id }) => id);
  if (!(await isBounded(work, projectId, ids))) throw tooLarge("it has caused too many effects");
  const caused = await readCaused(work, projectId, ids);
  const ownerId = await playerIdOf(work, projectId, root.externalUserId);
  const players = await lockAll(work, plan, { caused, root, ownerId, done });
  const steps = new PacedBudget(REVERT_STEPS_MAX);
  const state = await readRevertState(work, plan, { done, caused, players, reversal, steps });
  noteMissing(caused, reversal);
  // In reverse order.
  for (const event of done.toReversed())
    await reverseEvent(work, state, { event, ownerId: event.id === root.id ? ownerId : undefined });
  checkShortfall(reversal, revert);
  emitReverted(work, state, { root, ownerId });
  const states = [...new Set(players.values())];
  const { effects, shared } = state;
  await saveBatch(work, { players: states, effects, shared, verdicts: [], done: [] });
  return states.length;
};

/** Emitted events are kept only for a time; ledger entries are kept permanently. */
const noteMissing = ({ ledger, emitted }: Caused, { left }: Reversal): void => {
  if (ledger.length > 0 && emitted.length === 0)
    left.add("counters, levels and streaks of what the event brought about: it is no longer known");
};

/** Reverts one event for all affected players. */
const reverseEvent = async (
  work: Work,
  state: RevertState,
  { event, ownerId }: { event: RevertedEvent; ownerId: string | undefined },
): Promise<void> => {
  const { plan, players, effects, shared } = state;
  const owner = ownerId === undefined ? undefined : players.get(ownerId);
  const { id, type, at, properties } = event;
  for (const player of reachedBy(state, event, owner)) {
    const record = await recordOf(work, state, { event, player, isOwn: player === owner });
    const passed = { id, type, at, properties, depth: 0 };
    const turn = openTurn({ plan, player, event: passed, nowMs: work.now.getTime(), effects, shared });
    await paced(reversePlayer(turn, record, state), state.steps);
  }
};

const checkShortfall = ({ shortfall }: Reversal, { onShortfall }: Revert): void => {
  const missing = Object.entries(shortfall).map(([what, amount]) => `${amount} ${what}`);
  if (onShortfall === "REJECT" && missing.length > 0)
    throw conflict("SHORTFALL", `not everything is left to take back: ${missing.join(", ")} missing`);
};

const emitReverted = (
  work: Work,
  { plan, players, effects, shared, reversal }: RevertState,
  { root, ownerId }: { root: RevertedEvent; ownerId: string | undefined },
): void => {
  const { id: eventId, externalUserId, type, at, properties } = root;
  const data: EventData<"event.reverted"> & Json = {
    eventId,
    externalUserId,
    reversed: reversedOf(reversal),
    shortfall: reversal.shortfall,
  };
  const player = ownerId === undefined ? undefined : players.get(ownerId);
  if (!player) return work.emit(plan.projectId, "event.reverted", data);
  const event = { id: eventId, type, at, properties, depth: 0 };
  openTurn({ plan, player, event, nowMs: work.now.getTime(), effects, shared }).emit("event.reverted", data);
};
