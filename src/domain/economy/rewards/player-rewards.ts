import { type RawBuilder, sql } from "kysely";
import { z } from "zod";
import { countRows, type Total, type Work } from "../../kernel/work.ts";
import { notFound } from "../../kernel/errors.ts";
import type { Cause } from "../../kernel/events/events.ts";
import { insertWarehouseChangesOf } from "../../kernel/events/warehouse-changes.ts";
import { isId } from "../../kernel/ids.ts";
import { type RowOf, shownRow } from "../../kernel/json.ts";
import { offsetOf, orderBy, type Ordered, type PageQuery, type SortOf } from "../../kernel/paging.ts";
import { Apart, type Outcome, together } from "../../kernel/together.ts";
import type { PlayerKey } from "../../progression/change.ts";
import type { Reward } from "../../evaluation/rewards/bundle.ts";

export const GRANT_STATUSES = ["PENDING", "GRANTED", "CLAIMED", "FULFILLED", "EXPIRED", "REVOKED"] as const;
export type GrantStatus = (typeof GRANT_STATUSES)[number];

/** A reward granted to a player. */
export const PlayerRewardBody = z
  .object({
    id: z.uuid(),
    playerId: z.uuid(),
    rewardKey: z.string(),
    name: z.string().nullable(),
    kind: z.enum(["BUNDLE", "PRIZE"]),
    quantity: z.int(),
    status: z.enum(GRANT_STATUSES).meta({
      description:
        "PENDING waits to be claimed; GRANTED was given at once; FULFILLED is a prize that was handed over",
    }),
    contents: z
      .record(z.string(), z.unknown())
      .meta({ description: "Contents of a bundle, for the quantity" }),
    code: z.string().nullable(),
    cause: z.record(z.string(), z.unknown()),
    expiresAt: z.iso.datetime().nullable().meta({ description: "Until when it can be claimed" }),
    createdAt: z.iso.datetime(),
    updatedAt: z.iso.datetime(),
  })
  .meta({ id: "PlayerReward" });
export type PlayerReward = z.output<typeof PlayerRewardBody>;

/** A grant as it is stored: times are Dates, and a status that has run out is still PENDING. */
export type GrantRow = RowOf<PlayerReward> & {
  cause: Cause;
  key: string;
  fulfilment: Reward["fulfilment"] | null;
};

/** Whether the deadline to claim a grant has passed; a sweep updates its status later. */
export const isOver = ({ status, expiresAt }: GrantRow, now: Date): boolean =>
  status === "PENDING" && expiresAt !== null && expiresAt.getTime() <= now.getTime();

export const showGrant = (row: GrantRow, now: Date): PlayerReward => {
  const { key: _key, fulfilment: _fulfilment, ...grant } = row;
  return { ...shownRow<PlayerReward>(grant), status: isOver(row, now) ? "EXPIRED" : row.status };
};

const select = (where: RawBuilder<unknown>, rest: RawBuilder<unknown>) => sql<GrantRow>`
  select g.id, g.player_id as "playerId", g.reward_key as "rewardKey", d.name,
    coalesce(d.definition ->> 'kind', 'BUNDLE') as kind, g.quantity, g.status, g.contents, g.code, g.cause,
    g.expires_at as "expiresAt", g.created_at as "createdAt", g.updated_at as "updatedAt",
    g.idempotency_key as key, d.definition ->> 'fulfilment' as fulfilment
  from reward_grants g left join definitions d
    on d.project_id = g.project_id and d.kind = 'reward' and d.key = g.reward_key
  where ${where} ${rest}`;

/** A grant of a player. */
export type GrantRef = { player: PlayerKey; grantId: string };

/** Reads grants by their ids, in one statement. */
const readRows = async (
  { db }: Work,
  refs: readonly GrantRef[],
  rest: RawBuilder<unknown>,
): Promise<Outcome<GrantRow>[]> => {
  const asked = refs.flatMap(({ player: { id }, grantId }) => (isId(grantId) ? [{ p: id, g: grantId }] : []));
  const where = sql`g.project_id = ${refs[0]!.player.projectId} and exists (
    select from json_to_recordset(${JSON.stringify(asked)}::json) as r(p uuid, g uuid)
    where g.player_id = r.p and g.id = r.g)`;
  const found = asked.length === 0 ? [] : (await select(where, rest).execute(db)).rows;
  const byId = new Map(found.map((row) => [`${row.playerId} ${row.id}`, row]));
  return refs.map(({ player, grantId }) => {
    const row = byId.get(`${player.id} ${grantId.toLowerCase()}`);
    return row ? { value: row } : { error: notFound("reward grant") };
  });
};

