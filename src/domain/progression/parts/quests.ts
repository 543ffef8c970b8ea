import { type RawBuilder, sql } from "kysely";
import type { AdventureRow, StoredAdventureState } from "../../evaluation/adventures/row.ts";
import type { BadgeState, HoldingName, PlayerState, QuestState } from "../../evaluation/player-state.ts";
import { dueOf, type QuestRow, type StartedBy, type StoredState } from "../../evaluation/quests/row.ts";
import { entries } from "./entries.ts";
import {
  at,
  balances,
  boosts,
  changesOf,
  docPart,
  insertInto,
  lots,
  msOf,
  type PlayerPart,
  segments,
  streaks,
} from "./part.ts";

const ms = (column: string) => msOf(`s.${column}`);

/** Adventures of a project, archived ones included. */
const ADVENTURES_HELD_MAX = 1_000;
type Loaded = [
  id: string,
  version: number,
  state: StoredAdventureState,
  points: number,
  startedMs: number | null,
  completedMs: number | null,
  claimedMs: number | null,
  premiumMs: number | null,
  dueMs: number | null,
  doc: Pick<AdventureRow, "items" | "unlocked" | "tiers" | "isAuto" | "again">,
];

const rowOf = (loaded: Loaded): AdventureRow => {
  const [id, version, state, points, startedMs, completedMs, claimedMs, premiumMs, dueMs, doc] = loaded;
  return { id, version, state, points, startedMs, completedMs, claimedMs, premiumMs, dueMs, ...doc };
};

const changedAdventures = (player: PlayerState) =>
  [...player.dirty.adventures].flatMap((key) => {
    const row = player.adventures.get(key);
    if (!row?.isChanged) return [];
    const { isChanged: _flag, items, unlocked, tiers, isAuto, again, ...columns } = row;
    const doc = { items, unlocked, tiers, isAuto, again };
    return [{ p: player.projectId, i: player.id, k: key, ...columns, doc }];
  });

/** Adventures that a player has joined, or has premium of. */
const adventures: PlayerPart = {
  tag: "av",
  isNeeded: (plan) => plan.adventures.byKey.size > 0,
  load: () => sql`
    select 'av', r.p, r.i, s.adventure_key,
      json_build_array(s.id, s.adventure_version, s.state, s.points, ${ms("started_at")},
        ${ms("completed_at")}, ${ms("claimed_at")}, ${ms("premium_at")}, ${ms("due_at")}, s.doc)
    from r cross join lateral (
      select * from player_adventures s
      where s.project_id = r.p and s.player_id = r.i limit ${ADVENTURES_HELD_MAX}) s`,
  read: (player, key, value) => void player.adventures.set(key, rowOf(value as Loaded)),
  arms: (players) => [
    {
      name: "av",
      rows: players.flatMap(changedAdventures),
      write: insertInto(
        "player_adventures",
        `project_id uuid p, player_id uuid i, adventure_key text k, id uuid, adventure_version int version,
        state text, points numeric, started_at ms startedMs, completed_at ms completedMs,
        claimed_at ms claimedMs, premium_at ms premiumMs, doc jsonb, due_at ms dueMs, updated_at now`,
        { key: "project_id, player_id, adventure_key" },
      ),
    },
  ],
};

/**
 * Maximum badges of a project including archived ones: a held badge that is not loaded would be awarded
 * again.
 */
const BADGES_HELD_MAX = 10_000;

