import { insertOutbox, insertOutboxQueue } from "../kernel/outbox-insert.ts";
import { sql } from "kysely";
import { partitionOf } from "../kernel/ids.ts";
import { type OutboxRow, outboxQueueRows } from "../kernel/outbox-row.ts";
import { storedLine } from "./ledger-line.ts";
import { at, type Arm } from "./parts/part.ts";
import type { Effects } from "../evaluation/effects.ts";

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
