import { sql } from "kysely";
import type { EntryChange } from "../events.ts";
import { type OutboxRow, outboxPart, outboxQueueRows, outboxRow, type Work } from "../work.ts";
import type { Effects } from "./evaluate.ts";
import type { PlayerState } from "./turn.ts";

/** A processed event's place in the queue. */
export type QueueRef = { projectId: string; part: number; seq: number };

/** An event that had no effect and never will have one. */
export type EventVerdict = {
  projectId: string;
  eventId: string;
  status: "FAILED" | "REJECTED";
  error: string;
  attempts: number;
};

export type Batch = {
  players: readonly PlayerState[];
  effects: Effects;
  verdicts: readonly EventVerdict[];
  done: readonly QueueRef[];
};

/**
 * Writes everything a batch did in one statement: players, limit state, entries, ledger, outbox, verdicts,
 * and the queue rows away. The queue rows are the proof that nobody else did it: fewer than expected is a bug
 * and undoes the batch.
 */
export const saveBatch = async (work: Work, batch: Batch): Promise<void> => {
  const rows = writeRows(batch);
  const now = work.now.toISOString();
  const result = await sql<{ deleted: string | number }>`
    with p as (
      update players t set xp = x.xp, level = x.lv, seq = x.sq, ledger_seq = x.ls,
        attributes = coalesce(x.a, t.attributes), tags = coalesce(x.tg, t.tags),
        last_seen_at = x.seen, updated_at = ${now}::timestamptz
      from json_to_recordset(${rows.players}::json) as x(
        p uuid, i uuid, xp bigint, lv int, sq bigint, ls bigint, a jsonb, tg text[], seen timestamptz)
      where t.project_id = x.p and t.id = x.i),
    d as (
      insert into player_states (project_id, player_id, doc)
      select p, i, d from json_to_recordset(${rows.docs}::json) as x(p uuid, i uuid, d jsonb)
      on conflict (project_id, player_id) do update set doc = excluded.doc),
    e as (
      insert into leaderboard_entries
        (project_id, period_id, player_id, rank_score, rank_tie, latest_us, version, updated_at)
      select p, w, i, s, t, l, v, ${now}::timestamptz from json_to_recordset(${rows.entries}::json) as x(
        p uuid, w uuid, i uuid, s bigint, t bigint, l bigint, v int)
      on conflict (project_id, period_id, player_id) do update set rank_score = excluded.rank_score,
        rank_tie = excluded.rank_tie, latest_us = excluded.latest_us, version = excluded.version,
        updated_at = excluded.updated_at),
    g as (
      insert into ledger_entries
        (project_id, player_id, seq, id, asset, amount, balance_after,
         reason, idempotency_key, cause, created_at)
      select "projectId", "playerId", seq, id, asset, amount, "balanceAfter",
        reason, key, cause, ${now}::timestamptz
      from jsonb_to_recordset(${rows.ledger}::jsonb) as x(
        "projectId" uuid, "playerId" uuid, seq bigint, id uuid,
        asset text, amount bigint, "balanceAfter" bigint, reason text, key text, cause jsonb)),
    o as (
      insert into outbox (project_id, id, type, player_id, player_seq, event_id, data, created_at)
      select "projectId", id, type, "playerId", "playerSeq", "eventId", data, ${now}::timestamptz
      from jsonb_to_recordset(${rows.outbox}::jsonb) as x(
        "projectId" uuid, id uuid, type text, "playerId" uuid,
        "playerSeq" bigint, "eventId" uuid, data jsonb)),
    oq as (
      insert into outbox_q (project_id, part, outbox_ids)
      select project_id, part, ids from json_to_recordset(${rows.outboxQueue}::json)
        as x(project_id uuid, part smallint, ids uuid[])),
    r as (
      insert into event_results (project_id, event_id, status, error, attempts, processed_at)
      select "projectId", "eventId", status, error, attempts, ${now}::timestamptz
      from json_to_recordset(${rows.verdicts}::json) as x(
        "projectId" uuid, "eventId" uuid, status text, error text, attempts smallint)
      on conflict (project_id, event_id) do update set status = excluded.status, error = excluded.error,
        attempts = excluded.attempts, processed_at = excluded.processed_at),
    q as (
      delete from event_q t using json_to_recordset(${rows.done}::json)
        as x("projectId" uuid, part smallint, seq bigint)
      where t.project_id = x."projectId" and t.part = x.part and t.seq = x.seq returning 1)
    select count(*) as deleted from q`.execute(work.db);
  const deleted = Number(result.rows[0]!.deleted);
  if (deleted !== batch.done.length)
    throw new Error(`queue rows went missing: ${deleted} of ${batch.done.length}`);
};

/** The outbox partitions that a batch rings for. */
export const batchOutboxParts = ({ effects, players }: Batch): Set<number> => {
  const parts = new Set(effects.outbox.map(outboxPart));
  for (const { projectId, dirty } of players)
    if (dirty.entries.size > 0) parts.add(outboxPart({ projectId, playerId: null }));
  return parts;
};

const writeRows = ({ players, effects, verdicts, done }: Batch) => {
  const outbox = [...effects.outbox, ...entryRows(players)];
  return {
    players: JSON.stringify(players.map(playerRow)),
    docs: JSON.stringify(
      players.filter(({ dirty }) => dirty.doc).map((t) => ({ p: t.projectId, i: t.id, d: t.doc })),
    ),
    entries: JSON.stringify(players.flatMap(entriesOf)),
    ledger: JSON.stringify(effects.ledger),
    outbox: JSON.stringify(outbox),
    outboxQueue: JSON.stringify(outboxQueueRows(outbox)),
    verdicts: JSON.stringify(verdicts),
    done: JSON.stringify(done),
  };
};

const playerRow = (player: PlayerState) => ({
  p: player.projectId,
  i: player.id,
  xp: player.xp,
  lv: player.level,
  sq: player.seq,
  ls: player.ledgerSeq,
  a: player.dirty.profile ? player.attributes : null,
  tg: player.dirty.profile ? player.tags : null,
  seen: player.lastSeenAt,
});

const entriesOf = ({ projectId, id, entries, dirty }: PlayerState) =>
  [...dirty.entries].map((periodId) => {
    const { rankScore, rankTie, latestUs, version } = entries.get(periodId)!;
    return { p: projectId, w: periodId, i: id, s: rankScore, t: rankTie, l: latestUs, v: version };
  });

/** One outbox row for each period that changed, with the new values of all its players in this batch. */
const entryRows = (players: readonly PlayerState[]): OutboxRow[] => {
  const changes = new Map<string, { projectId: string; periodId: string; entries: EntryChange[] }>();
  for (const { projectId, id, entries, dirty } of players) {
    for (const periodId of dirty.entries) {
      const { rankScore, rankTie, version } = entries.get(periodId)!;
      const change = changes.get(periodId) ?? { projectId, periodId, entries: [] };
      change.entries.push([id, rankScore, rankTie, version]);
      changes.set(periodId, change);
    }
  }
  return [...changes.values()].map(({ projectId, periodId, entries }) =>
    outboxRow(projectId, "leaderboard.entries_changed", { periodId, entries }),
  );
};
