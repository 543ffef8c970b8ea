import { type RawBuilder, sql } from "kysely";
import { countRows, type Total } from "../../../kernel/counting.ts";
import { notFound } from "../../../kernel/errors.ts";
import { isId } from "../../../kernel/ids.ts";
import { offsetOf, type PageQuery } from "../../../kernel/paging.ts";
import { orderBy, type Ordered, type SortOf } from "../../../kernel/sorting.ts";
import { getPlayer } from "../../../progression/players/players.ts";
import type { Work } from "../../../kernel/work.ts";
import type { SanctionKind } from "../../../kernel/events/chat-views.ts";
import {
  type AppealStatus,
  type Sanction,
  type SanctionRow,
  SANCTIONS,
  showSanction,
} from "./show-sanction.ts";

/** Orders of the list. */
export const SANCTION_ORDERS = { by: { createdAt: sql`s.id` }, usual: "desc" } as const;

export type SanctionQuery = PageQuery &
  Ordered<SortOf<typeof SANCTION_ORDERS>> & {
    /** A UUID, or `ext:` and the externalUserId. */
    playerId?: string | undefined;
    channelId?: string | undefined;
    kind?: SanctionKind | undefined;
    /** Those in force, or those that are not. */
    active?: boolean | undefined;
    appealStatus?: AppealStatus | undefined;
  };

const HOLDS = (now: Date) => sql`
  (s.revoked_at is null and (s.expires_at is null or s.expires_at > ${now.toISOString()}::timestamptz))`;

const whereOf = async (work: Work, projectId: string, query: SanctionQuery): Promise<RawBuilder<unknown>> => {
  const { playerId, channelId, kind, active, appealStatus } = query;
  const parts = [sql`s.project_id = ${projectId}`];
  if (playerId !== undefined)
    parts.push(sql`s.player_id = ${(await getPlayer(work, projectId, playerId)).id}`);
  if (channelId !== undefined) parts.push(sql`s.channel_id = ${channelId}::uuid`);
  if (kind !== undefined) parts.push(sql`s.kind = ${kind}`);
  if (active !== undefined) parts.push(active ? HOLDS(work.now) : sql`not ${HOLDS(work.now)}`);
  if (appealStatus !== undefined) parts.push(sql`s.appeal_status = ${appealStatus}`);
  return sql.join(parts, sql` and `);
};

/** Lists a project's sanctions, newest first. @throws DomainError NOT_FOUND for an unknown player */
export const listSanctions = async (
  work: Work,
  projectId: string,
  query: SanctionQuery,
): Promise<Total & { sanctions: Sanction[] }> => {
  const where = await whereOf(work, projectId, query);
  const { rows } = await sql<SanctionRow>`
    ${SANCTIONS} where ${where} order by ${orderBy(SANCTION_ORDERS, query, sql`s.id`)}
    limit ${query.limit} offset ${offsetOf(query)}`.execute(work.db);
  const total = await countRows(work, sql`chat_sanctions s where ${where}`);
  return { sanctions: rows.map((row) => showSanction(row, work.now)), ...total };
};

/** @throws DomainError NOT_FOUND */
export const getSanction = async (work: Work, projectId: string, id: string): Promise<Sanction> => {
  if (!isId(id)) throw notFound("sanction");
  const { rows } = await sql<SanctionRow>`
    ${SANCTIONS} where s.project_id = ${projectId} and s.id = ${id}`.execute(work.db);
  if (!rows[0]) throw notFound("sanction");
  return showSanction(rows[0], work.now);
};
