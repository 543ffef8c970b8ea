import { sql } from "kysely";
import { z } from "zod";
import { Person } from "../../kernel/events/shapes.ts";
import { getDefinition } from "../definitions/definitions.ts";
import { createSizedCache } from "../../kernel/caches.ts";
import { type RowOf, shownRow } from "../../kernel/json.ts";
import { offsetOf, orderBy, type Ordered, type PageQuery, type SortOf } from "../../kernel/paging.ts";
import { kept } from "../../kernel/statements.ts";
import { countRows, type Total, TOTAL_EXACT_MAX, type Work } from "../../kernel/work.ts";
import type { PlayerKey } from "../../progression/change.ts";
import { alongside, type Loadable } from "../../progression/parts/part.ts";
import { isPlayer } from "../../progression/players/players.ts";

/** Projects up to this number of players are counted each time; larger ones once an hour. */
const SMALL_PLAYERS_MAX = 1_000;
const KEPT_MS = 3_600_000;
/** Maximum number of projects and badges whose counts a process caches. */
const KEPT_MAX = 50_000;

type Counted = { value: number; atMs: number };
const counts = createSizedCache<Counted>({ items: KEPT_MAX });

/** What is counted: a project's players, or those who hold a badge of it. */
type Subject = { projectId: string; badgeKey?: string };

const nameOf = ({ projectId, badgeKey = "" }: Subject): string => `${projectId}\0${badgeKey}`;

const keep = (of: Subject, value: number, atMs: number): void =>
  void counts.keep(nameOf(of), { value, atMs }, { owner: of.projectId });

const keptValue = (of: Subject, nowMs: number): number | undefined => {
  const found = counts.get(nameOf(of));
  return found && nowMs - found.atMs < KEPT_MS ? found.value : undefined;
};

/** Number of ACTIVE players, but never more than TOTAL_EXACT_MAX + 1. */
const countPlayers = async ({ db, now }: Work, projectId: string): Promise<number> => {
  const known = keptValue({ projectId }, now.getTime());
  if (known !== undefined) return known;
  const found = await sql<{ n: number }>`
    select count(*) as n from (
      select 1 from players where project_id = ${projectId} and status = 'ACTIVE'
      limit ${TOTAL_EXACT_MAX + 1}) as counted`.execute(db);
  const players = found.rows[0]!.n;
  if (players > SMALL_PLAYERS_MAX) keep({ projectId }, players, now.getTime());
  return players;
};

/** Whether the holder `h` of a badge is an ACTIVE player: who is banned is none to others. */
const IS_ACTIVE = sql`exists (select from players a
  where a.project_id = h.project_id and a.id = h.player_id and a.status = 'ACTIVE')`;

const countHolders = async (
  { db }: Work,
  projectId: string,
  keys: readonly string[],
): Promise<Map<string, number>> => {
  const found = await kept(
    db,
    sql<{ badge_key: string; n: number }>`
    select h.badge_key, count(*) as n from player_badges h
    where h.project_id = ${projectId} and h.tier > 0 and ${IS_ACTIVE}
      and h.badge_key in (select jsonb_array_elements_text(${JSON.stringify(keys)}::jsonb))
    group by h.badge_key`,
  );
  const holders = new Map(found.rows.map(({ badge_key, n }) => [badge_key, n]));
  return new Map(keys.map((key) => [key, holders.get(key) ?? 0]));
};

/**
 * Returns the percentage of a project's ACTIVE players who hold each badge, with one decimal. Counts of
 * projects with more than 1,000 players are up to an hour old. Above 100,000 players nothing is counted:
 * empty.
 */
export const earnedByPercent = async (
  work: Work,
  projectId: string,
  keys: readonly string[],
): Promise<ReadonlyMap<string, number>> => {
  const players = await countPlayers(work, projectId);
  if (players > TOTAL_EXACT_MAX || keys.length === 0) return new Map();
  const nowMs = work.now.getTime();
  const missing = keys.filter((badgeKey) => keptValue({ projectId, badgeKey }, nowMs) === undefined);
  const counted =
    missing.length === 0 ? new Map<string, number>() : await countHolders(work, projectId, missing);
  if (players > SMALL_PLAYERS_MAX)
    for (const [badgeKey, value] of counted) keep({ projectId, badgeKey }, value, nowMs);
  const holdersOf = (badgeKey: string): number =>
    counted.get(badgeKey) ?? keptValue({ projectId, badgeKey }, nowMs) ?? 0;
  return percentsOf(keys, players, holdersOf);
};

