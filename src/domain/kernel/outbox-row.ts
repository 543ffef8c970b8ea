import type { EventType } from "./events/domain-events.ts";
import { linesPart, newId, ranksPart } from "./ids.ts";

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

/** The type of changes of boards. Versions decide, so they need no order. */
export const OF_RANKS = "leaderboard.entries_changed" satisfies EventType;

/** Returns the partition of a row; a player's lines share one, so that one relay sends them in order. */
export const outboxPart = ({
  type,
  playerId,
  projectId,
}: Pick<OutboxRow, "type" | "playerId" | "projectId">): number =>
  type === OF_RANKS ? ranksPart(projectId) : linesPart(playerId ?? projectId);

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
