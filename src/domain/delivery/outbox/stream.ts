import { sql } from "kysely";
import type { PlayerStatus } from "../../players/player.ts";
import type { PlayerMessage } from "../../kernel/events/topics.ts";
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

type LineRow = {
  seq: string | number;
  id: string;
  type: string;
  data: PlayerMessage["data"];
  created_at: Date | string;
};

/** A player's lines after `afterSeq`. */
export type StreamTail = { playerId: string; afterSeq: number };

/**
 * Returns the lines of a player's stream after `afterSeq`, in order, at most `limit`, and none if they exceed
 * STREAM_BYTES. Lines removed by retention are missing, so the first one may be later than `afterSeq + 1`.
 */
export const readPlayerStream = async (
  work: Work,
  { projectId, playerId }: StreamRef,
  afterSeq: number,
  limit: number,
): Promise<PlayerMessage[]> => {
  const [lines] = await readPlayerStreams(work, projectId, { tails: [{ playerId, afterSeq }], limit });
  return lines!;
};

/**
 * As `readPlayerStream` for many in at most one statement; in the requested order. A player whose lines
 * exceed STREAM_BYTES gets none.
 */
export const readPlayerStreams = async (
  { db }: Work,
  projectId: string,
  { tails, limit }: { tails: readonly StreamTail[]; limit: number },
): Promise<PlayerMessage[][]> => {
  const found: PlayerMessage[][] = tails.map(() => []);
  if (tails.length === 0) return found;
  const asked = JSON.stringify(tails.map(({ playerId, afterSeq }, n) => ({ n, p: playerId, a: afterSeq })));
  const lines = await sql<LineRow & { n: number }>`
    select r.n, o.seq, o.id, o.type, o.data, o.created_at
    from json_to_recordset(${asked}::json) as r(n int, p uuid, a bigint)
    cross join lateral (
      select l.*, sum(coalesce(l.bytes, octet_length(l.data::text))) over () as bytes_of_all from (
        select player_seq as seq, id, type, data, created_at, bytes from outbox
        where project_id = ${projectId}::uuid and player_id = r.p and player_seq > r.a
        order by player_seq limit ${limit}) l) o
    where o.bytes_of_all <= ${STREAM_BYTES}
    order by r.n, o.seq`.execute(db);
  for (const row of lines.rows) found[row.n]!.push(messageOf(row));
  return found;
};

/** Converts an outbox row to the line of its player's stream. */
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
