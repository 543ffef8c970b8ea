import { type RawBuilder, sql } from "kysely";
import { needsOf, type RuleDocument } from "../evaluation/language/document.ts";
import { metricId } from "../evaluation/metrics/compile.ts";
import type { ProjectPlan } from "../evaluation/project-plan.ts";
import type { RewardBundle } from "../evaluation/rewards/bundle.ts";
import { OUTBOX_LINES } from "../kernel/outbox.ts";
import { mapInSlices } from "../kernel/slices.ts";
import type { Work } from "../kernel/work.ts";
import { lineCause } from "../progression/save.ts";
import type { CounterStarts } from "./counters-without.ts";
import { tooLarge } from "./read-submitted.ts";
import type {
  CausedEvent,
  CausedFiring,
  CausedGrant,
  CausedLine,
  LoggedAward,
  LostRewards,
} from "./record.ts";
import { type BoardStarts, controlsOf, type FiredRules, firingKey } from "./reverse-scores.ts";

export type OwnedAward = LoggedAward & { playerId: string };

/**
 * A log may contain any number of repeated awards: of those by something else since the badge was last
 * revoked, only those that raised its tier are read, and the last one.
 */
const readAwards = async (
  { db }: Work,
  projectId: string,
  eventIds: readonly string[],
): Promise<OwnedAward[]> => {
  const found = await sql<OwnedAward>`
    with log as materialized (
      select a.*, coalesce(a.event_id = any(${`{${eventIds.join(",")}}`}::uuid[]), false) as is_own,
        coalesce(a.cause->>'kind' = 'BADGE' and a.cause->>'refKey' = a.badge_key, false) as is_by_counter,
        a.cause->>'kind' = 'REVERSAL' as is_reversal
      from badge_awards a
      where a.project_id = ${projectId} and (a.player_id, a.badge_key) in (
        select player_id, badge_key from badge_awards
        where project_id = ${projectId} and event_id = any(${`{${eventIds.join(",")}}`}::uuid[]))),
    revoked as (
      select distinct on (player_id, badge_key) *, 0 as others from log where action = 'REVOKED'
      order by player_id, badge_key, created_at desc, id desc),
    standing as (
      select l.*, count(*) over w as others, max(l.tier) over (w order by l.created_at, l.id
          rows between unbounded preceding and 1 preceding) as before,
        row_number() over (w order by l.created_at desc, l.id desc) as back
      from log l left join revoked r on r.player_id = l.player_id and r.badge_key = l.badge_key
      where not l.is_own and l.action = 'AWARDED' and not exists (
          select 1 from event_results e where e.project_id = l.project_id and e.event_id = l.event_id
            and e.status = 'REVERTED')
        and (r.id is null or (l.created_at, l.id) > (r.created_at, r.id))
      window w as (partition by l.player_id, l.badge_key, l.is_by_counter)),
    a as (
      select ${COLUMNS}, 0 as others from log where is_own
      union select ${COLUMNS}, others from revoked where not is_own
      union select ${COLUMNS}, others from standing where before is null or tier > before or back = 1)
    select badge_key as "badgeKey", tier, action, serial_no as "serialNo", idempotency_key as key,
      player_id as "playerId", event_id as "eventId", is_own as "isOfEvent",
      is_by_counter as "isByCounter", is_reversal as "isReversal", others
    from a order by created_at, id`.execute(db);
  return found.rows;
};

const COLUMNS = sql.raw(`badge_key, tier, action, serial_no, idempotency_key, player_id, event_id, is_own,
  is_by_counter, is_reversal, created_at, id`);

/** Rows of several events and players, with their owners. */
type Owned<T> = T & { eventId: string; playerId: string };

export type Caused = {
  ledger: Owned<CausedLine>[];
  grants: Owned<CausedGrant>[];
  firings: Owned<CausedFiring>[];
  emitted: Owned<CausedEvent>[];
  /**
   * Awards of the badges that the events have awarded: their own; also, with `eventId` null or another, the
   * last revocation of each badge, and the highest tier that something else has awarded since.
   */
  awards: OwnedAward[];
};

const idsOf = (ids: readonly string[]): string => `{${ids.join(",")}}`;

/**
 * Maximum number of rows of a kind that the reverted events may have caused together: those of two floods of
 * one event.
 */
