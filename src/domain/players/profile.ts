import { sql } from "kysely";
import type { Cause, Json } from "../kernel/events/events.ts";
import type { PlayerState } from "../evaluation/player-state.ts";
import {
  attributesProblem,
  type Difference,
  sameJson,
  TAGS_MAX,
  updatePlayer,
} from "../evaluation/profile.ts";
import type { Turn } from "../evaluation/turn.ts";
import type { Work } from "../kernel/work.ts";

/** Profile fields set by callers; absent fields are unchanged, `null` clears. */
export type PlayerProfile = {
  displayName?: string | null | undefined;
  avatarUrl?: string | null | undefined;
  timezone?: string | null | undefined;
  locale?: string | null | undefined;
  country?: string | null | undefined;
  /** Merge patch: a null value removes the attribute. */
  attributes?: Json | undefined;
  metadata?: Json | undefined;
  addTags?: readonly string[] | undefined;
  removeTags?: readonly string[] | undefined;
};

/** Maximum bytes of `metadata` as JSON. */
export const METADATA_MAX_BYTES = 16 * 1024;

const COLUMNS = ["displayName", "avatarUrl", "timezone", "locale", "country", "metadata"] as const;

/** The columns of a profile that evaluation does not need and PlayerState does not fully have. */
export type ProfileColumns = { [Name in (typeof COLUMNS)[number]]: unknown };

/** Reads the profile columns of players that the caller has locked, by id: one statement. */
export const readColumns = async (
  { db }: Work,
  projectId: string,
  ids: readonly string[],
): Promise<Map<string, ProfileColumns>> => {
  const result = await sql<ProfileColumns & { id: string }>`
    select id, display_name as "displayName", avatar_url as "avatarUrl", timezone, locale, country, metadata
    from players where project_id = ${projectId} and id = any(${`{${ids.join(",")}}`}::uuid[])`.execute(db);
  return new Map(result.rows.map(({ id, ...columns }) => [id, columns]));
};

const columnsChange = (before: ProfileColumns, profile: PlayerProfile): Difference => {
  const difference: Difference = { before: {}, after: {} };
  for (const name of COLUMNS) {
    const value = profile[name];
    if (value === undefined || sameJson(value, before[name] ?? null)) continue;
    difference.before[name] = before[name] ?? null;
    difference.after[name] = value;
  }
  return difference;
};

/** Rules triggered by the change see the new values. */
export const takeColumns = (
  player: PlayerState,
  profile: PlayerProfile,
  zoneChangedMs: number | null,
): void => {
  const { displayName, timezone, locale, country } = profile;
  if (displayName !== undefined) player.displayName = displayName;
  if (locale !== undefined) player.locale = locale;
  if (country !== undefined) player.country = country;
  if (timezone === undefined || timezone === player.timezone) return;
  player.timezone = timezone;
  player.zoneChangedMs = zoneChangedMs;
};

/**
 * Changes the profile of the turn's player; `player.updated` lists the changed fields. The columns are
 * written by `writeColumns`.
 * @param before the current columns; updated in place
 * @returns a message when the result would exceed a limit; then nothing has changed
 */
export const changeProfile = (
  turn: Turn,
  before: ProfileColumns,
  { profile, cause }: { profile: PlayerProfile; cause: Cause },
): string | undefined => {
  const { attributes = {}, addTags = [], removeTags = [] } = profile;
  const unset = Object.keys(attributes).filter((name) => attributes[name] === null);
  const set = Object.fromEntries(Object.entries(attributes).filter(([, value]) => value !== null));
  const difference = columnsChange(before, profile);
  const [zone, zoneChangedMs] = [turn.player.timezone, turn.player.zoneChangedMs];
  takeColumns(turn.player, profile, turn.nowMs);
  const problem = updatePlayer(turn, { set, unset, addTags, removeTags }, cause, difference);
  if (problem === undefined) Object.assign(before, difference.after);
  else Object.assign(turn.player, { ...stateOf(before), timezone: zone, zoneChangedMs });
  return problem;
};

const stateOf = ({ displayName, locale, country }: ProfileColumns) => ({ displayName, locale, country });

/** Returns a message when a new player's profile exceeds a limit. */
export const profileProblem = ({ attributes = {}, addTags = [] }: PlayerProfile): string | undefined =>
  new Set(addTags).size > TAGS_MAX
    ? `more than ${TAGS_MAX} tags`
    : attributesProblem(withoutNulls(attributes));

const withoutNulls = (attributes: Json): Json =>
  Object.fromEntries(Object.entries(attributes).filter(([, value]) => value !== null));

/** Sets the profile of a player who was just created. The columns are written by `writeColumns`. */
export const startProfile = (player: PlayerState, profile: PlayerProfile): void => {
  takeColumns(player, profile, null);
  player.attributes = withoutNulls(profile.attributes ?? {});
  player.tags = [...new Set(profile.addTags)];
  player.dirty.profile = true;
};

/** Columns of a player to be written; those absent from `profile` are unchanged. */
export type ColumnsRow = { id: string; profile: PlayerProfile; zoneChangedMs: number | null };

/** Writes profile columns, and when the zone changed: one statement, or none without rows. */
export const writeColumns = async (
  { db, now }: Work,
  projectId: string,
  rows: readonly ColumnsRow[],
): Promise<void> => {
  const given = rows
    .filter(({ profile }) => COLUMNS.some((name) => profile[name] !== undefined))
    .map(({ id, profile, zoneChangedMs }) => ({
      i: id,
      z: zoneChangedMs,
      v: Object.fromEntries(COLUMNS.map((name) => [name, profile[name]])),
    }));
  if (given.length === 0) return;
  const text = (name: string, column: string) =>
    sql.raw(`case when jsonb_exists(x.v, '${name}') then x.v->>'${name}' else t.${column} end`);
  await sql`
    update players t set display_name = ${text("displayName", "display_name")},
      avatar_url = ${text("avatarUrl", "avatar_url")}, timezone = ${text("timezone", "timezone")},
      locale = ${text("locale", "locale")}, country = ${text("country", "country")},
      metadata = coalesce(x.v->'metadata', t.metadata), zone_changed_at = to_timestamp(x.z / 1000.0),
      updated_at = ${now.toISOString()}::timestamptz
    from json_to_recordset(${JSON.stringify(given)}::json) as x(i uuid, z float8, v jsonb)
    where t.project_id = ${projectId} and t.id = x.i`.execute(db);
};
