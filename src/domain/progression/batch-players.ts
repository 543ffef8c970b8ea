import { sql } from "kysely";
import { newId } from "../ids.ts";
import type { Work } from "../work.ts";
import { waitBriefly } from "./brief-wait.ts";
import { type ExternalRef, externalKey, insertPlayers, lockFreePlayers, lockPlayers } from "./load.ts";
import type { PlayerState } from "./player-state.ts";
import type { ProjectPlan } from "./project-plan.ts";
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
export const noteTimes = (
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
  for (const [player, own] of times) player.timesMs = own;
};
