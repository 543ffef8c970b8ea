import { type RawBuilder, sql } from "kysely";
import type { PlayerState, QuestState } from "../../evaluation/player-state.ts";
import { dueOf, type QuestRow, type StartedBy, type StoredState } from "../../evaluation/quests/row.ts";
import { at, msOf, type PlayerPart } from "./part.ts";

/** Quests of a project including archived ones, and earlier cycles whose rewards wait. */
const HELD_MAX = 10_000;

/**
 * How long a row that is over when it is written stays open to further events of its time, from its last
 * change, in s: as in an import of past events, or with a client that was offline.
 */
const LATE_SECONDS = 3_600;

const ms = (column: string) => msOf(`s.${column}`);

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
export const quests: PlayerPart = {
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
      name: "qp",
      rows: players.flatMap(furtherRows),
      write: (rows, now) => sql`
        update player_quests t set percent = x.percent, doc = x.doc, due_at = ${dueAt(now)},
          updated_at = ${now}
        from json_to_recordset(${rows}::json) as x(p uuid, i uuid, k text, "cycleKey" text, percent int,
          doc jsonb, "dueMs" float8)
        where t.project_id = x.p and t.player_id = x.i and t.quest_key = x.k and t.cycle_key = x."cycleKey"`,
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
