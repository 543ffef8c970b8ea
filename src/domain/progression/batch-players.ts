import { newId } from "../ids.ts";
import type { Work } from "../work.ts";
import { type ExternalRef, externalKey, insertPlayers, lockPlayers } from "./load.ts";
import type { PlayerState } from "./player-state.ts";
import type { ProjectPlan } from "./project-plan.ts";
import type { QueuedEvent } from "./queue.ts";

export type Locked = {
  /** By `externalKey`. */
  players: Map<string, PlayerState>;
  /** The `externalKey` of those who were made. */
  made: Set<string>;
};

/** Locks the batch's players and makes those seen for the first time. */
export const lockOrCreate = async (
  work: Work,
  events: readonly QueuedEvent[],
  plans: ReadonlyMap<string, ProjectPlan>,
): Promise<Locked> => {
  const refs = new Map<string, ExternalRef>(events.map((event) => [externalKey(event), event]));
  const players = await lockPlayers(work, [...refs.values()]);
  const mayBeMade = new Set(
    events.filter((event) => mayCreate(event, plans.get(event.projectId)!)).map(externalKey),
  );
  const missing = [...refs].filter(([key]) => !players.has(key));
  if (missing.length === 0) return { players, made: new Set() };
  const rows = missing.filter(([key]) => mayBeMade.has(key)).map(([, ref]) => ({ ...ref, id: newId() }));
  const inserted = rows.length === 0 ? new Set() : await insertPlayers(work, rows);
  const found = await lockPlayers(
    work,
    missing.map(([, ref]) => ref),
  );
  for (const [key, player] of found) players.set(key, player);
  const made = rows.filter(({ id }) => inserted.has(id)).map(externalKey);
  return { players, made: new Set(made) };
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
