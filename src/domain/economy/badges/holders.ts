import { sql } from "kysely";
import { IS_ACTIVE } from "./rarity.ts";
import { countRows, type Total } from "../../kernel/counting.ts";
import { getDefinition } from "../definitions/definitions.ts";
import { offsetOf, type PageQuery } from "../../kernel/paging.ts";
import { isPlayer } from "../../progression/players/players.ts";
import { orderBy, type Ordered, type SortOf } from "../../kernel/sorting.ts";
import type { Work } from "../../kernel/work.ts";

/** A player who holds a badge. Times are ISO 8601. */
export type BadgeHolder = {
  playerId: string;
  externalUserId: string;
  displayName: string | null;
  tier: number;
  timesAwarded: number;
  serialNo: number | null;
  firstEarnedAt: string;
  lastEarnedAt: string;
};

type Row = {
  id: string;
  external_user_id: string;
  display_name: string | null;
  tier: number;
  times_awarded: number;
  serial_no: string | number | null;
  first_earned_at: Date | string;
  last_earned_at: Date | string;
};

const show = (row: Row): BadgeHolder => ({
  playerId: row.id,
  externalUserId: row.external_user_id,
  displayName: row.display_name,
  tier: row.tier,
  timesAwarded: row.times_awarded,
  serialNo: row.serial_no === null ? null : Number(row.serial_no),
  firstEarnedAt: new Date(row.first_earned_at).toISOString(),
  lastEarnedAt: new Date(row.last_earned_at).toISOString(),
});

/** Orders of the list. */
export const HOLDER_ORDERS = { by: { tier: sql`h.tier` }, usual: "desc" } as const;

export type ListHolders = PageQuery &
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
  const page = await sql<Row>`
    select p.id, p.external_user_id, p.display_name, h.tier, h.times_awarded, h.serial_no,
      h.first_earned_at, h.last_earned_at
    from (
      select h.* from ${where} order by ${order}
      limit ${query.limit} offset ${offsetOf(query)}) h
    join players p on p.project_id = h.project_id and p.id = h.player_id
    order by ${order}`.execute(work.db);
  return { holders: page.rows.map(show), ...(await countRows(work, where)) };
};
