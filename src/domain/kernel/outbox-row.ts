import { OUTBOX_PARTITIONS, fnv1a, newId } from "./ids.ts";

export type EmitOptions = {
  playerId?: string;
  playerSeq?: number;
  eventId?: string;
  /** The id of the row if it must be known; default: a new one. */
  id?: string;
};

/** A row of the outbox to be written. */
export type OutboxRow = {
  id: string;
  projectId: string;
  type: string;
  playerId: string | null;
  playerSeq: number | null;
  eventId: string | null;
  data: unknown;
};

export const outboxRow = (
  projectId: string,
  type: string,
  data: unknown,
  options: EmitOptions = {},
): OutboxRow => ({
  id: options.id ?? newId(),
  projectId,
  type,
  playerId: options.playerId ?? null,
  playerSeq: options.playerSeq ?? null,
  eventId: options.eventId ?? null,
  data,
});

/** Returns the partition of a row; a player's rows share one, so that one relay sends them in order. */
export const outboxPart = (row: Pick<OutboxRow, "playerId" | "projectId">): number =>
  fnv1a(row.playerId ?? row.projectId) % OUTBOX_PARTITIONS;

export type OutboxQueueRow = { project_id: string; part: number; ids: string[] };

/** Builds the queue rows that announce `rows`: one for each project and partition, ids in order. */
export const outboxQueueRows = (rows: readonly OutboxRow[]): OutboxQueueRow[] => {
  const byPart = new Map<string, OutboxQueueRow>();
  for (const row of rows) {
    const part = outboxPart(row);
    const key = `${row.projectId}:${part}`;
    const queued = byPart.get(key);
    if (queued) queued.ids.push(row.id);
    else byPart.set(key, { project_id: row.projectId, part, ids: [row.id] });
  }
  return [...byPart.values()];
};
