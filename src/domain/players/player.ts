import { defineEntity, type FilterQuery, p, raw } from "@mikro-orm/core";
import { sql } from "kysely";
import { invalid } from "../kernel/errors.ts";
import { type Cause, type CauseAsked, causePart, type Json } from "../kernel/events/events.ts";
import { lineData, linesOf, PACKED_MAX } from "../kernel/outbox.ts";
import { offsetOf, PAGE_DEPTH_MAX, type PageQuery, UNINDEXED_DEPTH_MAX } from "../kernel/paging.ts";
import type { Read } from "../kernel/read.ts";
import { containing, hasTags } from "../kernel/db.ts";
import { countUpTo, type Total, type Work } from "../kernel/work.ts";

export type PlayerStatus = "ACTIVE" | "SUSPENDED" | "BANNED" | "MERGED" | "ERASED";

/**
 * A hot table: scalar keys, no relations. Read and edited as an entity, changed in batches by progression.
 */
const PlayerSchema = defineEntity({
  name: "Player",
  tableName: "players",
  properties: {
    projectId: p.uuid().primary(),
    id: p.uuid().primary(),
    externalUserId: p.text(),
    displayName: p.text().nullable(),
    avatarUrl: p.text().nullable(),
    status: p.text().$type<PlayerStatus>(),
    xp: p.bigint("number"),
    level: p.integer(),
    timezone: p.text().nullable(),
    locale: p.text().nullable(),
    country: p.text().nullable(),
    attributes: p.json<Json>(),
    metadata: p.json<Json>(),
    tags: p.array(),
    seq: p.bigint("number"),
    ledgerSeq: p.bigint("number"),
    ledgerHash: p.text().nullable(),
    lives: p.integer().nullable(),
    livesAnchorAt: p.datetime(3).nullable(),
    livesUnlimitedUntil: p.datetime(3).nullable(),
    zoneChangedAt: p.datetime(3).nullable(),
    /** Before `createdAt`, else null. */
    firstSeenAt: p.datetime(3).nullable(),
    lastSeenAt: p.datetime(3).nullable(),
    /** The player that this one was merged into or renamed to; never merged itself. */
    mergedInto: p.uuid().nullable(),
    /** Deleted by REST: SUSPENDED, and hidden from lists and boards until the status changes. */
    deletedAt: p.datetime(3).nullable(),
    createdAt: p.datetime(3),
    updatedAt: p.datetime(3),
  },
});
export class Player extends PlayerSchema.class {}
PlayerSchema.setClass(Player);

/** Maximum event types in one request. */
export const ACTIVITY_TYPES_MAX = 20;

/** An event of a player: a line of the player stream. */
type Activity = { id: string; seq: number; type: string; data: Json; createdAt: string };

type ListActivity = CauseAsked & {
  limit: number;
  /** Returns lines older than the one of this `seq`. */
  cursor?: number | undefined;
  types?: readonly string[] | undefined;
  from?: Date | undefined;
  to?: Date | undefined;
};

/** Whether a line was caused by what is asked for. */
const isCausedBy = ({ data }: Activity, { cause, ruleId }: CauseAsked): boolean => {
  const of = data["cause"] as Partial<Cause> | undefined;
  return (cause ?? of?.kind) === of?.kind && (ruleId ?? of?.ruleId) === of?.ruleId;
};

type Row = {
  id: string;
  seq: number;
  lines: number | null;
  type: string;
  data: Json;
  created_at: Date;
};

/** The lines of a row, newest first. */
const activityOf = ({ type, data, created_at: createdAt, ...row }: Row): Activity[] =>
  linesOf(row)
    .map((line) => ({
      id: line.id,
      seq: line.seq!,
      type,
      data: lineData(data, line),
      createdAt: createdAt.toISOString(),
    }))
    .toReversed();

/** Returns a player's events, newest first, and the cursor of the next page. */
export const listActivity = async (
  { db }: Work,
  { projectId, id }: Player,
  { limit, cursor, types, from, to, ...asked }: ListActivity,
): Promise<{ activity: Activity[]; nextCursor: string | null }> => {
  const named = types === undefined ? null : JSON.stringify(types);
  const before = cursor ?? Number.MAX_SAFE_INTEGER;
  const cause = causePart(asked);
  const [since, until] = [from, to].map((time) => time?.toISOString() ?? null);
  // The last line of a row may be newer than the cursor, and others of it not.
  const found = await sql<Row>`
    select id, player_seq as seq, lines, type, data, created_at from outbox
    where project_id = ${projectId} and player_id = ${id} and player_seq is not null
      and player_seq - coalesce(lines, 1) + 1 < ${before}::bigint
      and player_seq < ${Math.min(before + PACKED_MAX, Number.MAX_SAFE_INTEGER)}::bigint
      and (${named}::text is null or type in (select jsonb_array_elements_text(${named}::jsonb)))
      and (${since}::timestamptz is null or created_at >= ${since}::timestamptz)
      and (${until}::timestamptz is null or created_at < ${until}::timestamptz)
      and (${cause}::jsonb is null or data @> jsonb_build_object('cause', ${cause}::jsonb)
        or data @> jsonb_build_object('lines', jsonb_build_array(jsonb_build_object('cause', ${cause}::jsonb))))
    order by player_seq desc limit ${limit + 1}`.execute(db);
  const lines = found.rows.flatMap(activityOf).filter((line) => line.seq < before && isCausedBy(line, asked));
  const activity = lines.slice(0, limit);
  return { activity, nextCursor: lines.length > limit ? String(activity.at(-1)!.seq) : null };
};

