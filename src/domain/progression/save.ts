import { type RawBuilder, sql } from "kysely";
import { removedVersion } from "../evaluation/boards/lists.ts";
import type { Effects } from "../evaluation/effects.ts";
import type { PlayerState } from "../evaluation/player-state.ts";
import type { SharedCounters } from "../evaluation/shared-counters.ts";
import type { EntryChange } from "../kernel/events/events.ts";
import { insertUncounted } from "../kernel/events/uncounted.ts";
import { partitionOf } from "../kernel/ids.ts";
import { tableTexts } from "../kernel/json-text.ts";
import { insertOutbox, insertOutboxQueue } from "../kernel/outbox-insert.ts";
import { outboxQueueRows, type OutboxRow, outboxRow, packLines } from "../kernel/outbox-row.ts";
import { kept } from "../kernel/statements.ts";
import type { Work } from "../kernel/work.ts";
import { storedLine } from "./ledger-line.ts";
import { type Arm, at } from "./parts/part.ts";
import { PLAYER_PARTS } from "./parts/quests.ts";

/** Arms of the save statement that write the effects of a batch. */
export const effectArms = (effects: Effects, outbox: readonly OutboxRow[]): Arm[] => [
  ...outboxArms(outbox),
  ledgerArm(effects),
  executionArm(effects),
  ...spawnedArms(effects),
  badgeAwardArm(effects),
  streakRunArm(effects),
  segmentSpellArm(effects),
  rewardGrantArm(effects),
  inboxArm(effects),
  scoreReviewArm(effects),
  ...submissionArms(effects),
  traceArm(effects),
];

const outboxArms = (outbox: readonly OutboxRow[]): Arm[] => [
  { name: "ob", rows: outbox, write: insertOutbox },
  { name: "oq", rows: outboxQueueRows(outbox), write: insertOutboxQueue },
];

const ledgerArm = ({ ledger }: Effects): Arm => ({
  name: "lg",
  rows: ledger.map((row) => ({ ...row, ...storedLine(row) })),
  write: (rows, now) => sql`
    insert into ledger_entries (project_id, player_id, seq, id, asset, currency_key, amount, balance_after,
      reason, idempotency_key, cause, tx_id, reverses, event_id, hash, created_at)
    select "projectId", "playerId", seq, id, asset, "currencyKey", amount, "balanceAfter",
      reason, key, cause, "txId", reverses, "eventId", hash, ${now}
    from jsonb_to_recordset(${rows}::jsonb) as x(
      "projectId" uuid, "playerId" uuid, seq bigint, id uuid, asset text, "currencyKey" text, amount bigint,
      "balanceAfter" bigint, reason text, key text, cause jsonb, "txId" uuid, reverses uuid, "eventId" uuid,
      hash text)`,
});

const executionArm = ({ executions }: Effects): Arm => ({
  name: "ex",
  rows: executions,
  write: (rows, now) => sql`
    insert into rule_executions
      (project_id, rule_id, id, rule_version, player_id, event_id, depth, mode, effects, created_at)
    select "projectId", "ruleId", id, "ruleVersion", "playerId", "eventId", depth, mode, effects, ${now}
    from json_to_recordset(${rows}::json) as x("projectId" uuid, "ruleId" uuid, id uuid, "ruleVersion" int,
      "playerId" uuid, "eventId" uuid, depth smallint, mode text, effects jsonb)`,
});

