import type { EventType } from "./events/domain-events.ts";
import type { Json } from "./events/events.ts";
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
  /** Of a row that holds several lines: how many; `playerSeq` is that of the last. */
  lines?: number;
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

/** Maximum number of lines that one row holds. */
export const PACKED_MAX = 16;

/** Types of lines that come several at once. Who reads such rows by SQL reads `OUTBOX_LINES`. */
const PACKED_TYPES: ReadonlySet<string> = new Set<EventType>(["quest.updated"]);

/** Returns the id of a line, from 0, of a row that holds several: the row's, but for its last byte. */
const lineId = (rowId: string, place: number): string =>
  rowId.slice(0, -2) + (place + 1).toString(16).padStart(2, "0");

const follows = (row: OutboxRow, before: OutboxRow): boolean =>
  before.playerSeq !== null &&
  row.playerSeq === before.playerSeq + 1 &&
  row.playerId === before.playerId &&
  row.eventId === before.eventId &&
  row.type === before.type &&
  row.projectId === before.projectId &&
  PACKED_TYPES.has(row.type);

const packed = (rows: readonly OutboxRow[]): OutboxRow => {
  const last = rows.at(-1)!;
  if (rows.length === 1) return last;
  return { ...last, data: { lines: rows.map(({ data }) => data) }, lines: rows.length };
};

/** Returns rows in which a player's lines of one kind that follow one another share a row. */
export const packLines = (rows: readonly OutboxRow[]): OutboxRow[] => {
  const all: OutboxRow[] = [];
  let open: OutboxRow[] = [];
  for (const row of rows) {
    const before = open.at(-1);
    if (before && (open.length === PACKED_MAX || !follows(row, before))) {
      all.push(packed(open));
      open = [];
    }
    open.push(row);
  }
  if (open.length > 0) all.push(packed(open));
  return all;
};

/** A row as it is read; `seq` is that of its last line. */
type StoredRow = { id: string; seq: number | null; lines: number | null };

/** A line of a row; `place`: among those of the row, null where it is the only one. */
type Line = { id: string; seq: number | null; place: number | null };

/** Returns the lines of a row, oldest first: one where it does not hold several. */
export const linesOf = ({ id, seq, lines }: StoredRow): Line[] => {
  if (lines === null) return [{ id, seq, place: null }];
  const before = Number(seq) - lines;
  return Array.from({ length: lines }, (_, place) => ({
    id: lineId(id, place),
    seq: before + 1 + place,
    place,
  }));
};

/** Returns the data of a line out of that of its row; that of an erased row is empty. */
export const lineData = (data: Json, { place }: Pick<Line, "place">): Json =>
  place === null ? data : ((data["lines"] as Json[] | undefined)?.[place] ?? {});

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
