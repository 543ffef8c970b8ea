import { type RawBuilder, sql } from "kysely";
import { removedVersion } from "../evaluation/boards/lists.ts";
import type { Effects, LedgerRow } from "../evaluation/effects.ts";
import type { PlayerState } from "../evaluation/player-state.ts";
import type { SharedCounters } from "../evaluation/shared-counters.ts";
import type { EntryChange } from "../kernel/events/events.ts";
import { insertUncounted } from "../kernel/events/uncounted.ts";
import { partitionOf } from "../kernel/ids.ts";
import { tableTexts } from "../kernel/json.ts";
import {
  insertOutbox,
  insertOutboxQueue,
  outboxQueueRows,
  type OutboxRow,
  outboxRow,
  packLines,
} from "../kernel/outbox.ts";
import { kept } from "../kernel/statements.ts";
import type { Work } from "../kernel/work.ts";
import { type Arm, at, insertInto } from "./parts/part.ts";
import { PLAYER_PARTS } from "./parts/player-parts.ts";
import type { RuleCounts } from "../evaluation/running/stats.ts";
import { reasonOf } from "../evaluation/actions/action.ts";

/** Adds two histograms on conflict with an existing row. */
const sums = (column: string) => sql`(
  select coalesce(jsonb_object_agg(name, n), '{}') from (
    select name, sum(value::numeric) as n from (
      select key as name, value from jsonb_each_text(t.${sql.ref(column)})
      union all select key, value from jsonb_each_text(excluded.${sql.ref(column)})) both_
    group by name) summed)`;

/** Adds counts to the stored statistics, in one statement. */
export const writeStats = async ({ db }: Work, counts: readonly RuleCounts[]): Promise<void> => {
  if (counts.length === 0) return;
  const rows = JSON.stringify(counts.map(({ hourMs, ...row }) => ({ ...row, hour: new Date(hourMs) })));
  await sql`
    insert into rule_stats as t
      (project_id, rule_id, hour, evaluated, fired, reasons, leaf_fails, cost, micros)
    select "projectId", "ruleId", hour, evaluated, fired, reasons, "leafFails", cost, micros
    from json_to_recordset(${rows}::json) as x("projectId" uuid, "ruleId" uuid, hour timestamptz,
      evaluated bigint, fired bigint, reasons jsonb, "leafFails" jsonb, cost jsonb, micros jsonb)
    order by 1, 2, 3
    on conflict (project_id, rule_id, hour) do update set
      evaluated = t.evaluated + excluded.evaluated, fired = t.fired + excluded.fired,
      reasons = ${sums("reasons")}, leaf_fails = ${sums("leaf_fails")},
      cost = ${sums("cost")}, micros = ${sums("micros")}`.execute(db);
};

/** What of a line is not stored where the rest of its row says the same, so that a line takes less. */
type Derived = Pick<LedgerRow, "reason" | "cause">;

/** The fourth part of a key is its action: `evt:digest:r:action`, `tgt:event:rule:action:n`. */
const actionOf = (key: string): string => key.split(":")[3] ?? "";

/**
 * Returns a line's reason and cause as they are stored. A line that a rule has written for a tracked event
 * leaves out what follows from the event, the key and the rule; all others are stored whole, as every line
 * was once. Read them with `lineReason` and `lineCause`.
 */
export const storedLine = ({ reason, cause, eventId, key }: LedgerRow): Derived => {
  const { kind, ruleKey } = cause;
  if (kind !== "RULE" || eventId === null) return { reason, cause };
  const stored = { ...cause };
  if (cause.eventId === eventId) delete stored.eventId;
  if (cause.rootEventId === eventId) delete stored.rootEventId;
  if (cause.actionId === actionOf(key)) delete stored.actionId;
  const isOwn = ruleKey !== undefined && reason === reasonOf({ ruleKey });
  return { reason: isOwn ? "" : reason, cause: stored };
};

/** Returns the whole cause of a stored line, jsonb. `of` is the alias of ledger_entries. */
export const lineCause = (of: string): RawBuilder<unknown> =>
  sql.raw(`case when ${of}.cause->>'kind' = 'RULE' and ${of}.event_id is not null
    then jsonb_build_object('eventId', ${of}.event_id, 'rootEventId', ${of}.event_id,
      'actionId', split_part(${of}.idempotency_key, ':', 4)) || ${of}.cause
    else ${of}.cause end`);

/** Returns the reason of a stored line. `of` is the alias of ledger_entries. */
export const lineReason = (of: string): RawBuilder<unknown> =>
  sql.raw(`case when ${of}.reason = '' and ${of}.cause->>'kind' = 'RULE'
    then 'rule:' || (${of}.cause->>'ruleKey') else ${of}.reason end`);