/** Events that the service emits itself: stored, and queued now or later. An id is stored once. */
const spawnedArms = ({ spawned }: Effects): Arm[] => {
  const rows = spawned.map((event) => ({
    ...event,
    part: partitionOf(event.projectId, event.externalUserId),
  }));
  const columns = sql.raw(`"projectId" uuid, id uuid, "externalUserId" text, "eventType" text,
    properties jsonb, "atMs" float8, "dueMs" float8, part smallint`);
  return [
    {
      name: "sp",
      rows,
      write: (given, now) => sql`
        insert into tracked_events
          (project_id, id, external_user_id, event_type, properties, occurred_at, received_at)
        select "projectId", id, "externalUserId", "eventType", properties, ${at('x."atMs"')}, ${now}
        from json_to_recordset(${given}::json) as x(${columns})`,
    },
    {
      name: "sq",
      rows: rows.filter(({ dueMs }) => dueMs === null),
      write: (given) => sql`
        insert into event_q (project_id, part, event_id)
        select "projectId", part, id from json_to_recordset(${given}::json) as x(${columns})`,
    },
    {
      name: "sd",
      rows: rows.filter(({ dueMs }) => dueMs !== null),
      write: (given) => sql`
        insert into event_due (project_id, event_id, part, attempts, due_at)
        select "projectId", id, part, 0, ${at('x."dueMs"')}
        from json_to_recordset(${given}::json) as x(${columns})`,
    },
  ];
};

const badgeAwardArm = ({ badgeAwards }: Effects): Arm => ({
  name: "ba",
  rows: badgeAwards,
  write: (rows, now) => sql`
    insert into badge_awards
      (project_id, player_id, id, badge_key, tier, action, serial_no, idempotency_key, cause, event_id,
        created_at)
    select "projectId", "playerId", id, "badgeKey", tier, action, "serialNo", key, cause, "eventId", ${now}
    from json_to_recordset(${rows}::json) as x("projectId" uuid, "playerId" uuid, id uuid, "badgeKey" text,
      tier int, action text, "serialNo" bigint, key text, cause jsonb, "eventId" uuid)`,
});

const streakRunArm = ({ streakRuns }: Effects): Arm => ({
  name: "sr",
  rows: streakRuns,
  write: (rows, now) => sql`
    insert into streak_runs (project_id, player_id, id, streak_key, started_on, ended_on, length,
      frozen_periods, ended_by, created_at)
    select "projectId", "playerId", id, "streakKey", "startedOn", "endedOn", length,
      "frozenPeriods", "endedBy", ${now}
    from json_to_recordset(${rows}::json) as x("projectId" uuid, "playerId" uuid, id uuid, "streakKey" text,
      "startedOn" date, "endedOn" date, length int, "frozenPeriods" jsonb, "endedBy" text)`,
});

const segmentSpellArm = ({ segmentSpells }: Effects): Arm => ({
  name: "ss",
  rows: segmentSpells,
  write: (rows) => sql`
    insert into segment_spells (project_id, player_id, id, segment_key, entered_at, left_at)
    select "projectId", "playerId", id, "segmentKey", ${at('x."enteredMs"')}, ${at('x."leftMs"')}
    from json_to_recordset(${rows}::json) as x("projectId" uuid, "playerId" uuid, id uuid,
      "segmentKey" text, "enteredMs" float8, "leftMs" float8)`,
});

const rewardGrantArm = ({ rewardGrants }: Effects): Arm => ({
  name: "rg",
  rows: rewardGrants,
  write: (rows, now) => sql`
    insert into reward_grants (project_id, player_id, id, reward_key, quantity, status, idempotency_key,
      contents, code, cause, event_id, expires_at, created_at, updated_at)
    select "projectId", "playerId", id, "rewardKey", quantity, status, key,
      contents, code, cause, "eventId", ${at('x."expiresMs"')}, ${now}, ${now}
    from json_to_recordset(${rows}::json) as x("projectId" uuid, "playerId" uuid, id uuid,
      "rewardKey" text, quantity int, status text, key text, contents jsonb, code text, cause jsonb,
      "eventId" uuid, "expiresMs" float8)`,
});

const inboxArm = ({ inbox }: Effects): Arm => ({
  name: "ib",
  rows: inbox,
  write: (rows, now) => sql`
    insert into inbox_messages
      (project_id, player_id, id, type, title, body, data, reward_grant_id, expires_at, created_at)
    select "projectId", "playerId", id, type, title, body, data, "rewardGrantId",
      ${at('x."expiresMs"')}, ${now}
    from json_to_recordset(${rows}::json) as x("projectId" uuid, "playerId" uuid, id uuid, type text,
      title text, body text, data jsonb, "rewardGrantId" uuid, "expiresMs" float8)`,
});

