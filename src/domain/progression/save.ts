import { removedVersion } from "../evaluation/boards/leave.ts";
import { type RawBuilder, sql } from "kysely";
import type { Work } from "../kernel/work.ts";
import { kept } from "../kernel/statements.ts";
import { type OutboxRow, outboxRow, packLines } from "../kernel/outbox-row.ts";
import { partitionOf } from "../kernel/ids.ts";
import type { EntryChange } from "../kernel/events/events.ts";
import { insertUncounted } from "../kernel/events/uncounted.ts";
import { effectArms } from "./effect-arms.ts";
import { at, type Arm } from "./parts/part.ts";
import { PLAYER_PARTS } from "./parts/parts.ts";
import { tableTexts } from "../kernel/json-text.ts";
import { inSlices } from "../kernel/slices.ts";
import type { PlayerState } from "../evaluation/player-state.ts";
import type { SharedCounters } from "../evaluation/shared-counters.ts";
import type { Effects } from "../evaluation/effects.ts";

/** The arm that deletes the queue rows of what was processed. */
const QUEUE_ARM = "q";

/** Key of a processed event in the queue. */
export type QueueRef = { projectId: string; part: number; seq: number };

/** The result of an event that had no effect and never will. */
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
  shared: SharedCounters;
  verdicts: readonly EventVerdict[];
  done: readonly QueueRef[];
};

/**
 * Characters of JSON in one statement: more than a batch of events has. Sending a statement is one piece of
 * work that nothing divides, of some milliseconds for each MiB.
 */
const STATEMENT_LENGTH = 4 * 1024 * 1024;

type SaveStatement = { members: RawBuilder<unknown>[]; length: number; deletes: boolean };

/** The arms in as few statements as STATEMENT_LENGTH allows: one, unless a batch changes very much. */
const statementsOf = async (arms: readonly Arm[], now: RawBuilder<unknown>): Promise<SaveStatement[]> => {
  const statements: SaveStatement[] = [];
  for (const { name, rows, write } of arms) {
    const texts = await inSlices(tableTexts(rows, STATEMENT_LENGTH));
    for (const [place, text] of texts.entries()) {
      let last = statements.at(-1);
      if (last === undefined || place > 0 || last.length + text.length > STATEMENT_LENGTH) {
        last = { members: [], length: 0, deletes: false };
        statements.push(last);
      }
      last.members.push(sql`${sql.raw(`arm_${name}`)} as (${write(sql`${text}`, now)})`);
      last.length += text.length;
      last.deletes ||= name === QUEUE_ARM;
    }
  }
  return statements;
};

/** Runs the statement and returns how many queue rows it deleted. */
const run = async (work: Work, { members, deletes }: SaveStatement): Promise<number> => {
  const deleted = deletes ? sql`(select count(*) from ${sql.raw(`arm_${QUEUE_ARM}`)})` : sql`0`;
  const statement = sql<{ deleted: string | number }>`
    with ${sql.join(members)} select ${deleted} as deleted`;
  return Number((await kept(work.db, statement)).rows[0]!.deleted);
};

/**
 * Writes all results of a batch in one statement, or a few where it is large: players, their holdings,
 * ledger, outbox and verdicts, and deletes the queue rows; then notifies the consumers of what was committed.
 * Arms without rows are left out. The deleted queue rows prove that nobody else processed the events: fewer
 * than expected is a bug and rolls the batch back.
 * @param onWritten called before the first statement is sent, which may wait for locks
 */
export const saveBatch = async (work: Work, batch: Batch, onWritten?: () => void): Promise<void> => {
  const { effects, players, done } = batch;
  const outbox = [...packLines(effects.outbox), ...entryRows(players)];
  const arms = [
    playerArm(players),
    ...PLAYER_PARTS.flatMap((part) => part.arms(players)),
    ...effectArms(effects, outbox),
    sharedArm(batch.shared),
    verdictArm(batch.verdicts),
    rejectedArm(batch.verdicts),
    doneArm(done),
  ].filter(({ rows }) => rows.length > 0);
  if (arms.length === 0) return;
  const statements = await statementsOf(arms, sql`${work.now.toISOString()}::timestamptz`);
  onWritten?.();
  let deleted = 0;
  for (const statement of statements) deleted += await run(work, statement);
  if (deleted !== done.length) throw new Error(`queue rows went missing: ${deleted} of ${done.length}`);
  work.wroteOutbox(outbox);
  const parts = effects.spawned
    .filter(({ dueMs }) => dueMs === null)
    .map(({ projectId, externalUserId }) => partitionOf(projectId, externalUserId));
  if (parts.length > 0) work.wakeEvents(parts);
};

