import { type FilterQuery, LockMode } from "@mikro-orm/core";
import { sql } from "kysely";
import { shareConfig } from "../config-lock.ts";
import { countUpTo, type Total } from "../counting.ts";
import { conflict, type DomainError, invalid, notFound } from "../errors.ts";
import type { Cause, Json } from "../events.ts";
import { isId, newId } from "../ids.ts";
import { offsetOf, type PageQuery } from "../paging.ts";
import { changePlayer } from "../progression/change.ts";
import { announcePlayer } from "../progression/evaluate.ts";
import { insertPlayers } from "../progression/load.ts";
import { type LevelCurve, levelProgress } from "../progression/levels.ts";
import {
  attributesProblem,
  type Difference,
  sameJson,
  TAGS_MAX,
  updatePlayer,
} from "../progression/profile.ts";
import type { LedgerRow, PlayerState } from "../progression/turn.ts";
import { grantXp, XP_MAX } from "../progression/xp.ts";
import { containing } from "../search.ts";
import type { Work } from "../work.ts";
import { Player, type PlayerStatus } from "./player.ts";

/** Reads `{playerId}` of a path: the UUID, or `ext:` and the integrator's id. */
export const findPlayer = async (work: Work, projectId: string, ref: string): Promise<Player | undefined> => {
  if (ref.startsWith("ext:")) {
    return (await work.em.findOne(Player, { projectId, externalUserId: ref.slice(4) })) ?? undefined;
  }
  return isId(ref) ? ((await work.em.findOne(Player, { projectId, id: ref })) ?? undefined) : undefined;
};

export const getPlayer = async (work: Work, projectId: string, ref: string): Promise<Player> => {
  const player = await findPlayer(work, projectId, ref);
  if (!player) throw notFound("player");
  return player;
};

/** A player as the API shows it. */
export const showPlayer = (player: Player, curve: LevelCurve) => ({
  id: player.id,
  externalUserId: player.externalUserId,
  displayName: player.displayName ?? null,
  xp: player.xp,
  level: player.level,
  levelProgress: levelProgress(curve, player.xp),
  status: player.status,
  avatarUrl: player.avatarUrl ?? null,
  timezone: player.timezone ?? null,
  locale: player.locale ?? null,
  country: player.country ?? null,
  attributes: player.attributes,
  metadata: player.metadata,
  tags: player.tags,
  seq: player.seq,
  lastSeenAt: player.lastSeenAt?.toISOString() ?? null,
  createdAt: player.createdAt.toISOString(),
  updatedAt: player.updatedAt.toISOString(),
});

/** What callers may say of a player; a field that is absent stays, `null` clears. */
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

/**
 * Identifies a player: makes one for a new externalUserId, else changes what is given. Two at once make one
 * player.
 * @throws DomainError VALIDATION_ERROR when attributes or tags pass their limits
 */
export const identifyPlayer = async (
  work: Work,
  projectId: string,
  { externalUserId, ...profile }: { externalUserId: string } & PlayerProfile,
): Promise<{ player: Player; created: boolean }> => {
  // Before the row, in the order in which batches lock: else a change of definitions could wait in a ring
  // with us.
  await shareConfig(work, [projectId]);
  const created = await createPlayer(work, projectId, { id: newId(), externalUserId, profile });
  const player = await getPlayer(work, projectId, `ext:${externalUserId}`);
  return { player: created ? player : await patchPlayer(work, player, profile), created };
};

/** Makes the player with its profile and announces it; false when there is one already. */
const createPlayer = async (
  work: Work,
  projectId: string,
  { id, externalUserId, profile }: { id: string; externalUserId: string; profile: PlayerProfile },
): Promise<boolean> => {
  const made = await insertPlayers(work, [{ projectId, externalUserId, id }]);
  if (!made.has(id)) return false;
  await writeColumns(work, projectId, id, profile);
  await changePlayer(work, projectId, id, (turn) => {
    const problem = startProfile(turn.player, profile);
    if (problem !== undefined) throw beyondLimit(problem);
    announcePlayer(turn, "IDENTIFY");
  });
  return true;
};

const beyondLimit = (problem: string): DomainError =>
  invalid(problem.endsWith("tags") ? "tags" : "attributes", problem);

const startProfile = (
  player: PlayerState,
  { attributes = {}, addTags = [] }: PlayerProfile,
): string | undefined => {
  player.attributes = Object.fromEntries(Object.entries(attributes).filter(([, value]) => value !== null));
  player.tags = [...new Set(addTags)];
  player.dirty.profile = true;
  return player.tags.length > TAGS_MAX ? `more than ${TAGS_MAX} tags` : attributesProblem(player.attributes);
};

const COLUMNS = ["displayName", "avatarUrl", "timezone", "locale", "country", "metadata"] as const;

/** Changes a player's profile; `player.updated` names what differs. */
export const patchPlayer = async (
  work: Work,
  { projectId, id }: Player,
  profile: PlayerProfile,
  cause: Cause = { kind: "API" },
): Promise<Player> => {
  // First, as in identifyPlayer.
  await shareConfig(work, [projectId]);
  const options = { lockMode: LockMode.PESSIMISTIC_WRITE, refresh: true } as const;
  const before = await work.em.findOneOrFail(Player, { projectId, id }, options);
  await changePlayer(work, projectId, id, (turn) => {
    const problem = updatePlayer(turn, attributesChange(profile), cause, columnsChange(before, profile));
    if (problem !== undefined) throw beyondLimit(problem);
  });
  await writeColumns(work, projectId, id, profile);
  return work.em.findOneOrFail(Player, { projectId, id }, { refresh: true });
};

