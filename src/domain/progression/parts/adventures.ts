import { sql } from "kysely";
import type { AdventureRow, StoredAdventureState } from "../../evaluation/adventures/row.ts";
import type { PlayerState } from "../../evaluation/player-state.ts";
import { at, msOf, type PlayerPart } from "./part.ts";

/** Adventures of a project, archived ones included. */
const HELD_MAX = 1_000;

const ms = (column: string) => msOf(`s.${column}`);

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

const changedRows = (player: PlayerState) =>
  [...player.dirty.adventures].flatMap((key) => {
    const row = player.adventures.get(key);
    if (!row?.isChanged) return [];
    const { isChanged: _flag, items, unlocked, tiers, isAuto, again, ...columns } = row;
    const doc = { items, unlocked, tiers, isAuto, again };
    return [{ p: player.projectId, i: player.id, k: key, ...columns, doc }];
  });

const COLUMNS =
  sql.raw(`id, adventure_version, state, points, started_at, completed_at, claimed_at, premium_at,
  doc, due_at, updated_at`);

/** Adventures that a player has joined, or has premium of. */
export const adventures: PlayerPart = {
  tag: "av",
  isNeeded: (plan) => plan.adventures.byKey.size > 0,
  load: () => sql`
    select 'av', r.p, r.i, s.adventure_key,
      json_build_array(s.id, s.adventure_version, s.state, s.points, ${ms("started_at")},
        ${ms("completed_at")}, ${ms("claimed_at")}, ${ms("premium_at")}, ${ms("due_at")}, s.doc)
    from r cross join lateral (
      select * from player_adventures s
      where s.project_id = r.p and s.player_id = r.i limit ${HELD_MAX}) s`,
  read: (player, key, value) => void player.adventures.set(key, rowOf(value as Loaded)),
  arms: (players) => [
    {
      name: "av",
      rows: players.flatMap(changedRows),
      write: (rows, now) => sql`
        insert into player_adventures (project_id, player_id, adventure_key, ${COLUMNS})
        select p, i, k, id, version, state, points, ${at('x."startedMs"')}, ${at('x."completedMs"')},
          ${at('x."claimedMs"')}, ${at('x."premiumMs"')}, doc, ${at('x."dueMs"')}, ${now}
        from json_to_recordset(${rows}::json) as x(p uuid, i uuid, k text, id uuid, version int, state text,
          points numeric, "startedMs" float8, "completedMs" float8, "claimedMs" float8, "premiumMs" float8,
          doc jsonb, "dueMs" float8)
        on conflict (project_id, player_id, adventure_key) do update set
          (${COLUMNS}) = row(excluded.id, excluded.adventure_version, excluded.state, excluded.points,
            excluded.started_at, excluded.completed_at, excluded.claimed_at, excluded.premium_at,
            excluded.doc, excluded.due_at, excluded.updated_at)`,
    },
  ],
};
