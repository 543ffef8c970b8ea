import { sql } from "kysely";
import type { PlayerStatus } from "../../players/player.ts";
import type { PlayerMessage } from "../../kernel/events/topics.ts";
import { lineData, linesOf } from "../../kernel/outbox-row.ts";
import type { Work } from "../../kernel/work.ts";

/** Number of players per statement of `readStreamHeads`. */
const HEADS_MAX = 1_000;
/** Maximum bytes of lines read for one player; a player further behind gets none. */
export const STREAM_BYTES = 256 * 1024;

export type StreamRef = { projectId: string; playerId: string };

/**
 * Head of a player's stream: `seq` is that of the newest line, `configVersion` that of the project's
 * definitions.
 */
export type StreamHead = StreamRef & {
  seq: number;
  status: PlayerStatus;
  xp: number;
  level: number;
  configVersion: number;
};

/** A line of a player's stream. */
type LineRow = {
  seq: string | number;
  id: string;
  type: string;
  data: PlayerMessage["data"];
  created_at: Date | string;
};

/** A row of the outbox that holds lines of a player's stream. */
export type StoredLines = LineRow & { lines: number | null };

/** Returns the lines of a row, oldest first. */
export const messagesOf = ({ lines, ...row }: StoredLines): PlayerMessage[] =>
  linesOf({ ...row, lines }).map((line) =>
    messageOf({ ...row, id: line.id, seq: line.seq!, data: lineData(row.data, line) }),
  );

/** Converts a line to what players' rooms are sent. */
export const messageOf = (row: LineRow): PlayerMessage => ({
  seq: Number(row.seq),
  id: row.id,
  type: row.type,
  data: row.data,
  at: new Date(row.created_at).toISOString(),
});

type HeadRow = {
  project_id: string;
  id: string;
  seq: string | number;
  status: PlayerStatus;
  xp: string | number;
  level: number;
  config_version: string | number;
};

/** Returns the heads of `players`, in one statement per 1,000; unknown players are absent. */
export const readStreamHeads = async ({ db }: Work, players: readonly StreamRef[]): Promise<StreamHead[]> => {
  const heads: StreamHead[] = [];
  for (let i = 0; i < players.length; i += HEADS_MAX) {
    const asked = JSON.stringify(players.slice(i, i + HEADS_MAX));
    const result = await sql<HeadRow>`
      select p.project_id, p.id, p.seq, p.status, p.xp, p.level, j.config_version
      from json_to_recordset(${asked}::json) as r("projectId" uuid, "playerId" uuid)
      join players p on p.project_id = r."projectId" and p.id = r."playerId"
      join projects j on j.id = p.project_id`.execute(db);
    heads.push(...result.rows.map(headOf));
  }
  return heads;
};

const headOf = (row: HeadRow): StreamHead => ({
  projectId: row.project_id,
  playerId: row.id,
  seq: Number(row.seq),
  status: row.status,
  xp: Number(row.xp),
  level: row.level,
  configVersion: Number(row.config_version),
});