const scoreReviewArm = ({ scoreReviews }: Effects): Arm => ({
  name: "rv",
  rows: scoreReviews,
  write: (rows, now) => sql`
    insert into score_reviews (project_id, id, leaderboard_id, period_id, player_id, score, violation, meta,
      occurred_at, submitted_at)
    select "projectId", id, "leaderboardId", "periodId", "playerId", score, violation, meta,
      ${at('x."atMs"')}, ${now}
    from json_to_recordset(${rows}::json) as x("projectId" uuid, id uuid, "leaderboardId" uuid,
      "periodId" uuid, "playerId" uuid, score float8, violation text, meta json, "atMs" float8)`,
});

/** Submissions for steps of quests; what is decided about one in its own batch is written with it. */
const submissionArms = ({ questSubmissions, submissionDecisions }: Effects): Arm[] => {
  const decided = new Map(submissionDecisions.map((decision) => [decision.id, decision]));
  const own = new Set(questSubmissions.map(({ id }) => id));
  const made = questSubmissions.map((row) => {
    const {
      status,
      by = null,
      note = null,
      atMs,
    } = decided.get(row.id) ?? { status: row.status, atMs: null };
    return { ...row, status, by, note, closedMs: row.status === "CONFIRMED" ? row.atMs : atMs };
  });
  return [
    {
      name: "qs",
      rows: made,
      write: (rows, now) => sql`
        insert into quest_submissions (project_id, id, player_id, quest_key, player_quest_id, cycle_key,
          step_key, evidence_type, evidence, status, submitted_at, reviewed_by, note, closed_at)
        select "projectId", id, "playerId", "questKey", "playerQuestId", "cycleKey", "stepKey",
          "evidenceType", evidence, status, ${now}, by, note, ${at('x."closedMs"')}
        from json_to_recordset(${rows}::json) as x("projectId" uuid, id uuid, "playerId" uuid,
          "questKey" text, "playerQuestId" uuid, "cycleKey" text, "stepKey" text, "evidenceType" text,
          evidence text, status text, by text, note text, "closedMs" float8)`,
    },
    {
      name: "qd",
      rows: submissionDecisions.filter(({ id }) => !own.has(id)),
      write: (rows) => sql`
        update quest_submissions s set status = x.status, reviewed_by = x.by, note = x.note,
          closed_at = ${at('x."atMs"')}
        from json_to_recordset(${rows}::json) as x("projectId" uuid, id uuid, status text, by text,
          note text, "atMs" float8)
        where s.project_id = x."projectId" and s.id = x.id`,
    },
  ];
};

const traceArm = ({ traces }: Effects): Arm => ({
  name: "tr",
  rows: traces,
  write: (rows) => sql`
    insert into event_traces (project_id, event_id, trace, expires_at)
    select "projectId", "eventId", trace, ${at('x."expiresMs"')}
    from json_to_recordset(${rows}::json) as x(
      "projectId" uuid, "eventId" uuid, trace jsonb, "expiresMs" float8)
    on conflict (project_id, event_id) do update set trace = excluded.trace`,
});

/** The arm that deletes the queue rows of what was processed. */
const QUEUE_ARM = "q";

/** Key of a processed event in the queue. */
type QueueRef = { projectId: string; part: number; seq: number };

/** The result of an event that had no effect and never will. */
export type EventVerdict = {
  projectId: string;
  eventId: string;
  status: "FAILED" | "REJECTED";
  error: string;
  attempts: number;
};

type Batch = {
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
    const texts = tableTexts(rows, STATEMENT_LENGTH);
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
 */
export const saveBatch = async (work: Work, batch: Batch): Promise<void> => {
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
