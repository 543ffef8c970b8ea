import { sql } from "kysely";
import type { AdventureRow } from "../../evaluation/adventures/row.ts";
import type { BadgeState, PlayerState, QuestState } from "../../evaluation/player-state.ts";
import { dueOf, type QuestRow } from "../../evaluation/quests/row.ts";
import { changesOf, dueAt, heldRows, insertInto, loadedBy, type PlayerPart, rowsOfPlayer } from "./part.ts";

/** Adventures of a project, archived ones included. */
const ADVENTURES_HELD_MAX = 1_000;
/** Adventures that a player has joined, or has premium of. */
export const adventures = heldRows<AdventureRow, AdventureRow & { doc: Partial<AdventureRow> }>({
  tag: "av",
  isNeeded: (plan) => plan.adventures.byKey.size > 0,
  name: "adventures",
  table: "player_adventures",
  key: "adventure_key",
  columns: `id uuid, adventure_version int version, state text, points numeric, started_at ms startedMs,
    completed_at ms completedMs, claimed_at ms claimedMs, premium_at ms premiumMs, due_at ms dueMs, doc jsonb`,
  rest: `limit ${ADVENTURES_HELD_MAX}`,
  holdingOf: ({ doc, ...columns }) => ({ ...columns, ...doc }),
  rowOf: ({ isChanged, items, unlocked, tiers, isAuto, again, ...columns }, place) =>
    isChanged ? { ...place, ...columns, doc: { items, unlocked, tiers, isAuto, again } } : undefined,
});

/**
 * Maximum badges of a project including archived ones: a held badge that is not loaded would be awarded
 * again.
 */
const BADGES_HELD_MAX = 10_000;
/** Badges held and in progress. */
export const badges = heldRows<BadgeState>({
  tag: "g",
  isNeeded: (plan) => plan.badges.size > 0,
  name: "badges",
  table: "player_badges",
  key: "badge_key",
  columns: `tier int, progress float8, times_awarded int, serial_no bigint, first_earned_at ms firstEarnedMs,
    last_earned_at ms lastEarnedMs, revoked_at ms revokedMs`,
  rest: `limit ${BADGES_HELD_MAX}`,
});

/** Quests of a project including archived ones, and earlier cycles whose rewards wait. */
const HELD_MAX = 10_000;

const CYCLE = `cycle_key text, id uuid, quest_version int version, state text, percent int,
  started_at ms startedMs, started_by text, expires_at ms expiresMs, completed_at ms completedMs,
  claimed_at ms claimedMs, claim_until ms claimUntilMs, completions int, last_completed_at ms lastCompletedMs,
  doc jsonb, due_at due dueMs`;
const cycles = loadedBy<QuestRow & { doc: Partial<QuestRow> }>(CYCLE);

/** A row `s` of `player_quests` as JSON. */
export const QUEST_ROW_JSON = cycles.json;

/** Reads a cycle of a player's quest that was selected as `QUEST_ROW_JSON`. */
export const readQuestRow = (value: unknown): QuestRow => {
  const { doc, ...columns } = cycles.rowOf(value);
  return { ...columns, ...doc };
};

/** Adds a loaded cycle to those of its quest, whatever the order in which they are read. */
const withCycle = (
  known: QuestState | undefined,
  { row, isLatest }: { row: QuestRow; isLatest: boolean },
): QuestState => {
  if (!known) return { latest: row, older: [] };
  const [latest, other] = isLatest ? [row, known.latest] : [known.latest, row];
  return { latest, older: [...known.older, other].toSorted((a, b) => a.startedMs - b.startedMs) };
};

/** Returns the columns of a row, one of which is its document. */
const stored = (row: QuestRow) => {
  const { isChanged: _flag, steps, rewarded, eventId, isPaid, again, endsMs, ...columns } = row;
  return { ...columns, dueMs: dueOf(row), doc: { steps, rewarded, eventId, isPaid, again, endsMs } };
};

/** Rows that have only got further. */
const furtherRows = (players: readonly PlayerState[]) =>
  changesOf<QuestState>(players, "quests").flatMap(({ place, value }) => {
    if (value?.latest.isChanged !== "PROGRESS") return [];
    const { cycleKey, percent, dueMs, doc } = stored(value.latest);
    return [{ ...place, cycleKey, percent, dueMs, doc }];
  });

const changedRows = (players: readonly PlayerState[]) =>
  changesOf<QuestState>(players, "quests").flatMap(({ place, value }) =>
    (value ? [value.latest, ...value.older] : [])
      .filter(({ isChanged }) => isChanged === true)
      .map((row) => {
        const isLatest = row === value!.latest;
        return { ...place, ...stored(row), isLatest, isLive: isLatest || row.state === "COMPLETED" };
      }),
  );

const insertCycles = insertInto(
  "player_quests",
  `project_id uuid p, player_id uuid i, quest_key text k, ${CYCLE}, is_latest boolean, is_live boolean,
  updated_at now`,
  { key: "project_id, player_id, quest_key, cycle_key" },
);

/** Quests of a player: of each the latest cycle, and earlier ones whose rewards wait to be claimed. */
export const quests: PlayerPart = {
  tag: "qu",
  isNeeded: (plan) => plan.quests.byKey.size > 0,
  load: () => sql`
    select 'qu', r.n, s.quest_key, json_build_array(s.is_latest, ${QUEST_ROW_JSON})
    ${rowsOfPlayer("player_quests", "*", `and s.is_live limit ${HELD_MAX}`)}`,
  read: ({ quests: held }, key, value) => {
    const [isLatest, loaded] = value as [boolean, unknown];
    held.set(key, withCycle(held.get(key), { row: readQuestRow(loaded), isLatest }));
  },
  arms: (players) => [
    {
      // By its name alone, the planner would read the rows of all players who do a quest.
      name: "qp",
      rows: furtherRows(players),
      write: (rows, now) => sql`
        update player_quests t set percent = x.percent, doc = x.doc, due_at = ${dueAt(now)},
          updated_at = ${now}
        from json_to_recordset(${rows}::json) as x(p uuid, i uuid, k text, "cycleKey" text, percent int,
          doc jsonb, "dueMs" float8)
        where t.project_id = x.p and t.player_id = x.i and t.quest_key || '' = x.k
          and t.cycle_key = x."cycleKey"`,
    },
    { name: "qu", rows: changedRows(players), write: insertCycles },
  ],
};
