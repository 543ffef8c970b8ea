import { sql } from "kysely";
import { newId } from "../kernel/ids.ts";
import type { Work } from "../kernel/work.ts";
import { waitBriefly } from "./brief-wait.ts";
import { type ExternalRef, externalKey, insertPlayers, lockFreePlayers, lockPlayers } from "./load.ts";
import { LOADED_ROWS_MAX, loadFirst, PAGE_BYTES_MAX, partsFor } from "./load-states.ts";
import type { Moment } from "../evaluation/boards/list.ts";
import type { PlayerState } from "../evaluation/player-state.ts";
import type { ProjectPlan } from "../evaluation/project-plan.ts";
import type { QueuedEvent } from "./queue.ts";
import { EventsHeld } from "./unready.ts";

export type Locked = {
  /** Keyed by `externalKey`. */
  players: Map<string, PlayerState>;
  /** The `externalKey` of each player created in this transaction. */
  made: Set<string>;
};

/**
 * Locks the existing players of a claim. Waits for players locked by others only as long as a request would
 * hold them, since the claim also contains events of other players and projects.
 * @throws EventsHeld for players that stay locked for longer
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

/** Locks the players of a batch and creates those seen for the first time. @throws EventsHeld */
export const lockOrCreate = async (
  work: Work,
  events: readonly QueuedEvent[],
  plans: ReadonlyMap<string, ProjectPlan>,
): Promise<Locked> => {
  const players = await lockUnheld(work, events);
  const missing = [...Map.groupBy(events, externalKey)].flatMap(([key, of]) => (players.has(key) ? [] : of));
  if (missing.length === 0) return { players, made: new Set() };
  const mayBeCreated = missing.filter((event) => mayCreate(event, plans.get(event.projectId)!));
  const refs = new Map<string, ExternalRef>(mayBeCreated.map((event) => [externalKey(event), event]));
  const rows = [...refs.values()].map((ref) => ({ ...ref, id: newId() }));
  const inserted = rows.length === 0 ? new Set() : await insertPlayers(work, rows);
  const made = rows.filter(({ id }) => inserted.has(id));
  const found = await deletingCreatedIfHeld(work, made, () => lockUnheld(work, missing));
  for (const [key, player] of found) players.set(key, player);
  return { players, made: new Set(made.map(externalKey)) };
};

/**
 * Runs `run`, which may throw EventsHeld, and deletes the players in `made` when it does: the claim goes on
 * without the affected events, and creates and announces the other players again.
 */
export const deletingCreatedIfHeld = async <T>(
  work: Work,
  made: readonly ExternalRef[],
  run: () => Promise<T>,
): Promise<T> => {
  try {
    return await run();
  } catch (error) {
    if (error instanceof EventsHeld) await deleteCreated(work, made);
    throw error;
  }
};

/** Deletes players that were created in this transaction and not announced yet. */
export const deleteCreated = async (work: Work, refs: readonly ExternalRef[]): Promise<void> => {
  if (refs.length === 0) return;
  const rows = refs.map(({ projectId, externalUserId }) => ({ p: projectId, u: externalUserId }));
  await sql`
    delete from players t using json_to_recordset(${JSON.stringify(rows)}::json) as r(p uuid, u text)
    where t.project_id = r.p and t.external_user_id = r.u`.execute(work.db);
};

/**
 * Returns whether an event may create its player; the settings differ for events of integrators and of rules.
 */
export const mayCreate = ({ eventType }: QueuedEvent, { settings }: ProjectPlan): boolean =>
  eventType.startsWith("system.") ? settings.createUnknownTargets : settings.autoCreatePlayers;

/** Sets on each player the moments of its upcoming events, so that what is stored per period is loaded. */
const noteMoments = (
  players: ReadonlyMap<string, PlayerState>,
  events: readonly QueuedEvent[],
  nowMs: number,
): void => {
  const moments = new Map<PlayerState, Moment[]>();
  for (const event of events) {
    const player = players.get(externalKey(event));
    if (!player) continue;
    const own = moments.get(player) ?? [];
    own.push({ at: Math.min(event.occurredAt.getTime(), nowMs), properties: event.properties });
    moments.set(player, own);
  }
  for (const [player, own] of moments) Object.assign(player, { moments: own, lists: new Map() });
};

type Loading = {
  events: readonly QueuedEvent[];
  players: ReadonlyMap<string, PlayerState>;
  plans: ReadonlyMap<string, ProjectPlan>;
};

/**
 * Loads the state of a batch's players, in the order of its events, as far as it fits into memory at once.
 * @returns the leading events whose players were loaded, at least one, and those players
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
    noteMoments(players, some, work.now.getTime());
    const count = await loadFirst(work, states, all, limits);
    if (count === undefined) continue;
    const left = new Set(states.slice(count));
    const end = some.findIndex((event) => left.has(players.get(externalKey(event))!));
    return { fitting: end === -1 ? some : some.slice(0, end), states: states.slice(0, count) };
  }
};