export const CAUSED_ROWS_MAX = 20_000;
/** Maximum bytes of emitted events, as PostgreSQL stores them. */
const CAUSED_BYTES_MAX = 32 * 1024 * 1024;

/** Whether events have caused no more than one transaction can revert. Counts no further than that. */
export const isBounded = async (
  { db }: Work,
  projectId: string,
  eventIds: readonly string[],
): Promise<boolean> => {
  const rowsOf = (table: string, bytes: string) => sql`(
    select count(*) <= ${CAUSED_ROWS_MAX} and coalesce(sum(bytes), 0) <= ${CAUSED_BYTES_MAX} from (
      select ${sql.raw(bytes)} as bytes from ${sql.table(table)} t
      where project_id = ${projectId} and event_id = any(${idsOf(eventIds)}::uuid[])
      limit ${CAUSED_ROWS_MAX + 1}) t)`;
  const counts = [
    rowsOf("ledger_entries", "0"),
    rowsOf("reward_grants", "0"),
    rowsOf("rule_executions", "0"),
    rowsOf("badge_awards", "0"),
    rowsOf("outbox", "pg_column_size(data)"),
  ];
  const found = await sql<{ ok: boolean }>`select ${sql.join(counts, sql` and `)} as ok`.execute(db);
  return found.rows[0]!.ok;
};

/** Reads everything that events have caused, as far as it was stored and has not been reverted yet. */
export const readCaused = async (
  work: Work,
  projectId: string,
  eventIds: readonly string[],
): Promise<Caused> => {
  const { db } = work;
  const ids = sql`any(${idsOf(eventIds)}::uuid[])`;
  const grants = await sql<Owned<CausedGrant>>`
    select id, reward_key as "rewardKey", quantity, status, idempotency_key as key, code,
      event_id as "eventId", player_id as "playerId"
    from reward_grants where project_id = ${projectId} and event_id = ${ids}
      and status not in ('REVOKED', 'EXPIRED')`.execute(db);
  const firings = await sql<Owned<CausedFiring>>`
    select rule_id as "ruleId", rule_version as "ruleVersion", event_id as "eventId", player_id as "playerId",
      effects->'scores' as scores
    from rule_executions
    where project_id = ${projectId} and event_id = ${ids} and mode = 'LIVE' and reverted_at is null`.execute(
    db,
  );
  const emitted = await sql<Owned<CausedEvent>>`
    select type, data, event_id as "eventId", player_id as "playerId" from ${OUTBOX_LINES} o
    where project_id = ${projectId} and event_id = ${ids} and player_id is not null
    order by player_seq, id`.execute(db);
  return {
    ledger: await readLines(work, projectId, { eventIds, grants: grants.rows }),
    grants: grants.rows,
    firings: firings.rows,
    emitted: emitted.rows,
    awards: await readAwards(work, projectId, eventIds),
  };
};

/** Reads the ledger entries of events, and those of their rewards that were claimed later. */
const readLines = async (
  { db }: Work,
  projectId: string,
  { eventIds, grants }: { eventIds: readonly string[]; grants: readonly Owned<CausedGrant>[] },
): Promise<Owned<CausedLine>[]> => {
  const claimed = grants
    .filter(({ status }) => status === "CLAIMED" || status === "FULFILLED")
    .map(({ playerId, key, eventId }) => ({ i: playerId, k: `${key}:`, e: eventId }));
  const columns = sql.raw(`l.id, l.seq, l.asset, l.currency_key as "currencyKey", l.amount,
    l.idempotency_key as key, l.player_id as "playerId"`);
  const isOpen = sql`l.reverses is null and not exists (select 1 from ledger_entries r
    where r.project_id = l.project_id and r.player_id = l.player_id and r.idempotency_key = 'rev:' || l.id)`;
  const found = await sql<Owned<CausedLine>>`
    select ${columns}, ${lineCause("l")} as cause, l.event_id as "eventId" from ledger_entries l
    where l.project_id = ${projectId} and l.event_id = any(${idsOf(eventIds)}::uuid[]) and ${isOpen}
    union all
    select ${columns}, ${lineCause("l")}, x.e
    from json_to_recordset(${JSON.stringify(claimed)}::json) as x(i uuid, k text, e uuid)
    join ledger_entries l on l.project_id = ${projectId} and l.player_id = x.i
      and starts_with(l.idempotency_key, x.k) and l.event_id is null
    where ${isOpen}`.execute(db);
  return found.rows;
};