/** Badges held and in progress. */
const badges: PlayerPart = {
  tag: "g",
  isNeeded: (plan) => plan.badges.size > 0,
  load: () => sql`
    select 'g', r.p, r.i, s.badge_key, json_build_array(s.tier, s.progress, s.times_awarded, s.serial_no,
      ${ms("first_earned_at")}, ${ms("last_earned_at")}, ${ms("revoked_at")})
    from r cross join lateral (
      select * from player_badges s where s.project_id = r.p and s.player_id = r.i
      limit ${BADGES_HELD_MAX}) s`,
  read: (player, key, value) => {
    const [tier, progress, timesAwarded, serialNo, first, last, revoked] = value as [
      number,
      number,
      number,
      ...(number | null)[],
    ];
    player.badges.set(key, {
      tier,
      progress,
      timesAwarded,
      serialNo: serialNo ?? null,
      firstEarnedMs: first ?? null,
      lastEarnedMs: last ?? null,
      revokedMs: revoked ?? null,
    });
  },
  arms: (players) => [
    {
      name: "g",
      rows: changesOf<BadgeState>(players, "badges").map(({ player, key, value }) => ({
        p: player.projectId,
        i: player.id,
        k: key,
        ...value!,
      })),
      write: insertInto(
        "player_badges",
        `project_id uuid p, player_id uuid i, badge_key text k, tier int, progress float8,
        times_awarded int, serial_no bigint, first_earned_at ms firstEarnedMs,
        last_earned_at ms lastEarnedMs, revoked_at ms revokedMs, updated_at now`,
        { key: "project_id, player_id, badge_key" },
      ),
    },
  ],
};

/** Quests of a project including archived ones, and earlier cycles whose rewards wait. */
const HELD_MAX = 10_000;

/**
 * How long a row that is over when it is written stays open to further events of its time, from its last
 * change, in s: as in an import of past events, or with a client that was offline.
 */
const LATE_SECONDS = 3_600;
/** A cycle as `QUEST_ROW_JSON` reads it. */
export type StoredQuestRow = [
  id: string,
  version: number,
  cycleKey: string,
  state: StoredState,
  percent: number,
  startedMs: number,
  startedBy: StartedBy,
  expiresMs: number | null,
  completedMs: number | null,
  claimedMs: number | null,
  claimUntilMs: number | null,
  completions: number,
  lastCompletedMs: number | null,
  doc: Pick<QuestRow, "steps" | "rewarded" | "eventId" | "isPaid" | "again" | "endsMs">,
  dueMs: number | null,
];

/** Reads a cycle of a player's quest. */
export const readQuestRow = (loaded: StoredQuestRow): QuestRow => {
  const [id, version, cycleKey, state, percent, startedMs, startedBy, expiresMs, ...rest] = loaded;
  const [completedMs, claimedMs, claimUntilMs, completions, lastCompletedMs, doc, dueMs] = rest;
  const times = { startedMs, expiresMs, completedMs, claimedMs, claimUntilMs, lastCompletedMs, dueMs };
  return { id, version, cycleKey, state, percent, startedBy, completions, ...doc, ...times };
};

const FIELDS = sql`s.id, s.quest_version, s.cycle_key, s.state, s.percent,
  ${ms("started_at")}, s.started_by, ${ms("expires_at")}, ${ms("completed_at")}, ${ms("claimed_at")},
  ${ms("claim_until")}, s.completions, ${ms("last_completed_at")}, s.doc, ${ms("due_at")}`;

/** A row `s` of `player_quests` as a `StoredQuestRow`. */
export const QUEST_ROW_JSON = sql`json_build_array(${FIELDS})`;

/** Adds a loaded cycle to those of its quest, whatever the order in which they are read. */
const withCycle = (
  known: QuestState | undefined,
  { row, isLatest }: { row: QuestRow; isLatest: boolean },
): QuestState => {
  if (!known) return { latest: row, older: [] };
  const [latest, other] = isLatest ? [row, known.latest] : [known.latest, row];
  return { latest, older: [...known.older, other].toSorted((a, b) => a.startedMs - b.startedMs) };
};

/** When the row is looked at: at its end, or some time after this write if that is past. */
const dueAt = (now: RawBuilder<unknown>) => sql`
  case when ${at('x."dueMs"')} > ${now} then ${at('x."dueMs"')}
    when x."dueMs" is not null then ${now} + interval '${sql.raw(String(LATE_SECONDS))} s' end`;

/** Divides a row into its document and its columns. */
const stored = (row: QuestRow) => {
  const { isChanged: _flag, steps, rewarded, eventId, isPaid, again, endsMs, ...columns } = row;
  return { columns, doc: { steps, rewarded, eventId, isPaid, again, endsMs } };
};

/** Rows that have only got further. */
const furtherRows = (player: PlayerState) =>
  [...player.dirty.quests].flatMap((key) => {
    const { latest: row } = player.quests.get(key) ?? {};
    if (row?.isChanged !== "PROGRESS") return [];
    const { columns, doc } = stored(row);
    const { cycleKey, percent } = columns;
    return [{ p: player.projectId, i: player.id, k: key, cycleKey, percent, dueMs: dueOf(row), doc }];
  });

