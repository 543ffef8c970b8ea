import { sql } from "kysely";
import type { ProjectPlan } from "../../evaluation/project-plan.ts";
import type { PlayerMessage } from "../../kernel/topics.ts";
import { lineData, linesOf } from "../../kernel/outbox.ts";
import type { Read } from "../../kernel/read.ts";
import type { Work } from "../../kernel/work.ts";
import type { PlayerStatus } from "../../players/player.ts";
import { projectPlans } from "../../progression/plan.ts";
import {
  PLAYER_COLUMNS,
  PLAYER_HOLDINGS,
  playerReadOf,
  type PlayerRow,
  type ShownPlayer,
  showPlayerOf,
} from "../../progression/players/show.ts";

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
  seq: number;
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
    messageOf({ ...row, id: line.id, data: lineData(row.data, line) }, line.seq!),
  );

/** Converts a line to what players' rooms are sent. */
export const messageOf = (row: Omit<LineRow, "seq">, seq: number): PlayerMessage => ({
  seq,
  id: row.id,
  type: row.type,
  data: row.data,
  at: new Date(row.created_at).toISOString(),
});

/** Returns the heads of `players`, in one statement per 1,000; unknown players are absent. */
export const readStreamHeads = async ({ db }: Work, players: readonly StreamRef[]): Promise<StreamHead[]> => {
  const heads: StreamHead[] = [];
  for (let i = 0; i < players.length; i += HEADS_MAX) {
    const asked = JSON.stringify(players.slice(i, i + HEADS_MAX));
    const result = await sql<StreamHead>`
      select p.project_id as "projectId", p.id as "playerId", p.seq, p.status, p.xp, p.level,
        j.config_version as "configVersion"
      from json_to_recordset(${asked}::json) as r("projectId" uuid, "playerId" uuid)
      join players p on p.project_id = r."projectId" and p.id = r."playerId"
      join projects j on j.id = p.project_id`.execute(db);
    heads.push(...result.rows);
  }
  return heads;
};

/** A player as of one moment, and the lines of the stream up to that moment. */
type PlayerNow = { player: ShownPlayer; messages: PlayerMessage[]; plan: ProjectPlan };

/** `afterSeq`: the newest known line; undefined: no lines are wanted. */
type AskedPlayer = { playerId: string; afterSeq: number | undefined };

type PlayersQuery = {
  projectId: string;
  asked: readonly AskedPlayer[];
  now: Date;
  /** Maximum lines of a player; one further behind gets none. */
  limit: number;
};

type LineValue = [
  seq: number,
  id: string,
  type: string,
  data: PlayerMessage["data"],
  at: string,
  lines: number | null,
];
type Row = PlayerRow & { config_version: number; n: number; lines: LineValue[] | null };

/** Lines of a player `p` after the seq of `r`, unless they are too many; $4: how many, $5: bytes. */
const LINES = `
  case when p.seq > r.a and p.seq - r.a <= $4::int then (
    select json_agg(json_build_array(l.seq, l.id, l.type, l.data, l.created_at, l.lines) order by l.seq)
    from (
      select player_seq as seq, id, type, data, created_at, lines,
        coalesce(bytes, octet_length(data::text)) as size
      from outbox where project_id = $1::uuid and player_id = p.id and player_seq > r.a
      order by player_seq limit $4::int) l
    having sum(l.size) <= $5::int) end`;

/** Players by primary key. */
const textWith = (lines: string): string => `
  select j.config_version, r.n, p.*, ${PLAYER_HOLDINGS}, ${lines} as lines
  from projects j cross join json_to_recordset($2::json) as r(n int, p uuid, a bigint)
  left join lateral (
    select id, ${PLAYER_COLUMNS}
    from players where project_id = $1::uuid and id = r.p and merged_into is null limit 1) p on true
  where j.id = $1::uuid`;

/** The table of lines has many partitions, so whoever needs none does not name it. */
const TEXTS = { none: textWith("null::json"), some: textWith(LINES) };

/** The lines of rows of which the first may begin with lines that are known. */
const linesAfter = (rows: readonly LineValue[], afterSeq: number): PlayerMessage[] =>
  rows
    .flatMap(([seq, id, type, data, created_at, lines]) =>
      messagesOf({ seq, id, type, data, created_at, lines }),
    )
    .filter(({ seq }) => seq > afterSeq);

/**
 * Reads players of one project, with their lines, by one statement. They are read at one moment, so that the
 * lines are those up to the player's `seq`.
 * @returns them in order, undefined for one who does not exist or was merged; undefined as a whole where this
 * process does not have the definitions of that moment: `readPlan` in a transaction makes them
 */
export const readPlayersNow = async (
  read: Read,
  { projectId, asked, now, limit }: PlayersQuery,
): Promise<(PlayerNow | undefined)[] | undefined> => {
  const plan = projectPlans.get(projectId);
  if (!plan) return undefined;
  const areLinesWanted = asked.some(({ afterSeq }) => afterSeq !== undefined);
  const list = JSON.stringify(asked.map(({ playerId, afterSeq }, n) => ({ n, p: playerId, a: afterSeq })));
  const values = [projectId, list, now.toISOString()];
  const rows = await read<Row>(
    areLinesWanted
      ? { text: TEXTS.some, values: [...values, limit, STREAM_BYTES] }
      : { text: TEXTS.none, values },
  );
  if (rows.some((row) => row.config_version !== plan.configVersion)) return undefined;
  const found: (PlayerNow | undefined)[] = asked.map(() => undefined);
  for (const row of rows) {
    const one = playerReadOf(plan, row, now);
    if (!one) continue;
    const player = showPlayerOf(plan, { ...one, nowMs: now.getTime() });
    const messages = linesAfter(row.lines ?? [], asked[row.n]!.afterSeq ?? 0);
    found[row.n] = { player, messages, plan };
  }
  return found;
};
