import { sql } from "kysely";
import { z } from "zod";
import { openTurn } from "../evaluation/evaluate.ts";
import type { PlayerState } from "../evaluation/player-state.ts";
import { ADMINS } from "../kernel/caller.ts";
import { conflict, notFound } from "../kernel/errors.ts";
import type { EventData } from "../kernel/events/domain-events.ts";
import type { Json } from "../kernel/events/events.ts";
import { insertUncounted } from "../kernel/events/uncounted.ts";
import { insertWarehouseChanges } from "../kernel/events/warehouse-changes.ts";
import { isId, partitionOf } from "../kernel/ids.ts";
import { Pace, TimeIsOver } from "../kernel/slices.ts";
import { holdEvents, projectTime, type Work } from "../kernel/work.ts";
import { getJob, jobKind, type ProjectJob, queueJob } from "../long-work/project-jobs.ts";
import { findPlan } from "../progression/plan.ts";
import { saveBatch } from "../progression/save.ts";
import { nextRecord, type PlayerGroups, readGroups } from "./read-groups.ts";
import { type Caused, isBounded, readCaused } from "./read-record.ts";
import { readEvents, tooLarge } from "./read-submitted.ts";
import { newReversal, type Reversal, type RevertedEvent } from "./record.ts";
import { reversePlayer } from "./reverse.ts";
import {
  type EventPart,
  lockAll,
  ownerIdOf,
  partsOf,
  playerIdsOf,
  readRevertState,
  type RevertState,
} from "./revert-state.ts";
import { auditEvent, type EventStatus, readPlainStatuses, readStatuses } from "../tracking/events.ts";

export const ON_SHORTFALL = ["CLAMP", "REJECT"] as const;

/** How events are reverted. */
export type HowToRevert = {
  reason: string;
  /** What happens when granted amounts are no longer there: take back what is left, or nothing at all. */
  onShortfall: (typeof ON_SHORTFALL)[number];
  actor: string;
};

/** What the revert of one event has changed. */
export type RevertResult = {
  eventId: string;
  /** False if the event had been reverted before. */
  isReverted: boolean;
  reversed: EventData<"event.reverted">["reversed"];
  lives: number;
  /** Keys of the adventures whose progress has been taken back. */
  adventures: string[];
  streaks: string[];
  shortfall: Record<string, number>;
  /** Number of pending actions on other players or for later times that were cancelled. */
  cancelled: number;
  players: number;
  /** Effects that remain. */
  left: string[];
};

/** Returns the result of reverting one event. */
const resultOf = (
  { id: eventId }: RevertedEvent,
  reversal: Reversal,
  more: Pick<RevertResult, "isReverted" | "players" | "cancelled">,
): RevertResult => ({
  eventId,
  reversed: reversedOf(reversal),
  lives: reversal.lives,
  adventures: [...reversal.adventures].toSorted(),
  streaks: [...reversal.streaks].toSorted(),
  shortfall: reversal.shortfall,
  left: [...reversal.left].toSorted(),
  ...more,
});

/** Returns what was reverted, as it is told. */
const reversedOf = ({ xp, currencies, badges, quests, scores }: Reversal): RevertResult["reversed"] => ({
  xp,
  currencies,
  badges: [...badges].toSorted(),
  quests: [...quests].toSorted(),
  scores: [...scores].toSorted(),
});

/** Events that are reverted together, in one transaction. */
type RevertGroup = HowToRevert & { eventIds: readonly string[] };

export type Reverted = {
  /** In the order of arrival; an event that another of them has sent is part of that one's. */
  results: RevertResult[];
  /** Statuses of events without effects. */
  refused: ReadonlyMap<string, EventStatus>;
};

/**
 * Reverts events with everything that they have caused, for all affected players, in one transaction: the
 * same as one by one, but a player's other events are read once for all of them. No worker processes these
 * players' events meanwhile. Idempotent; unknown events are left out.
 * @throws DomainError CONFLICT: EVENT_TOO_LARGE, SHORTFALL; then none of them is reverted
 */