/** Rules that fired, and what remains of a firing of each, in words. */
export type ReadRules = { rules: FiredRules; leftBy(firing: CausedFiring): readonly string[] };

/** Reads the rules that fired, in the version of that time, and which of their actions cannot be reverted. */
export const readRules = async (
  { db }: Work,
  projectId: string,
  firings: readonly Pick<CausedFiring, "ruleId" | "ruleVersion">[],
): Promise<ReadRules> => {
  const fired = new Map(firings.map((firing) => [firingKey(firing), firing]));
  const wanted = [...fired.values()].map(({ ruleId, ruleVersion }) => ({ r: ruleId, v: ruleVersion }));
  const found = await sql<{ id: string; key: string; version: number; definition: RuleDocument }>`
    select distinct on (v.rule_id, v.version) r.id, r.key, v.version, v.definition
    from json_to_recordset(${JSON.stringify(wanted)}::json) as x(r uuid, v int)
    join rule_versions v on v.rule_id = x.r and v.version = x.v
    join rules r on r.id = v.rule_id and r.project_id = ${projectId}`.execute(db);
  const read = await mapInSlices(found.rows, ({ id, key, version, definition }) => {
    const name = firingKey({ ruleId: id, ruleVersion: version });
    const [recorded, unrecorded] = [true, false].map((isRecorded) =>
      leftBy(definition, { isRecorded }).map((what) => `${what} by rule ${key}`),
    );
    return { name, controls: controlsOf(id, key, definition), left: { recorded, unrecorded } };
  });
  const leftOf = new Map(read.map(({ name, left }) => [name, left]));
  return {
    rules: new Map(read.map(({ name, controls }) => [name, controls])),
    leftBy: (firing) =>
      leftOf.get(firingKey(firing))?.[firing.scores === null ? "unrecorded" : "recorded"] ?? [],
  };
};

type Action = RuleDocument["actions"][number];

const leftBy = ({ actions }: RuleDocument, { isRecorded }: { isRecorded: boolean }): string[] =>
  actions.flatMap((action) => {
    const isSent = action.target !== undefined || action.delaySeconds !== undefined;
    if (action.type === "submit_score" && isRecorded && !isSent) return [];
    if (action.type === "submit_score") return [`leaderboard ${action.leaderboardKey}: the score submitted`];
    if (action.type === "update_player") return ["attributes, tags and segments set"];
    const progress = progressBy(action);
    if (progress !== undefined) return [`progress of ${progress}`];
    return isUnseen(action) ? [`counters of ${action.eventType}, emitted`] : [];
  });

/** Returns what an action has got further in a way that is not taken back. */
const progressBy = (action: Action): string | undefined => {
  if (action.type === "update_quest" && action.entity === "adventure") return `adventure ${action.key}`;
  const isOfBadge = action.type === "update_badge" && action.operation === "PROGRESS";
  return isOfBadge ? `badge ${action.badgeKey}` : undefined;
};

type EmitEvent = Extract<Action, { type: "emit_event" }>;

/** Whether an action emits an event that only rules get, which is not kept. */
const isUnseen = (action: Action): action is EmitEvent =>
  action.type === "emit_event" &&
  action.channels.includes("rules") &&
  !action.channels.some((channel) => channel === "webhook" || channel === "realtime");

/** Since when a version's counters count: its publication, or ever once a backfill has counted for it. */
const begun = (projectId: string, kind: string, isOf: RawBuilder<unknown>) => sql`
  case when exists (
    select 1 from project_jobs j where j.project_id = ${projectId} and j.kind = ${kind}
      and j.status = 'SUCCEEDED' and j.params->>${isOf})
  then 'epoch' else min(v.published_at) end`;

/**
 * Returns when the counters of a project began: with the first definition that uses them, unless earlier
 * events were counted afterwards.
 */
