import { type FilterQuery, raw } from "@mikro-orm/core";
import { countUpTo, type Total } from "../kernel/counting.ts";
import { invalid } from "../kernel/errors.ts";
import { offsetOf, PAGE_DEPTH_MAX, type PageQuery, UNINDEXED_DEPTH_MAX } from "../kernel/paging.ts";
import { containing } from "../kernel/search.ts";
import type { Work } from "../kernel/work.ts";
import { Player } from "./player.ts";

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
] as const;
/** Sorts whose columns may be empty. The others keep the plain order, which their indexes have. */
const NULLABLE: ReadonlySet<string> = new Set(["lastSeenAt", "displayName"]);
/** An index of the others would be written with every event. */
const INDEXED: ReadonlySet<string> = new Set(["createdAt", "externalUserId"]);

export type PlayerSort = (typeof PLAYER_SORTS)[number];

/** Statuses that lists can show; merged and erased players are never listed. */
export const LISTED_STATUSES = ["ACTIVE", "SUSPENDED", "BANNED"] as const;

export type PlayerFilter = {
  externalUserIds?: readonly string[] | undefined;
  status?: (typeof LISTED_STATUSES)[number] | undefined;
  search?: string | undefined;
  tag?: string | undefined;
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
};

export type ListPlayers = PageQuery &
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
  const players = await work.em.find(
    Player,
    { $and: [where, ...after] },
    {
      orderBy: [
        { [query.sort]: NULLABLE.has(query.sort) ? `${query.order} nulls last` : query.order },
        { id: query.order },
      ],
      limit: query.limit,
      offset: offsetOf(query, INDEXED.has(query.sort) ? PAGE_DEPTH_MAX : UNINDEXED_DEPTH_MAX),
      // The unit of work would compare every document with its original, though none has changed.
      disableIdentityMap: true,
    },
  );
  const isMore = query.sort === "createdAt" && players.length === query.limit;
  const nextCursor = isMore ? players.at(-1)!.id : null;
  return { players, nextCursor, ...(await countUpTo(work, Player, where)) };
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
  ];
  const { externalUserIds, search, from, to } = filter;
  if (from) parts.push({ createdAt: { $gte: from } });
  if (to) parts.push({ createdAt: { $lt: to } });
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

const memberWhere = (projectId: string, { tag, segment, identity }: PlayerFilter): FilterQuery<Player>[] => {
  const parts: FilterQuery<Player>[] = [];
  if (tag !== undefined) parts.push({ tags: { $contains: [tag] } });
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