const columnsChange = (player: Player, profile: PlayerProfile): Difference => {
  const before: Json = {};
  const after: Json = {};
  for (const name of COLUMNS) {
    const value = profile[name];
    if (value === undefined || sameJson(value, player[name] ?? null)) continue;
    before[name] = player[name] ?? null;
    after[name] = value;
  }
  return { before, after };
};

const attributesChange = ({ attributes = {}, addTags = [], removeTags = [] }: PlayerProfile) => {
  const unset = Object.keys(attributes).filter((name) => attributes[name] === null);
  const set = Object.fromEntries(Object.entries(attributes).filter(([, value]) => value !== null));
  return { set, unset, addTags, removeTags };
};

const writeColumns = async (
  { db, now }: Work,
  projectId: string,
  id: string,
  profile: PlayerProfile,
): Promise<void> => {
  const given = COLUMNS.filter((name) => profile[name] !== undefined);
  if (given.length === 0) return;
  const row = JSON.stringify(Object.fromEntries(given.map((name) => [name, profile[name]])));
  const assign = (name: (typeof COLUMNS)[number], column: string) =>
    given.includes(name) ? sql`${sql.ref(`x.${name}`)}` : sql`${sql.ref(`t.${column}`)}`;
  await sql`
    update players t set display_name = ${assign("displayName", "display_name")},
      avatar_url = ${assign("avatarUrl", "avatar_url")}, timezone = ${assign("timezone", "timezone")},
      locale = ${assign("locale", "locale")}, country = ${assign("country", "country")},
      metadata = coalesce(${assign("metadata", "metadata")}, '{}'),
      updated_at = ${now.toISOString()}::timestamptz
    from json_to_record(${row}::json) as x(
      "displayName" text, "avatarUrl" text, timezone text, locale text, country text, metadata jsonb)
    where t.project_id = ${projectId} and t.id = ${id}`.execute(db);
};

/**
 * Grants (or with a negative amount takes) XP by REST, exactly `amount` or nothing.
 * @throws DomainError CONFLICT: INSUFFICIENT_XP, XP_LIMIT, REFERENCE_USED, PLAYER_INACTIVE
 */
export const grantPlayerXp = async (
  work: Work,
  player: Player,
  grant: { amount: number; reason: string; reference?: string | undefined; cause: Cause },
): Promise<{ player: Player; ledgerEntry: LedgerRow }> => {
  const { projectId, id } = player;
  const key = grant.reference === undefined ? `api:${newId()}` : `api:ref:${grant.reference}`;
  if (grant.reference !== undefined) await checkReference(work, player, { reference: grant.reference, key });
  const { value } = await changePlayer(work, projectId, id, (turn) => {
    checkGrant(turn.player, grant.amount);
    return grantXp(turn, { ...grant, key })!;
  });
  return {
    player: await work.em.findOneOrFail(Player, { projectId, id }, { refresh: true }),
    ledgerEntry: value,
  };
};

const checkGrant = ({ xp, status }: PlayerState, amount: number): void => {
  if (amount > 0 && status !== "ACTIVE") throw conflict("PLAYER_INACTIVE", `the player is ${status}`);
  if (xp + amount < 0) throw conflict("INSUFFICIENT_XP", `the player has ${xp} XP`);
  if (xp + amount > XP_MAX) throw conflict("XP_LIMIT", `XP may not exceed ${XP_MAX}`);
};

const checkReference = async (
  work: Work,
  { projectId, id }: Player,
  { reference, key }: { reference: string; key: string },
): Promise<void> => {
  // Of two grants with one reference, the second looks when the first is done. First, as in identifyPlayer.
  await shareConfig(work, [projectId]);
  await sql`select 1 from players where project_id = ${projectId} and id = ${id} for update`.execute(work.db);
  const found = await sql`
    select 1 from ledger_entries
    where project_id = ${projectId} and player_id = ${id} and idempotency_key = ${key}`.execute(work.db);
  if (found.rows.length > 0)
    throw conflict("REFERENCE_USED", `reference ${reference} was used for this player before`);
};

export const PLAYER_SORTS = {
  createdAt: "createdAt",
  xp: "xp",
  level: "level",
  lastSeenAt: "lastSeenAt",
} as const;

export type PlayerFilter = {
  externalUserId?: string | undefined;
  status?: PlayerStatus | undefined;
  search?: string | undefined;
  minLevel?: number | undefined;
  maxLevel?: number | undefined;
};

export type ListPlayers = PageQuery &
  PlayerFilter & { sort: keyof typeof PLAYER_SORTS; order: "asc" | "desc" };

/** A page of players and how many there are. */
export const listPlayers = async (
  work: Work,
  projectId: string,
  query: ListPlayers,
): Promise<Total & { players: Player[] }> => {
  const where = playerWhere(projectId, query);
  const players = await work.em.find(Player, where, {
    orderBy: [{ [PLAYER_SORTS[query.sort]]: `${query.order} nulls last` }, { id: query.order }],
    limit: query.limit,
    offset: offsetOf(query),
  });
  return { players, ...(await countUpTo(work, Player, where)) };
};

const playerWhere = (projectId: string, filter: PlayerFilter): FilterQuery<Player> => {
  const level: { $gte?: number; $lte?: number } = {};
  if (filter.minLevel !== undefined) level.$gte = filter.minLevel;
  if (filter.maxLevel !== undefined) level.$lte = filter.maxLevel;
  const contains = filter.search === undefined ? undefined : containing(filter.search);
  return {
    projectId,
    ...(filter.externalUserId === undefined ? {} : { externalUserId: filter.externalUserId }),
    ...(filter.status === undefined ? {} : { status: filter.status }),
    ...(Object.keys(level).length === 0 ? {} : { level }),
    ...(contains === undefined
      ? {}
      : { $or: [{ externalUserId: { $ilike: contains } }, { displayName: { $ilike: contains } }] }),
  };
};