export const revertEvents = async (
  work: Work,
  projectId: string,
  { eventIds, ...how }: RevertGroup,
): Promise<Reverted> => {
  const events = await holdAll(work, projectId, eventIds);
  const statuses = await readPlainStatuses(
    work,
    projectId,
    events.map(({ id }) => id),
  );
  const roots = events.filter(({ id, rootId }) => id === rootId);
  const reversals = new Map(roots.map((root) => [root.id, newReversal(root, how)]));
  const isOpen = (id: string): boolean => ["PROCESSED", "PENDING"].includes(statuses.get(id)!);
  const open = events.filter(({ id, rootId }) => isOpen(rootId) && isOpen(id));
  const pending = open.filter(({ id }) => statuses.get(id) === "PENDING");
  const done = open.filter(({ id }) => statuses.get(id) === "PROCESSED");
  await cancel(work, projectId, pending);
  const openRoots = roots.filter(({ id }) => isOpen(id));
  const group = { roots: openRoots, done, reversals, how };
  const playersOf =
    openRoots.length === 0 ? new Map() : await bounded(() => reverseAll(work, projectId, group));
  await markReverted(work, projectId, { events: open, reversals: [...reversals.values()] });
  const results = roots
    .filter(({ id }) => isOpen(id) || statuses.get(id) === "REVERTED")
    .map((root) =>
      resultOf(root, reversals.get(root.id)!, {
        isReverted: isOpen(root.id),
        players: playersOf.get(root.id)?.size ?? 0,
        cancelled: pending.filter(({ id, rootId }) => rootId === root.id && id !== rootId).length,
      }),
    );
  const known = new Set(results.map(({ eventId }) => eventId));
  const refused = roots.filter(({ id }) => !known.has(id)).map(({ id }) => [id, statuses.get(id)!] as const);
  return { results, refused: new Map(refused) };
};

/** How long reverting events with everything that they have sent may take, in ms. */
const REVERT_MS = 10_000;

/** @throws DomainError CONFLICT EVENT_TOO_LARGE when `run` exceeds the limits */
const bounded = async <T>(run: () => Promise<T>): Promise<T> => {
  try {
    return await run();
  } catch (error) {
    if (error instanceof TimeIsOver) throw tooLarge("it has too many effects on too many definitions");
    throw error;
  }
};

