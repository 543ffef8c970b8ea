import assert from "node:assert/strict";
import { newId, partitionOf } from "../../src/domain/kernel/ids.ts";
import type { Pool } from "./box.ts";

export type QueuedLoad = { events: number; players: number; prefix: string };

const PROGRESS = [
  "tracked_events, event_dedupe, event_q, event_due, event_results, players, player_states",
  "leaderboard_entries, ledger_entries, outbox, outbox_q",
  "player_quests, player_balances, player_streaks, streak_runs, player_badges, rule_executions",
  "event_traces, rule_stats",
].join(", ");

/** Nobody has played yet. */
export const clearProgress = async (pool: Pool): Promise<void> =>
  void (await pool.query(`truncate ${PROGRESS}`));

const sum = (pool: Pool, text: string, values: unknown[] = []): Promise<number> =>
  pool.query(text, values).then(({ rows }) => Number(rows[0]!["n"]));

/** An event as it is stored: id, player, partition, points. */
export type QueuedEvent = { i: string; u: string; h: number; v: number };

/** The n-th event of a load: players take turns. */
export const queuedEvent = (
  projectId: string,
  { n, players, prefix }: { n: number; players: number; prefix: string },
): QueuedEvent => {
  const player = `${prefix}-${String(n % players).padStart(6, "0")}`;
  return { i: newId(), u: player, h: partitionOf(projectId, player), v: (n % 10) + 1 };
};

/** Stores and queues events, all in one commit. */
export const addEvents = (pool: Pool, projectId: string, events: readonly QueuedEvent[]): Promise<unknown> =>
  pool.query(
    `with r as materialized (
      select * from json_to_recordset($2::json) as r(i uuid, u text, h smallint, v int)),
    e as (
      insert into tracked_events
        (project_id, id, external_user_id, event_type, properties, occurred_at, received_at)
      select $1::uuid, i, u, 'level_completed',
        jsonb_build_object('points', v, 'level', 7, 'world', 'the-whispering-forest',
          'difficulty', 'hard'), now(), now() from r)
    insert into event_q (project_id, part, event_id) select $1::uuid, h, i from r order by i`,
    [projectId, JSON.stringify(events)],
  );

/**
 * Queues events for `players` players in turn, all in one commit: nobody processes them before they are all
 * there.
 */
export const queueEvents = async (
  pool: Pool,
  projectId: string,
  { events, players, prefix }: QueuedLoad,
): Promise<void> => {
  const rows = Array.from({ length: events }, (_, n) => queuedEvent(projectId, { n, players, prefix }));
  await addEvents(pool, projectId, rows);
  await pool.query("vacuum analyze event_q, tracked_events");
};

export const isDrained = async (pool: Pool): Promise<boolean> =>
  (await sum(pool, "select count(*) as n from (select 1 from event_q limit 1) q")) === 0;

export const isRelayed = async (pool: Pool): Promise<boolean> =>
  (await sum(pool, "select count(*) as n from (select 1 from outbox_q limit 1) q")) === 0;

/**
 * Holds what processing wrote against the events: nothing lost, nothing twice.
 * @param xpOf SQL over tracked_events: the XP that one of them gives
 * @throws AssertionError
 */
export const checkEffects = async (pool: Pool, projectId: string, xpOf: string): Promise<void> => {
  const total = (expression: string) =>
    sum(pool, `select sum(${expression}) as n from tracked_events where project_id = $1`, [projectId]);
  const [xp, score] = [await total(xpOf), await total("(properties->>'points')::int")];
  const checks: [string, string, number][] = [
    ["XP of all players", "select sum(xp) as n from players where project_id = $1", xp],
    [
      "XP in the ledger",
      "select sum(amount) as n from ledger_entries where project_id = $1 and asset = 'XP'",
      xp,
    ],
    [
      "leaderboard scores",
      `select -sum(e.rank_score) as n from leaderboard_entries e
        join leaderboards b on b.period_id = e.period_id where b.project_id = $1 and b.key = 'points'`,
      score,
    ],
  ];
  for (const [name, text, expected] of checks)
    assert.equal(await sum(pool, text, [projectId]), expected, name);
  const failed = "select (select count(*) from event_due) + (select count(*) from event_results) as n";
  assert.equal(await sum(pool, failed), 0, "events that failed");
};