export const readCounterStarts = async (
  { db }: Work,
  projectId: string,
  { badges, segments, quests, rules }: ProjectPlan,
): Promise<CounterStarts> => {
  const made = await sql<{ id: string; at: Date }>`
    select id, created_at as at from definitions
    where project_id = ${projectId} and kind in ('badge', 'segment') and status = 'ACTIVE'
    union all
    select v.definition_id, ${begun(projectId, "QUEST_BACKFILL", sql`'questId' = v.definition_id::text`)}
    from definition_versions v where v.project_id = ${projectId} group by v.definition_id
    union all
    select v.rule_id, ${begun(projectId, "BACKFILL", sql`'ruleId' = v.rule_id::text`)}
    from rule_versions v join rules r on r.id = v.rule_id
    where r.project_id = ${projectId} group by v.rule_id`.execute(db);
  const madeMs = new Map(made.rows.map(({ id, at }) => [id, at.getTime()]));
  const starts = new Map<string, number>();
  const note = (id: string, metrics: readonly Parameters<typeof metricId>[0][]): void => {
    for (const metric of metrics) {
      const key = metricId(metric);
      starts.set(key, Math.min(starts.get(key) ?? Infinity, madeMs.get(id) ?? -Infinity));
    }
  };
  await mapInSlices([...badges.values(), ...segments.values(), ...quests.byKey.values()], ({ id, metrics }) =>
    note(id, metrics),
  );
  await mapInSlices(rules.all, ({ id, definition }) => note(id, needsOf(definition).metrics));
  return starts;
};

/** Returns when boards were created, by id. */
export const readBoardStarts = async ({ db }: Work, projectId: string): Promise<BoardStarts> => {
  const found = await sql<{ id: string; at: Date }>`
    select id, created_at as at from leaderboards where project_id = ${projectId}`.execute(db);
  return new Map(found.rows.map(({ id, at }) => [id, at.getTime()]));
};

/** Reads the longest archived runs of players' streaks, by player and key of the streak. */
export const readLongestRuns = async (
  { db }: Work,
  projectId: string,
  playerIds: readonly string[],
): Promise<Map<string, Map<string, number>>> => {
  if (playerIds.length === 0) return new Map();
  const found = await sql<{ playerId: string; key: string; length: number }>`
    select player_id as "playerId", streak_key as key, max(length) as length from streak_runs
    where project_id = ${projectId} and player_id = any(${idsOf(playerIds)}::uuid[])
    group by player_id, streak_key`.execute(db);
  const runs = new Map<string, Map<string, number>>(playerIds.map((id) => [id, new Map()]));
  for (const { playerId, key, length } of found.rows) runs.get(playerId)?.set(key, length);
  return runs;
};

/** The number of an award in its key, and in those of its rewards. */
export const AWARD_NUMBER = "^bdg:[^:]+:([0-9]+)";

/** What a player was given for what is lost. */
export type Rewards = { lost: LostRewards[]; grants: CausedGrant[] };

type OwnedGrant = CausedGrant & { playerId: string };

/** A ledger entry of a reward as it is read. */
type RewardLine = CausedLine & { playerId: string; at: Date };

const lineOf = ({ playerId: _player, at: _at, ...line }: RewardLine): CausedLine => line;

type RewardsQuery = {
  /** Item of FROM named `w`, with the players as `i`. */
  those: RawBuilder<unknown>;
  /** Whether a reward is lost, by its key and the column of the event that has given it. */
  isLost: (key: RawBuilder<unknown>, eventId: RawBuilder<unknown>) => RawBuilder<unknown>;
  playerIds: readonly string[];
  /** Events whose effects are read elsewhere. */
  eventIds: readonly string[];
  /** What it was given for, in words. */
  what: string;
};

/**
 * Reads what other events and requests have given of lost rewards; by player.
 * @throws DomainError CONFLICT EVENT_TOO_LARGE
 */