/** Maximum external ids in one request. */
export const EXTERNAL_IDS_MAX = 100;

export const PLAYER_SORTS = [
  "createdAt",
  "updatedAt",
  "lastSeenAt",
  "xp",
  "level",
  "displayName",
  "externalUserId",
  "balance",
] as const;
/** Sorts whose columns may be empty. The others keep the plain order, which their indexes have. */
const NULLABLE: ReadonlySet<string> = new Set(["lastSeenAt", "displayName"]);
/** An index of the others would be written with every event. */
const INDEXED: ReadonlySet<string> = new Set(["createdAt", "externalUserId"]);

type PlayerSort = (typeof PLAYER_SORTS)[number];

/** Statuses that lists can show; merged and erased players are never listed. */
export const LISTED_STATUSES = ["ACTIVE", "SUSPENDED", "BANNED"] as const;

/** Maximum tags in one request. */
export const TAGS_ASKED_MAX = 10;

/** A currency whose balances are asked for. `untouched`: the balance of players who have no row of it yet. */
type OfCurrency = { key: string; untouched: number; min?: number | undefined; max?: number | undefined };

type PlayerFilter = {
  externalUserIds?: readonly string[] | undefined;
  status?: (typeof LISTED_STATUSES)[number] | undefined;
  search?: string | undefined;
  /** All of these. */
  tag?: readonly string[] | undefined;
  /** By balance. */
  currency?: OfCurrency | undefined;
  /** Path of an attribute, and the values of which it is one. */
  attribute?: string | undefined;
  values?: readonly unknown[] | undefined;
  /** Key of a segment. */
  segment?: string | undefined;
  /** An id at another provider. */
  identity?: { provider: string; externalId: string } | undefined;
  level?: number | undefined;
  minLevel?: number | undefined;
  maxLevel?: number | undefined;
  /** By creation: from inclusive, to exclusive. */
  from?: Date | undefined;
  to?: Date | undefined;
  /** By their last event: from inclusive, to exclusive. */
  lastSeenFrom?: Date | undefined;
  lastSeenTo?: Date | undefined;
};

type ListPlayers = PageQuery &
  PlayerFilter & {
    sort: PlayerSort;
    order: "asc" | "desc";
    /** The last player of the page before, by creation: what is made meanwhile moves nothing. */
    cursor?: string | undefined;
  };

/**
 * Returns a page of players, their number and the cursor of the next page; without deleted, merged and erased
 * ones.
 * @throws DomainError VALIDATION_ERROR for a cursor that is no player, or goes with another sort or a page
 */
export const listPlayers = async (
  work: Work,
  projectId: string,
  query: ListPlayers,
): Promise<Total & { players: Player[]; nextCursor: string | null }> => {
  const where = playerWhere(projectId, query);
  const after = await afterCursor(work, projectId, query);
  const found = await work.em.find(
    Player,
    { $and: [where, ...after] },
    {
      orderBy: [
        { [columnOf(query)]: NULLABLE.has(query.sort) ? `${query.order} nulls last` : query.order },
        { id: query.order },
      ],
      // One more, which tells whether a page follows.
      limit: query.limit + 1,
      offset: offsetOf(query, INDEXED.has(query.sort) ? PAGE_DEPTH_MAX : UNINDEXED_DEPTH_MAX),
      // The unit of work would compare every document with its original, though none has changed.
      disableIdentityMap: true,
    },
  );
  const players = found.slice(0, query.limit);
  const isMore = query.sort === "createdAt" && found.length > query.limit;
  const nextCursor = isMore ? players.at(-1)!.id : null;
  return { players, nextCursor, ...(await countUpTo(work, Player, where)) };
};

/** The property by which a list is sorted, or what stands for it in SQL. */
const columnOf = ({ sort, currency }: ListPlayers): string => {
  if (sort !== "balance") return sort;
  const { key, untouched } = currency!;
  return raw(
    (player) => `coalesce((select balance from player_balances b where b.project_id = ${player}.project_id
      and b.player_id = ${player}.id and b.currency_key = ?), ?)`,
    [key, untouched],
  );
};