const changedRows = (player: PlayerState) =>
  [...player.dirty.quests].flatMap((key) => {
    const state = player.quests.get(key);
    if (!state) return [];
    return [state.latest, ...state.older].flatMap((row) => {
      if (row.isChanged !== true) return [];
      const { columns, doc } = stored(row);
      const isLatest = row === state.latest;
      return [
        {
          p: player.projectId,
          i: player.id,
          k: key,
          ...columns,
          dueMs: dueOf(row),
          doc,
          isLatest,
          isLive: isLatest || row.state === "COMPLETED",
        },
      ];
    });
  });

const COLUMNS = sql.raw(`id, quest_version, state, percent, started_at, started_by, expires_at, completed_at,
  claimed_at, claim_until, completions, last_completed_at, doc, due_at, is_latest, is_live, updated_at`);

/** Quests of a player: of each the latest cycle, and earlier ones whose rewards wait to be claimed. */
const quests: PlayerPart = {
  tag: "qu",
  isNeeded: (plan) => plan.quests.byKey.size > 0,
  load: () => sql`
    select 'qu', r.p, r.i, s.quest_key, json_build_array(s.is_latest, ${FIELDS})
    from r cross join lateral (
      select * from player_quests s
      where s.project_id = r.p and s.player_id = r.i and s.is_live limit ${HELD_MAX}) s`,
  read: ({ quests: held }, key, value) => {
    const [isLatest, ...loaded] = value as [boolean, ...StoredQuestRow];
    held.set(key, withCycle(held.get(key), { row: readQuestRow(loaded), isLatest }));
  },
  arms: (players) => [
    {
      // By its name alone, the planner would read the rows of all players who do a quest.
      name: "qp",
      rows: players.flatMap(furtherRows),
      write: (rows, now) => sql`
        update player_quests t set percent = x.percent, doc = x.doc, due_at = ${dueAt(now)},
          updated_at = ${now}
        from json_to_recordset(${rows}::json) as x(p uuid, i uuid, k text, "cycleKey" text, percent int,
          doc jsonb, "dueMs" float8)
        where t.project_id = x.p and t.player_id = x.i and t.quest_key || '' = x.k
          and t.cycle_key = x."cycleKey"`,
    },
    {
      name: "qu",
      rows: players.flatMap(changedRows),
      write: (rows, now) => sql`
        insert into player_quests (project_id, player_id, quest_key, cycle_key, ${COLUMNS})
        select p, i, k, "cycleKey", id, version, state, percent, ${at('x."startedMs"')}, "startedBy",
          ${at('x."expiresMs"')}, ${at('x."completedMs"')}, ${at('x."claimedMs"')}, ${at('x."claimUntilMs"')},
          completions, ${at('x."lastCompletedMs"')}, doc, ${dueAt(now)}, "isLatest", "isLive", ${now}
        from json_to_recordset(${rows}::json) as x(p uuid, i uuid, k text, "cycleKey" text, id uuid,
          version int, state text, percent int, "startedMs" float8, "startedBy" text, "expiresMs" float8,
          "completedMs" float8, "claimedMs" float8, "claimUntilMs" float8, completions int,
          "lastCompletedMs" float8, doc jsonb, "dueMs" float8, "isLatest" boolean, "isLive" boolean)
        on conflict (project_id, player_id, quest_key, cycle_key) do update set
          (${COLUMNS}) = row(${sql.raw(
            `id quest_version state percent started_at started_by expires_at completed_at claimed_at
             claim_until completions last_completed_at doc due_at is_latest is_live updated_at`
              .split(/\s+/)
              .map((name) => `excluded.${name}`)
              .join(", "),
          )})`,
    },
  ],
};

const HOLDING_PARTS: Readonly<Record<HoldingName, PlayerPart>> = {
  entries,
  balances,
  lots,
  badges,
  streaks,
  segments,
  boosts,
  quests,
  adventures,
};

/** All state that players have besides their row. */
export const PLAYER_PARTS: readonly PlayerPart[] = [docPart, ...Object.values(HOLDING_PARTS)];