/**
 * Returns one grant, locked until commit. A shared transaction waits for nobody: a grant that it does not get
 * is looked for again by its request alone.
 * @throws DomainError NOT_FOUND
 */
export const lockGrant = together({
  phase: "READS",
  isWrite: false,
  run: async (work, refs: readonly GrantRef[]) => {
    if (!work.isShared) return readRows(work, refs, sql`order by g.id for update of g`);
    const found = await readRows(work, refs, sql`order by g.id for update of g skip locked`);
    return found.map((one) => ("error" in one ? { error: new Apart("ALONE", "it may be held") } : one));
  },
});

/** Returns one grant after a change in this transaction. @throws DomainError NOT_FOUND */
export const getGrant = together({
  phase: "SHOW",
  isWrite: false,
  run: async (work, refs: readonly GrantRef[]) =>
    (await readRows(work, refs, sql``)).map((found): Outcome<PlayerReward> =>
      "error" in found ? found : { value: showGrant(found.value, work.now) },
    ),
});

/** Orders of the list. */
export const PLAYER_REWARD_ORDERS = { by: { createdAt: sql`g.id` }, usual: "desc" } as const;

export type ListPlayerRewards = PageQuery &
  Ordered<SortOf<typeof PLAYER_REWARD_ORDERS>> & {
    status?: GrantStatus | undefined;
    rewardKey?: string | undefined;
  };

const statusIs = (status: GrantStatus | undefined, now: Date): RawBuilder<unknown> => {
  const ended = sql`(g.status = 'PENDING' and g.expires_at <= ${now.toISOString()}::timestamptz)`;
  if (status === undefined) return sql`true`;
  if (status === "PENDING") return sql`g.status = 'PENDING' and ${ended} is not true`;
  return status === "EXPIRED" ? sql`(g.status = 'EXPIRED' or ${ended})` : sql`g.status = ${status}`;
};

/** Lists the rewards granted to a player, newest first. */
export const listPlayerRewards = async (
  work: Work,
  player: PlayerKey,
  query: ListPlayerRewards,
): Promise<Total & { rewards: PlayerReward[] }> => {
  const { rewardKey = null } = query;
  const where = sql`g.project_id = ${player.projectId} and g.player_id = ${player.id}
    and ${statusIs(query.status, work.now)} and (${rewardKey}::text is null or g.reward_key = ${rewardKey})`;
  const rest = sql`order by ${orderBy(PLAYER_REWARD_ORDERS, query, sql`g.id`)}
    limit ${query.limit} offset ${offsetOf(query)}`;
  const page = await select(where, rest).execute(work.db);
  const total = await countRows(work, sql`reward_grants g where ${where}`);
  return { rewards: page.rows.map((row) => showGrant(row, work.now)), ...total };
};

/** Selects the times at which the grants of a project expire that wait to be claimed. */
export const claimEndsOf = (projectId: string): RawBuilder<unknown> => sql`
  select expires_at as due_at from reward_grants
  where project_id = ${projectId}::uuid and status = 'PENDING' and expires_at is not null`;

/** Marks grants, or those of `only`, with a passed claim deadline as expired. @returns how many */
export const expireGrants = async (
  { db, now }: Work,
  limit: number,
  only?: { projectId: string },
): Promise<number> => {
  const time = sql`${now.toISOString()}::timestamptz`;
  const within = only ? sql`and project_id = ${only.projectId}::uuid` : sql``;
  const { rows } = await sql`
    with expired as (
      update reward_grants set status = 'EXPIRED', updated_at = ${time} where ctid = any(array(
        select ctid from reward_grants where status = 'PENDING' and expires_at <= ${time} ${within}
        limit ${limit} for update skip locked))
      returning project_id, id as ref),
    told as (${insertWarehouseChangesOf("REWARD", sql`select project_id, ref from expired`)})
    select 1 from expired`.execute(db);
  return rows.length;
};