/** Players who come after the cursor in the order of their creation. */
const afterCursor = async (
  { em }: Work,
  projectId: string,
  { cursor, sort, order, page }: ListPlayers,
): Promise<FilterQuery<Player>[]> => {
  if (cursor === undefined) return [];
  if (sort !== "createdAt" || page !== 1)
    throw invalid("cursor", "goes with sort=createdAt and without page");
  const last = await em.findOne(Player, { projectId, id: cursor }, { fields: ["createdAt"] });
  if (!last) throw invalid("cursor", "is not nextCursor of a page before");
  const { createdAt } = last;
  return order === "asc"
    ? [{ createdAt: { $gte: createdAt }, $or: [{ createdAt: { $gt: createdAt } }, { id: { $gt: cursor } }] }]
    : [{ createdAt: { $lte: createdAt }, $or: [{ createdAt: { $lt: createdAt } }, { id: { $lt: cursor } }] }];
};

const playerWhere = (projectId: string, filter: PlayerFilter): FilterQuery<Player> => {
  const parts: FilterQuery<Player>[] = [
    { projectId, deletedAt: null, status: filter.status ?? { $nin: ["MERGED", "ERASED"] } },
    ...levelWhere(filter),
    ...memberWhere(projectId, filter),
    ...balanceWhere(filter),
  ];
  const { externalUserIds, search, from, to, lastSeenFrom, lastSeenTo } = filter;
  if (from) parts.push({ createdAt: { $gte: from } });
  if (to) parts.push({ createdAt: { $lt: to } });
  if (lastSeenFrom) parts.push({ lastSeenAt: { $gte: lastSeenFrom } });
  if (lastSeenTo) parts.push({ lastSeenAt: { $lt: lastSeenTo } });
  if (externalUserIds) parts.push({ externalUserId: { $in: [...externalUserIds] } });
  if (search !== undefined) {
    const contains = containing(search);
    parts.push({ $or: [{ externalUserId: { $ilike: contains } }, { displayName: { $ilike: contains } }] });
  }
  return { $and: parts };
};

const levelWhere = ({ level, minLevel, maxLevel }: PlayerFilter): FilterQuery<Player>[] => [
  ...(level === undefined ? [] : [{ level }]),
  ...(minLevel === undefined ? [] : [{ level: { $gte: minLevel } }]),
  ...(maxLevel === undefined ? [] : [{ level: { $lte: maxLevel } }]),
];

/** Whether there is a row, or none that says otherwise: the database joins both, in place of a look at each player. */
const balanceWhere = ({ currency }: PlayerFilter): FilterQuery<Player>[] => {
  const { key, untouched, min, max } = currency ?? {};
  if (min === undefined && max === undefined) return [];
  const [low, high] = [min ?? 0, max ?? Number.MAX_SAFE_INTEGER];
  const not = untouched! >= low && untouched! <= high ? "not" : "";
  const where = raw(
    (player) => `${not} exists (select from player_balances b where b.project_id = ${player}.project_id
      and b.player_id = ${player}.id and b.currency_key = ? and b.balance ${not} between ? and ?)`,
    [key, low, high],
  );
  return [{ [where]: [] }];
};

const memberWhere = (projectId: string, filter: PlayerFilter): FilterQuery<Player>[] => {
  const { tag, segment, identity, attribute, values } = filter;
  const parts: FilterQuery<Player>[] = [];
  if (tag !== undefined) parts.push({ [hasTags(tag)]: [] });
  if (attribute !== undefined) {
    const isOne = raw(
      (player) =>
        `${player}.attributes #> string_to_array(?, '.') in (select jsonb_array_elements(?::jsonb))`,
      [attribute, JSON.stringify(values)],
    );
    parts.push({ [isOne]: [] });
  }
  if (segment !== undefined) {
    const members = raw("select player_id from player_segments where project_id = ? and segment_key = ?", [
      projectId,
      segment,
    ]);
    parts.push({ id: { $in: members as never } });
  }
  if (identity) {
    const owners = raw(
      "select player_id from player_identities where project_id = ? and provider = ? and external_id = ?",
      [projectId, identity.provider, identity.externalId],
    );
    parts.push({ id: { $in: owners as never } });
  }
  return parts;
};

const STATUSES = `
  select r.n, p.status
  from json_to_recordset($1::json) as r(n int, j uuid, p uuid)
  cross join lateral (
    select status from players where project_id = r.j and id = r.p limit 1) p`;

/** Returns the status of players of any projects, in order, by one statement; undefined for unknown ones. */
export const readStatuses = async (
  read: Read,
  players: readonly { projectId: string; playerId: string }[],
): Promise<(PlayerStatus | undefined)[]> => {
  const asked = players.map(({ projectId, playerId }, n) => ({ n, j: projectId, p: playerId }));
  const rows = await read<{ n: number; status: PlayerStatus }>({
    text: STATUSES,
    values: [JSON.stringify(asked)],
  });
  const found = new Map(rows.map(({ n, status }) => [n, status]));
  return players.map((_, n) => found.get(n));
};