export const readRewards = async (
  { db }: Work,
  projectId: string,
  { those, isLost, playerIds, eventIds, what }: RewardsQuery,
): Promise<Map<string, Rewards>> => {
  const isWanted = (table: "l" | "g") => {
    const eventId = sql.ref(`${table}.event_id`);
    return sql`${isLost(sql.ref(`${table}.idempotency_key`), eventId)}
      and (${eventId} is null or ${eventId} <> all(${`{${eventIds.join(",")}}`}::uuid[]))`;
  };
  const lines = await sql<RewardLine>`
    select l.id, l.seq, l.asset, l.currency_key as "currencyKey", l.amount, l.idempotency_key as key,
      ${lineCause("l")} as cause, l.player_id as "playerId",
      coalesce(least(e.occurred_at, e.received_at), l.created_at) as at
    from ${those} join ledger_entries l on l.project_id = ${projectId} and l.player_id = w.i
    left join tracked_events e on e.project_id = l.project_id and e.id = l.event_id
    where ${isWanted("l")} and l.reverses is null
      and not exists (select 1 from ledger_entries r where r.project_id = l.project_id
        and r.player_id = l.player_id and r.idempotency_key = 'rev:' || l.id)
    limit ${sql.lit(CAUSED_ROWS_MAX + 1)}`.execute(db);
  const grants = await sql<OwnedGrant>`
    select g.id, g.reward_key as "rewardKey", g.quantity, g.status, g.idempotency_key as key, g.code,
      g.player_id as "playerId"
    from ${those} join reward_grants g on g.project_id = ${projectId} and g.player_id = w.i
    where ${isWanted("g")} and g.status not in ('REVOKED', 'EXPIRED')
    limit ${sql.lit(CAUSED_ROWS_MAX + 1)}`.execute(db);
  if (Math.max(lines.rows.length, grants.rows.length) > CAUSED_ROWS_MAX)
    throw tooLarge(`too much was given for ${what}`);
  return rewardsByPlayer(playerIds, lines.rows, grants.rows);
};

/** Sorts what was read by player, and by the time at which it was given. */
const rewardsByPlayer = (
  playerIds: readonly string[],
  lines: readonly RewardLine[],
  grants: readonly OwnedGrant[],
): Map<string, Rewards> => {
  const linesOf = Map.groupBy(lines, ({ playerId }) => playerId);
  const grantsOf = Map.groupBy(grants, ({ playerId }) => playerId);
  return new Map(
    playerIds.map((id) => {
      const byTime = Map.groupBy(linesOf.get(id) ?? [], ({ at }) => at.getTime());
      const lost = [...byTime].map(([atMs, rows]) => ({ atMs, ledger: rows.map(lineOf) }));
      return [id, { lost, grants: grantsOf.get(id) ?? [] }];
    }),
  );
};

/** The reward of a quest or adventure in keys, for both JavaScript and PostgreSQL. */
const REWARD = "^(q:[^:]+:(?:complete|start|s:[^:~]+)|adv:[^:]+:(?:complete|t:[0-9]+:(?:FREE|PREMIUM)))";
const REWARD_KEY = new RegExp(REWARD);

/** Returns the reward of a quest or adventure that a key belongs to, however often it was given. */
export const rewardOfGoal = (key: string): string | undefined => REWARD_KEY.exec(key)?.[1];

const REMAINING = ["badges", "boosts", "streakFreezes", "addTags", "premium"] as const;

/** Returns the parts of a bundle that stay although it is taken back. */
export const remainderOf = (bundle: RewardBundle, isOfReverted: boolean): string[] =>
  REMAINING.filter((part) => {
    const isThere = Object.keys(bundle[part] ?? {}).length > 0;
    return isThere && !(isOfReverted && (part === "badges" || part === "boosts"));
  });

type Query = {
  /** Rewards of quests and adventures, as `rewardOfGoal` names them, by player. */
  lostOf: ReadonlyMap<string, ReadonlySet<string>>;
  /** Events whose effects are read elsewhere. */
  eventIds: readonly string[];
};

/**
 * Reads what players were given for steps, quests, tiers and adventures that are lost, by requests and other
 * events; by player.
 * @throws DomainError CONFLICT EVENT_TOO_LARGE
 */
export const readGoalRewards = async (
  work: Work,
  projectId: string,
  { lostOf, eventIds }: Query,
): Promise<Map<string, Rewards>> => {
  const wanted = [...lostOf].flatMap(([i, keys]) => (keys.size === 0 ? [] : [{ i, ks: [...keys] }]));
  if (wanted.length === 0) return new Map();
  return readRewards(work, projectId, {
    those: sql`json_to_recordset(${JSON.stringify(wanted)}::json) as w(i uuid, ks json)`,
    isLost: (key) => sql`(starts_with(${key}, 'q:') or starts_with(${key}, 'adv:'))
      and substring(${key} from ${REWARD}) in (select json_array_elements_text(w.ks))`,
    playerIds: [...lostOf.keys()],
    eventIds,
    what: "quests and adventures",
  });
};