/** Arms of the save statement that write the effects of a batch. */
export const effectArms = (effects: Effects, outbox: readonly OutboxRow[]): Arm[] => [
  ...outboxArms(outbox),
  {
    name: "lg",
    rows: effects.ledger.map((row) => ({ ...row, ...storedLine(row) })),
    write: insertLedger,
  },
  ...spawnedArms(effects),
  ...Object.entries(INSERTS).map(([name, write]) => ({
    name: name.toLowerCase(),
    rows: effects[name as keyof typeof INSERTS],
    write,
  })),
  ...submissionArms(effects),
];

const outboxArms = (outbox: readonly OutboxRow[]): Arm[] => [
  { name: "ob", rows: outbox, write: insertOutbox },
  { name: "oq", rows: outboxQueueRows(outbox), write: insertOutboxQueue },
];

const insertLedger = insertInto(
  "ledger_entries",
  `project_id uuid, player_id uuid, seq bigint, id uuid, asset text, currency_key text, amount bigint,
  balance_after bigint, reason text, idempotency_key text key, cause jsonb, tx_id uuid, reverses uuid,
  event_id uuid, hash text, created_at now`,
  { json: "jsonb" },
);

const insertSpawned = insertInto(
  "tracked_events",
  `project_id uuid, id uuid, external_user_id text, event_type text, properties jsonb, occurred_at ms atMs,
  received_at now`,
);
const queueSpawned = insertInto("event_q", "project_id uuid, part smallint, event_id uuid id");
const laterSpawned = insertInto(
  "event_due",
  "project_id uuid, event_id uuid id, part smallint, attempts int, due_at ms dueMs",
);

/** Events that the service emits itself: stored, and queued now or later. An id is stored once. */
const spawnedArms = ({ spawned }: Effects): Arm[] => {
  const rows = spawned.map((event) => ({
    ...event,
    part: partitionOf(event.projectId, event.externalUserId),
    attempts: 0,
  }));
  return [
    { name: "sp", rows, write: insertSpawned },
    { name: "sq", rows: rows.filter(({ dueMs }) => dueMs === null), write: queueSpawned },
    { name: "sd", rows: rows.filter(({ dueMs }) => dueMs !== null), write: laterSpawned },
  ];
};

/** Effects that are rows of a table, by their name in `Effects`. */
const INSERTS = {
  executions: insertInto(
    "rule_executions",
    `project_id uuid, rule_id uuid, id uuid, rule_version int, player_id uuid, event_id uuid, depth smallint,
    mode text, effects jsonb, created_at now`,
  ),
  badgeAwards: insertInto(
    "badge_awards",
    `project_id uuid, player_id uuid, id uuid, badge_key text, tier int, action text, serial_no bigint,
    idempotency_key text key, cause jsonb, event_id uuid, created_at now`,
  ),
  streakRuns: insertInto(
    "streak_runs",
    `project_id uuid, player_id uuid, id uuid, streak_key text, started_on date, ended_on date, length int,
    frozen_periods jsonb, ended_by text, created_at now`,
  ),
  segmentSpells: insertInto(
    "segment_spells",
    "project_id uuid, player_id uuid, id uuid, segment_key text, entered_at ms enteredMs, left_at ms leftMs",
  ),
  rewardGrants: insertInto(
    "reward_grants",
    `project_id uuid, player_id uuid, id uuid, reward_key text, quantity int, status text,
    idempotency_key text key, contents jsonb, code text, cause jsonb, event_id uuid, expires_at ms expiresMs,
    created_at now, updated_at now`,
  ),
  inbox: insertInto(
    "inbox_messages",
    `project_id uuid, player_id uuid, id uuid, type text, title text, body text, data jsonb,
    reward_grant_id uuid, expires_at ms expiresMs, created_at now`,
  ),
  scoreReviews: insertInto(
    "score_reviews",
    `project_id uuid, id uuid, leaderboard_id uuid, period_id uuid, player_id uuid, score float8,
    violation text, meta json, occurred_at ms atMs, submitted_at now`,
  ),
  traces: insertInto("event_traces", "project_id uuid, event_id uuid, trace jsonb, expires_at ms expiresMs", {
    key: "project_id, event_id",
    set: "trace",
  }),
} satisfies { [K in keyof Effects]?: Arm["write"] };

const insertSubmissions = insertInto(
  "quest_submissions",
  `project_id uuid, id uuid, player_id uuid, quest_key text, player_quest_id uuid, cycle_key text,
  step_key text, evidence_type text, evidence text, status text, submitted_at now, reviewed_by text by,
  note text, closed_at ms closedMs`,
);

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
      write: insertSubmissions,
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
  const statement = sql<{ deleted: number }>`
    with ${sql.join(members)} select ${deleted} as deleted`;
  return (await kept(work.db, statement)).rows[0]!.deleted;
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

const insertVerdicts = insertInto(
  "event_results",
  "project_id uuid, event_id uuid, status text, error text, attempts smallint, processed_at now",
  { key: "project_id, event_id" },
);

const verdictArm = (verdicts: readonly EventVerdict[]): Arm => ({
  name: "v",
  rows: verdicts,
  write: insertVerdicts,
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
