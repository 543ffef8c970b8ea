import { sql } from "kysely";
import { newId } from "../kernel/ids.ts";
import type { Work } from "../kernel/work.ts";
import { waitBriefly } from "./brief-wait.ts";
import { type ExternalRef, externalKey, insertPlayers, lockFreePlayers, lockPlayers } from "./load.ts";
import { LOADED_ROWS_MAX, loadFirst, PAGE_BYTES_MAX, partsFor } from "./load-states.ts";
import type { PlayerState } from "../evaluation/player-state.ts";
import type { ProjectPlan } from "../evaluation/project-plan.ts";
import type { QueuedEvent } from "./queue.ts";
import { EventsHeld } from "./unready.ts";

export type Locked = {
  /** By `externalKey`. */
  players: Map<string, PlayerState>;
  /** The `externalKey` of those who were made. */
  made: Set<string>;
};

/**
 * Locks those of a claim's players that exist. Who is held by others is waited for as long as requests hold
 * players, and no longer: events of other players and projects are in the claim.
 * @throws EventsHeld for those who are held for longer
 */
export const lockUnheld = async (
  work: Work,
  events: readonly QueuedEvent[],
): Promise<Map<string, PlayerState>> => {
  const refs = new Map<string, ExternalRef>(events.map((event) => [externalKey(event), event]));
  const { players, held } = await lockFreePlayers(work, [...refs.values()]);
  if (held.length === 0) return players;
  const late = new Set(held.map(externalKey));
  const waited = await waitBriefly(work, () => lockPlayers(work, held));
  if (!waited) throw new EventsHeld(`${late.size} players`, (event) => late.has(externalKey(event)));
  for (const [key, player] of waited) players.set(key, player);
  return players;
};

/** Locks the batch's players and makes those seen for the first time. @throws EventsHeld */
export const lockOrCreate = async (
  work: Work,
  events: readonly QueuedEvent[],
  plans: ReadonlyMap<string, ProjectPlan>,
): Promise<Locked> => {
  const players = await lockUnheld(work, events);
  const missing = [...Map.groupBy(events, externalKey)].flatMap(([key, of]) => (players.has(key) ? [] : of));
  if (missing.length === 0) return { players, made: new Set() };
  const mayBeMade = missing.filter((event) => mayCreate(event, plans.get(event.projectId)!));
  const refs = new Map<string, ExternalRef>(mayBeMade.map((event) => [externalKey(event), event]));
  const rows = [...refs.values()].map((ref) => ({ ...ref, id: newId() }));
  const inserted = rows.length === 0 ? new Set() : await insertPlayers(work, rows);
  const made = rows.filter(({ id }) => inserted.has(id));
  const found = await unmakingHeld(work, made, () => lockUnheld(work, missing));
  for (const [key, player] of found) players.set(key, player);
  return { players, made: new Set(made.map(externalKey)) };
};

/**
 * Runs what may throw EventsHeld: then those of `made` go again, since the claim goes on without those events
 * and makes and announces the others anew.
 */
export const unmakingHeld = async <T>(
  work: Work,
  made: readonly ExternalRef[],
  run: () => Promise<T>,
): Promise<T> => {
  try {
    return await run();
  } catch (error) {
    if (error instanceof EventsHeld) await unmakePlayers(work, made);
    throw error;
  }
};

/** Takes players away again who were made in this transaction, and of whom nobody has been told. */
export const unmakePlayers = async (work: Work, refs: readonly ExternalRef[]): Promise<void> => {
  if (refs.length === 0) return;
  const rows = refs.map(({ projectId, externalUserId }) => ({ p: projectId, u: externalUserId }));
  await sql`
    delete from players t using json_to_recordset(${JSON.stringify(rows)}::json) as r(p uuid, u text)
    where t.project_id = r.p and t.external_user_id = r.u`.execute(work.db);
};

/** Who may be made by an event: by an integrator's as by a rule's for another player, each as set. */
const mayCreate = ({ eventType }: QueuedEvent, { settings }: ProjectPlan): boolean =>
  eventType.startsWith("system.") ? settings.createUnknownTargets : settings.autoCreatePlayers;

/** Tells players the times of what is coming, so that what is kept by time is loaded. */
const noteTimes = (
  players: ReadonlyMap<string, PlayerState>,
  events: readonly QueuedEvent[],
  nowMs: number,
): void => {
  const times = new Map<PlayerState, number[]>();
  for (const event of events) {
    const player = players.get(externalKey(event));
    if (!player) continue;
    const own = times.get(player) ?? [];
    own.push(Math.min(event.occurredAt.getTime(), nowMs));
    times.set(player, own);
  }
  for (const [player, own] of times) Object.assign(player, { timesMs: own, lists: new Map() });
};

type Loading = {
  events: readonly QueuedEvent[];
  players: ReadonlyMap<string, PlayerState>;
  plans: ReadonlyMap<string, ProjectPlan>;
};

/**
 * Loads what the players of a batch have, in the order of its events, as far as it may be in hand at once.
 * @returns the events whose players were loaded, the first ones and at least one, and these players
 */
export const loadFitting = async (
  work: Work,
  { events, players, plans }: Loading,
): Promise<{ fitting: readonly QueuedEvent[]; states: PlayerState[] }> => {
  const all = [...plans.values()];
  const limits = { bytesMax: PAGE_BYTES_MAX, rowsMax: LOADED_ROWS_MAX, parts: partsFor(all) };
  for (let size = events.length; ; size = Math.ceil(size / 2)) {
    const some = events.slice(0, size);
    const states = [...new Set(some.flatMap((event) => players.get(externalKey(event)) ?? []))];
    noteTimes(players, some, work.now.getTime());
    const count = await loadFirst(work, states, all, limits);
    if (count === undefined) continue;
    const left = new Set(states.slice(count));
    const end = some.findIndex((event) => left.has(players.get(externalKey(event))!));
    return { fitting: end === -1 ? some : some.slice(0, end), states: states.slice(0, count) };
  }
};