const playerArm = (players: readonly PlayerState[]): Arm => ({
  name: "p",
  rows: players.map(playerRow),
  write: (rows, now) => sql`
    update players t set xp = x.xp, level = x.lv, seq = x.sq, ledger_seq = x.ls, ledger_hash = x.lh,
      lives = x.n, lives_anchor_at = ${at("x.na")}, lives_unlimited_until = ${at("x.nu")},
      attributes = coalesce(x.a, t.attributes), tags = coalesce(x.tg, t.tags),
      first_seen_at = x.fs, last_seen_at = x.seen, active_month = x.am, updated_at = ${now}
    from json_to_recordset(${rows}::json) as x(
      p uuid, i uuid, xp bigint, lv int, sq bigint, ls bigint, lh text, n int, na float8, nu float8,
      a jsonb, tg text[], fs timestamptz, seen timestamptz, am int)
    where t.project_id = x.p and t.id = x.i`,
});

const playerRow = (player: PlayerState) => ({
  p: player.projectId,
  i: player.id,
  xp: player.xp,
  lv: player.level,
  sq: player.seq,
  ls: player.ledgerSeq,
  lh: player.ledgerHash,
  n: player.lives.count,
  na: player.lives.anchorMs,
  nu: player.lives.unlimitedUntilMs,
  a: player.dirty.profile ? player.attributes : null,
  tg: player.dirty.profile ? player.tags : null,
  fs: player.firstSeenAt,
  seen: player.lastSeenAt,
  am: player.activeMonth,
});

const sharedArm = (shared: SharedCounters): Arm => ({
  name: "sc",
  rows: shared.changes(),
  write: (rows) => sql`
    update shared_counters c set used = x.u, times = x.t
    from json_to_recordset(${rows}::json) as x(p uuid, s text, w bigint, u bigint, t jsonb)
    where c.project_id = x.p and c.scope = x.s and c.window_no = x.w`,
});

const verdictArm = (verdicts: readonly EventVerdict[]): Arm => ({
  name: "v",
  rows: verdicts,
  write: (rows, now) => sql`
    insert into event_results (project_id, event_id, status, error, attempts, processed_at)
    select "projectId", "eventId", status, error, attempts, ${now}
    from json_to_recordset(${rows}::json) as x(
      "projectId" uuid, "eventId" uuid, status text, error text, attempts smallint)
    on conflict (project_id, event_id) do update set status = excluded.status, error = excluded.error,
      attempts = excluded.attempts, processed_at = excluded.processed_at`,
});

const rejectedArm = (verdicts: readonly EventVerdict[]): Arm => ({
  name: "u",
  rows: verdicts.filter(({ status }) => status === "REJECTED"),
  write: (rows) =>
    insertUncounted(sql`
      select "projectId" as project_id, "eventId" as event_id
      from json_to_recordset(${rows}::json) as x("projectId" uuid, "eventId" uuid)`),
});

const doneArm = (done: readonly QueueRef[]): Arm => ({
  name: QUEUE_ARM,
  rows: done,
  write: (rows) => sql`
    delete from event_q t using json_to_recordset(${rows}::json)
      as x("projectId" uuid, part smallint, seq bigint)
    where t.project_id = x."projectId" and t.part = x.part and t.seq = x.seq returning 1`,
});

/** Statuses of players that appear on no board and in no list. */
export const HIDDEN_STATUSES: ReadonlySet<string> = new Set(["BANNED", "MERGED", "ERASED"]);

/** An entry that the player has left: of it only the version matters. */
const leftWith = ({ doc }: PlayerState, periodId: string) => ({
  rankScore: 0,
  rankTie: 0,
  version: removedVersion(doc, periodId)!,
});

/** Returns one outbox row for each changed period, with the new values of all its players in this batch. */
const entryRows = (players: readonly PlayerState[]): OutboxRow[] => {
  const changes = new Map<string, { projectId: string; periodId: string; entries: EntryChange[] }>();
  for (const player of players) {
    const { projectId, id, entries, dirty, status, isDeleted = false } = player;
    const isHidden = isDeleted || HIDDEN_STATUSES.has(status);
    for (const periodId of dirty.entries) {
      const { rankScore, rankTie, version } = entries.get(periodId) ?? leftWith(player, periodId);
      const change = changes.get(periodId) ?? { projectId, periodId, entries: [] };
      const values = [id, rankScore, rankTie, version] as const;
      change.entries.push(isHidden || !entries.has(periodId) ? [...values, true] : [...values]);
      changes.set(periodId, change);
    }
  }
  return [...changes.values()].map(({ projectId, periodId, entries }) =>
    outboxRow(projectId, "leaderboard.entries_changed", { periodId, entries }),
  );
};