/** Reads the events and what they have sent, and keeps workers away from the players of these events. */
const holdAll = async (
  work: Work,
  projectId: string,
  eventIds: readonly string[],
): Promise<RevertedEvent[]> => {
  const held = new Set<number>();
  for (;;) {
    const events = await readEvents(work, projectId, eventIds);
    const parts = events.map(({ externalUserId }) => partitionOf(projectId, externalUserId));
    if (parts.every((part) => held.has(part))) return events;
    // A batch in progress may have sent more: read again, now that there is none.
    await holdEvents(work, projectId, parts);
    for (const part of parts) held.add(part);
  }
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

/** Marks grants of rewards as revoked. */
export const revokeGrants = async (
  { db, now }: Work,
  projectId: string,
  grants: Reversal["grants"],
): Promise<void> => {
  if (grants.length === 0) return;
  await sql`
    with g as (
      update reward_grants t set status = 'REVOKED', updated_at = ${now.toISOString()}::timestamptz
      from json_to_recordset(${JSON.stringify(grants)}::json) as x("playerId" uuid, id uuid)
      where t.project_id = ${projectId} and t.player_id = x."playerId" and t.id = x.id
      returning t.id as ref)
    ${insertWarehouseChanges(projectId, "REWARD", sql`select ref from g`)}`.execute(db);
};

const markReverted = async (
  work: Work,
  projectId: string,
  { events, reversals }: { events: readonly RevertedEvent[]; reversals: readonly Reversal[] },
): Promise<void> => {
  if (events.length === 0) return;
  const { db, now } = work;
  const at = sql`${now.toISOString()}::timestamptz`;
  await revokeGrants(
    work,
    projectId,
    reversals.flatMap((reversal) => reversal.grants),
  );
  await sql`
    with x as (
      update rule_executions set reverted_at = ${at}
      where project_id = ${projectId} and event_id = any(${idsOf(events)}::uuid[]) and reverted_at is null),
    u as (${insertUncounted(sql`
      select ${projectId}::uuid as project_id, unnest(${idsOf(events)}::uuid[]) as event_id`)}),
    c as (${insertWarehouseChanges(
      projectId,
      "CHANGED",
      sql`select unnest(${idsOf(events)}::uuid[]) as ref`,
    )})
    insert into event_results (project_id, event_id, status, error, attempts, processed_at)
    select ${projectId}::uuid, id, 'REVERTED', null, 1, ${at} from unnest(${idsOf(events)}::uuid[]) as u(id)
    on conflict (project_id, event_id) do update set status = excluded.status, error = null`.execute(db);
};

type Reversing = {
  /** The events with effects that are reverted, and by which others were sent. */
  roots: readonly RevertedEvent[];
  /** The processed ones of all. */
  done: readonly RevertedEvent[];
  /** By root. */
  reversals: ReadonlyMap<string, Reversal>;
  how: HowToRevert;
};

/** The affected players, by root. */
type PlayersOf = ReadonlyMap<string, ReadonlySet<PlayerState>>;

/** Reverts the effects, and emits one event about each root. */
const reverseAll = async (work: Work, projectId: string, reversing: Reversing): Promise<PlayersOf> => {
  const { roots, done, reversals, how } = reversing;
  const plan = await findPlan(work, projectId);
  if (!plan) throw notFound("project");
  const ids = done.map(({ id }) => id);
  if (!(await isBounded(work, projectId, ids))) throw tooLarge("it has caused too many effects");
  const caused = await readCaused(work, projectId, ids);
  const names = roots.map(({ externalUserId }) => externalUserId);
  const ownerIds = await playerIdsOf(work, projectId, names);
  const players = await lockAll(work, plan, { caused, ownerIds, done });
  const pace = new Pace(REVERT_MS);
  const state = await readRevertState(work, plan, { done, caused, players, ownerIds, pace });
  noteMissing(caused, { done, reversals });
  const parts = partsOf(state);
  const groups = await readGroups(work, state, parts);
  const partsOfRoot = Map.groupBy(parts, ({ event }) => event.rootId);
  for (const root of roots.toReversed()) {
    const reversal = reversals.get(root.id)!;
    for (const part of partsOfRoot.get(root.id) ?? [])
      await reversePart(work, state, { part, groups, reversal });
    checkShortfall(reversal, how);
    emitReverted(work, state, { root, reversal });
  }
  const states = [...new Set(players.values())];
  const { effects, shared } = state;
  await saveBatch(work, { players: states, effects, shared, verdicts: [], done: [] });
  return playersByRoot(state, { roots, parts });
};

const playersByRoot = (
  { players, ownerIds }: RevertState,
  { roots, parts }: { roots: readonly RevertedEvent[]; parts: readonly EventPart[] },
): PlayersOf => {
  const found = new Map<string, Set<PlayerState>>(
    roots.map((root) => {
      const owner = players.get(ownerIdOf(root, ownerIds) ?? "");
      return [root.id, new Set(owner ? [owner] : [])];
    }),
  );
  for (const { event, player } of parts) found.get(event.rootId)?.add(player);
  return found;
};

type Noting = Pick<Reversing, "done" | "reversals">;

/** Emitted events are kept only for a time; ledger entries are kept permanently. */
const noteMissing = ({ ledger, emitted }: Caused, { done, reversals }: Noting): void => {
  const rootOf = new Map(done.map(({ id, rootId }) => [id, rootId]));
  const told = new Set(emitted.map(({ eventId }) => rootOf.get(eventId)));
  for (const { eventId } of ledger) {
    const rootId = rootOf.get(eventId);
    if (rootId === undefined || told.has(rootId)) continue;
    reversals
      .get(rootId)
      ?.left.add("counters, levels and streaks of what the event brought about: it is no longer known");
  }
};

type Reverting = { part: EventPart; groups: PlayerGroups; reversal: Reversal };

/** Reverts one event for one player. */
const reversePart = async (
  work: Work,
  state: RevertState,
  { part, groups, reversal }: Reverting,
): Promise<void> => {
  const { plan, effects, shared, leftBy } = state;
  const { event, player, own } = part;
  for (const firing of own.firings) for (const what of leftBy(firing)) reversal.left.add(what);
  const record = nextRecord(state, groups, { part, reversal });
  const { id, type, at, properties } = event;
  const passed = { id, type, at, properties, depth: 0 };
  const turn = openTurn({
    plan,
    player,
    event: passed,
    nowMs: projectTime(work, plan).getTime(),
    effects,
    shared,
  });
  await state.pace.run(reversePlayer(turn, record, { ...state, reversal }));
};

const checkShortfall = ({ shortfall }: Reversal, { onShortfall }: HowToRevert): void => {
  const missing = Object.entries(shortfall).map(([what, amount]) => `${amount} ${what}`);
  if (onShortfall === "REJECT" && missing.length > 0)
    throw conflict("SHORTFALL", `not everything is left to take back: ${missing.join(", ")} missing`);
};

const emitReverted = (
  work: Work,
  { plan, players, ownerIds, effects, shared }: RevertState,
  { root, reversal }: { root: RevertedEvent; reversal: Reversal },
): void => {
  const { id: eventId, externalUserId, type, at, properties } = root;
  const data: EventData<"event.reverted"> & Json = {
    eventId,
    externalUserId,
    reversed: reversedOf(reversal),
    shortfall: reversal.shortfall,
  };
  const player = players.get(ownerIdOf(root, ownerIds) ?? "");
  if (!player) return work.emit(plan.projectId, "event.reverted", data);
  const event = { id: eventId, type, at, properties, depth: 0 };
  openTurn({ plan, player, event, nowMs: projectTime(work, plan).getTime(), effects, shared }).emit(
    "event.reverted",
    data,
  );
};

type Revert = HowToRevert & { eventId: string };

/**
 * Reverts one event with everything that it has caused, as `revertEvents`.
 * @throws DomainError NOT_FOUND; CONFLICT: INVALID_STATE for an event without effects, EVENT_TOO_LARGE,
 * SHORTFALL
 */
export const revertEvent = async (
  work: Work,
  projectId: string,
  { eventId, ...how }: Revert,
): Promise<RevertResult> => {
  const { results, refused } = await revertEvents(work, projectId, { eventIds: [eventId], ...how });
  const [result] = results;
  if (result) return result;
  const status = refused.get(eventId);
  if (status === undefined) throw notFound("event");
  throw conflict("INVALID_STATE", `the event is ${status}: it has no effects`);
};

/** Reverts one event; all of it is one step. */
export const eventRevert = jobKind({
  kind: "EVENT_REVERT",
  access: { scope: "players:write", roles: ADMINS },
  params: z.object({ eventId: z.uuid(), reason: z.string(), onShortfall: z.enum(ON_SHORTFALL) }),
  step: async (work, { projectId, params, createdBy }) => ({
    result: await revertEvent(work, projectId, { ...params, actor: createdBy }),
  }),
});

/**
 * Queues the revert of an event. A repetition returns the job that has done it or will do it.
 * @throws DomainError NOT_FOUND; CONFLICT: INVALID_STATE for an event that has no effects, JOB_LIMIT
 */
export const requestRevert = async (work: Work, projectId: string, revert: Revert): Promise<ProjectJob> => {
  const { eventId, reason, onShortfall, actor } = revert;
  const [found] = isId(eventId) ? await readStatuses(work, projectId, [eventId]) : [];
  if (!found) throw notFound("event");
  const known = await findJob(work, projectId, eventId);
  if (known) return known;
  if (found.status !== "PROCESSED" && found.status !== "PENDING")
    throw conflict("INVALID_STATE", `the event is ${found.status}`);
  await auditEvent(work, "event.revert_requested", { id: eventId, projectId, reason, onShortfall });
  const params = { eventId: eventId.toLowerCase(), reason, onShortfall };
  return queueJob(work, projectId, { kind: eventRevert, params, createdBy: actor });
};

/** Returns the job that has reverted the event, or will do so. */
const findJob = async (work: Work, projectId: string, eventId: string): Promise<ProjectJob | undefined> => {
  const found = await sql<{ id: string }>`
    select id from project_jobs
    where project_id = ${projectId} and kind = ${eventRevert.kind}
      and params->>'eventId' = ${eventId.toLowerCase()} and status in ('QUEUED', 'RUNNING', 'SUCCEEDED')
    order by id desc limit 1`.execute(work.db);
  const [job] = found.rows;
  return job && getJob(work, { projectId, id: job.id, kinds: [eventRevert.kind] });
};