const percentsOf = (
  keys: readonly string[],
  players: number,
  holdersOf: (badgeKey: string) => number,
): ReadonlyMap<string, number> =>
  new Map(
    keys.map((key) => [
      key,
      players === 0 ? 0 : Math.min(100, Math.round((holdersOf(key) / players) * 1_000) / 10),
    ]),
  );

/**
 * As `earnedByPercent`, of badges that one player has, along with the player's parts where the project is
 * small; where it is not, what is counted once an hour takes statements of its own.
 */
export const rarityAlong = (
  work: Work,
  { projectId, id }: PlayerKey,
): { parts: Loadable[]; read: (keys: readonly string[]) => Promise<ReadonlyMap<string, number>> } => {
  if (keptValue({ projectId }, work.now.getTime()) !== undefined)
    return { parts: [], read: (keys) => earnedByPercent(work, projectId, keys) };
  const holders = new Map<string, number>();
  let players = 0;
  const some = sql`
    select count(*) from (
      select 1 from players where project_id = ${projectId} and status = 'ACTIVE'
      limit ${SMALL_PLAYERS_MAX + 1}) c`;
  const parts = [
    alongside("np", sql`select 'np', -1, null::text, to_json((${some}))`, (_, n) => {
      players = Number(n);
    }),
    alongside(
      "nh",
      sql`
      select 'nh', -1, h.badge_key, to_json(count(*)) from player_badges h
      where h.project_id = ${projectId} and h.tier > 0 and ${IS_ACTIVE} and (${some}) <= ${SMALL_PLAYERS_MAX}
        and h.badge_key in (
          select badge_key from player_badges where project_id = ${projectId} and player_id = ${id})
      group by h.badge_key`,
      (key, n) => void holders.set(key, Number(n)),
    ),
  ];
  const read = async (keys: readonly string[]) =>
    players > SMALL_PLAYERS_MAX
      ? earnedByPercent(work, projectId, keys)
      : percentsOf(keys, players, (key) => holders.get(key) ?? 0);
  return { parts, read };
};

/** A player who holds a badge. */
export const Holder = Person.extend({
  tier: z.int(),
  timesAwarded: z.int(),
  serialNo: z.int().nullable(),
  firstEarnedAt: z.iso.datetime(),
  lastEarnedAt: z.iso.datetime(),
}).meta({ id: "BadgeHolder" });
type BadgeHolder = z.output<typeof Holder>;

/** Orders of the list. */
export const HOLDER_ORDERS = { by: { tier: sql`h.tier` }, usual: "desc" } as const;

type ListHolders = PageQuery &
  Ordered<SortOf<typeof HOLDER_ORDERS>> & {
    /** Limits the list to holders of exactly this tier. */
    tier?: number | undefined;
    /** `{playerId}` of a player: limits the list to this one. */
    playerId?: string | undefined;
  };

/** Lists the ACTIVE players who hold a badge, highest tier first. @throws DomainError NOT_FOUND for badge, player */
export const listHolders = async (
  work: Work,
  projectId: string,
  ref: string,
  query: ListHolders,
): Promise<Total & { holders: BadgeHolder[] }> => {
  const { key } = await getDefinition(work, projectId, { kind: "badge" }, ref);
  const tier = query.tier === undefined ? sql`h.tier > 0` : sql`h.tier = ${query.tier}`;
  const ofPlayer = await isPlayer(work, projectId, sql`h.player_id`, query.playerId);
  const where = sql`player_badges h
    where h.project_id = ${projectId} and h.badge_key = ${key} and ${tier} and ${ofPlayer} and ${IS_ACTIVE}`;
  const order = orderBy(HOLDER_ORDERS, query, sql`h.player_id`);
  const page = await sql<RowOf<BadgeHolder>>`
    select p.id as "playerId", p.external_user_id as "externalUserId", p.display_name as "displayName", h.tier,
      h.times_awarded as "timesAwarded", h.serial_no as "serialNo", h.first_earned_at as "firstEarnedAt",
      h.last_earned_at as "lastEarnedAt"
    from (
      select h.* from ${where} order by ${order}
      limit ${query.limit} offset ${offsetOf(query)}) h
    join players p on p.project_id = h.project_id and p.id = h.player_id
    order by ${order}`.execute(work.db);
  return { holders: page.rows.map((row) => shownRow(row)), ...(await countRows(work, where)) };
};
