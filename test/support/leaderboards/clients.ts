import { randomUUID } from "node:crypto";
import { setTimeout as delay } from "node:timers/promises";
import { type RawBuilder, sql } from "kysely";
import type { Database } from "../../../src/platform/database.ts";
import type { Player } from "../rooms/sdk.ts";
import type { BoardHistory, Place } from "../checkers/leaderboard.ts";
import type { History } from "../checkers/history.ts";
import { answered } from "../http/ask.ts";
import type { Client } from "../http/client.ts";
import type { Random } from "../seed.ts";
import { joinOnce, Staying } from "../rooms/staying.ts";

const EVERY_MS = [40, 160] as const;
/** Few different ones, so that many are equal. */
const SCORES = [0, 6] as const;
const TRIES_MAX = 12;
/** Of scores that were not answered, how many are given up. */
const GIVE_UP_SHARE = 0.2;
const PAGE = 5;

export const BOARDS = {
  best: { operator: "BEST", ties: "EARLIEST" },
  sum: { operator: "SUM", ties: "SHARED" },
} as const satisfies Record<string, Pick<BoardHistory, "operator" | "ties">>;
export type BoardKey = keyof typeof BOARDS;
export const BOARD_KEYS = Object.keys(BOARDS) as BoardKey[];

export type Contest = { api: Client; key: string; projectId: string; history: History; isOver: boolean };

/** Makes the boards. */
export const makeBoards = async ({ api, key }: Contest): Promise<void> => {
  for (const board of BOARD_KEYS) {
    const body = { key: board, name: board, metric: { source: "CUSTOM" }, ...BOARDS[board] };
    answered(await api.post("/api/v1/leaderboards", body, { key }));
  }
};

/** Submits one score after another for a player; one that is not answered is sent again under its key. */
export const compete = async (contest: Contest, { playerId }: Player, random: Random): Promise<void> => {
  const { api, key, history } = contest;
  while (!contest.isOver) {
    const board = random.pick(BOARD_KEYS);
    const body = { playerId, score: random.between(...SCORES) };
    const value = { ...body, key: randomUUID() };
    const headers = { "X-Idempotency-Key": value.key };
    const submit = async () =>
      answered(await api.post(`/api/v1/leaderboards/${board}/scores`, body, { key, headers }));
    for (let tries = 0; tries < TRIES_MAX; tries++) {
      const { outcome } = await history.run([playerId, `submit ${board}`], value, submit);
      if (outcome !== "info" || random.chance(GIVE_UP_SHARE)) break;
      await delay(random.between(...EVERY_MS));
    }
    await delay(random.between(...EVERY_MS));
  }
};

/** Somebody who watches a board. */
export const watchBoard = (api: Client, { token }: Player, leaderboardKey: BoardKey): Staying =>
  new Staying({
    join: () => joinOnce(api, token, "leaderboard", { leaderboardKey, top: 100 }),
    listen: () => undefined,
  });

const placeOf = ({ rank, playerId, score }: Place): Place => ({ rank, playerId, score });

/** The places as a room shows them. */
export const placesShown = ({ room }: Staying): Place[] =>
  [...((room?.state.top ?? []) as Place[])].map(placeOf);

/** All places, page by page. */
export const readPages = async ({ api, key }: Contest, board: BoardKey): Promise<Place[]> => {
  const places: Place[] = [];
  for (let page = 1; ; page++) {
    const path = `/api/v1/leaderboards/${board}/entries?limit=${PAGE}&page=${page}`;
    const { data, pagination } = answered(await api.get(path, { key }));
    places.push(...(data as Place[]).map(placeOf));
    if (page >= pagination.totalPages) return places;
  }
};

/** The place of each player by itself, in the order of `players`. */
export const readLines = async (
  { api, key }: Contest,
  board: BoardKey,
  players: readonly string[],
): Promise<Place[]> => {
  const read = async (playerId: string): Promise<Place> =>
    placeOf(answered(await api.get(`/api/v1/leaderboards/${board}/players/${playerId}`, { key })));
  return Promise.all(players.map(read));
};

const ORDER: Record<BoardHistory["ties"], RawBuilder<unknown>> = {
  EARLIEST: sql`e.rank_score, e.rank_tie, e.player_id`,
  SHARED: sql`e.rank_score`,
};

/** What the database itself ranks. */
export const rankBySql = async (
  { em }: Database,
  { projectId }: Contest,
  board: BoardKey,
): Promise<Place[]> => {
  const { rows } = await sql<{ rank: string; player_id: string; rank_score: string }>`
    select rank() over (order by ${ORDER[BOARDS[board].ties]}) as rank, e.player_id, e.rank_score
    from leaderboard_entries e
    join leaderboards l on l.project_id = e.project_id and l.period_id = e.period_id
    where e.project_id = ${projectId} and l.key = ${board}
    order by e.rank_score, e.rank_tie, e.player_id`.execute(em.fork().getKysely());
  return rows.map((row) => ({
    rank: Number(row.rank),
    playerId: row.player_id,
    score: 0 - Number(row.rank_score),
  }));
};
