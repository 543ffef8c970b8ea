import { type RawBuilder, sql } from "kysely";
import { NIL_ID } from "../../kernel/ids.ts";
import type { Work } from "../../kernel/work.ts";
import type { Asked } from "../ask.ts";
import { lastTimesOf, type SegmentPlayer, SHOWN } from "../segment-players.ts";
import { findListed, type ListQuestion } from "./list-question.ts";

/** `cursor`: the id of the last player of the page before. */
export type ListPage = { cursor?: string | undefined; limit: number };

export type PlayerList = {
  data: SegmentPlayer[];
  pagination: { limit: number; total: number; nextCursor: string | null };
};

/** One row without a player where the page has none. */
type Row = { [F in Exclude<keyof SegmentPlayer, "lastActiveAt">]: SegmentPlayer[F] | null } & {
  last_at: Date | string;
  total: string;
};

const pageQuery = ({ frame }: Asked, listed: RawBuilder<unknown>, { cursor, limit }: ListPage) => sql<Row>`
  with l as materialized (select player_id from (${listed}) q),
  x as materialized (
    select ${SHOWN} from l join players p on p.project_id = ${frame.projectId}::uuid and p.id = l.player_id
    where p.id > ${cursor ?? NIL_ID}::uuid order by p.id limit ${limit + 1})
  select (select count(*) from l) as total, x.*, t.last_at
  from (select) one left join x on true left join (${lastTimesOf(frame)}) t on t.player_id = x."playerId"
  order by x."playerId"`;

/**
 * Reads a page of the players behind a number, by id: each is on one page, whatever comes between two of
 * them, as long as the number stays the same. Erased ones have no name.
 * @throws DomainError as `findListed`
 */
export const listPlayersBehind = async (
  work: Work,
  asked: Asked,
  list: ListQuestion,
  page: ListPage,
): Promise<PlayerList> => {
  const { rows } = await pageQuery(asked, await findListed(work, asked, list), page).execute(work.db);
  const players = rows.flatMap(({ total: _total, last_at: lastAt, ...player }) =>
    player.playerId === null ? [] : [{ ...player, lastActiveAt: new Date(lastAt).toISOString() }],
  ) as SegmentPlayer[];
  const data = players.slice(0, page.limit);
  const nextCursor = players.length > page.limit ? data.at(-1)!.playerId : null;
  return { data, pagination: { limit: page.limit, total: Number(rows[0]!.total), nextCursor } };
};
