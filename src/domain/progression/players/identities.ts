import { sql } from "kysely";
import { conflict, notFound } from "../../kernel/errors.ts";
import { kept } from "../../kernel/statements.ts";
import type { Work } from "../../kernel/work.ts";
import type { Player } from "../../players/player.ts";
import { alongside, type Loadable } from "../parts/part.ts";
import { lockKnown } from "./players.ts";

/** Maximum ids at other providers of one player. */
export const IDENTITIES_MAX = 50;

/** The provider of the integrator's own id, which is part of the player and changed by alias and merge. */
export const PRIMARY_PROVIDER = "external";

/** An id of a player at another provider, by which the player can be looked up. */
export type Identity = { provider: string; externalId: string; createdAt: string };

type Row = { provider: string; external_id: string; created_at: Date | string; player_id: string };

const show = (row: Row): Identity => ({
  provider: row.provider,
  externalId: row.external_id,
  createdAt: new Date(row.created_at).toISOString(),
});

const select = ({ projectId, id }: Player) => sql<Row>`
  select provider, external_id, created_at, player_id from player_identities
  where project_id = ${projectId} and player_id = ${id} order by provider, external_id`;

const shown = ({ externalUserId, createdAt }: Player, rows: readonly Row[]): Identity[] => {
  const primary = { provider: PRIMARY_PROVIDER, externalId: externalUserId };
  return [{ ...primary, createdAt: createdAt.toISOString() }, ...rows.map(show)];
};

/** Returns a player's ids: the integrator's own first, then by provider. */
export const listIdentities = async (work: Work, player: Player): Promise<Identity[]> =>
  shown(player, (await kept(work.db, select(player))).rows);

/** As `listIdentities`, along with the player's parts. */
export const identitiesAlong = (player: Player): { parts: Loadable[]; read: () => Identity[] } => {
  const rows: Row[] = [];
  const part = alongside(
    "id",
    sql`select 'id', -1, null::text, row_to_json(x) from (${select(player)}) x`,
    (_, row) => void rows.push(row as Row),
  );
  return { parts: [part], read: () => shown(player, rows) };
};

/**
 * Adds an id at another provider. An id that the player has already is returned unchanged.
 * @throws DomainError CONFLICT: IDENTITY_TAKEN by another player, IDENTITY_LIMIT
 */
export const addIdentity = async (
  work: Work,
  { projectId, id: asked }: Player,
  { provider, externalId }: Pick<Identity, "provider" | "externalId">,
): Promise<{ identity: Identity; created: boolean }> => {
  // Under the player's lock, so that a merge or an erasure includes it.
  const player = await lockKnown(work, projectId, asked);
  const made = await sql<Row>`
    insert into player_identities (project_id, provider, external_id, player_id, created_at)
    values (${projectId}, ${provider}, ${externalId}, ${player.id}, ${work.now.toISOString()}::timestamptz)
    on conflict do nothing returning *`.execute(work.db);
  const found = made.rows[0] ?? (await findIdentity(work, projectId, { provider, externalId }));
  if (found.player_id !== player.id)
    throw conflict("IDENTITY_TAKEN", "another player has this id; merge the two if they are one");
  await checkRoom(work, projectId, player.id);
  return { identity: show(found), created: made.rows.length > 0 };
};

const findIdentity = async (
  work: Work,
  projectId: string,
  { provider, externalId }: Pick<Identity, "provider" | "externalId">,
): Promise<Row> => {
  const found = await sql<Row>`
    select * from player_identities where project_id = ${projectId} and provider = ${provider}
      and external_id = ${externalId}`.execute(work.db);
  return found.rows[0]!;
};

const checkRoom = async ({ db }: Work, projectId: string, playerId: string): Promise<void> => {
  const counted = await sql<{ n: number }>`
    select count(*) as n from player_identities
    where project_id = ${projectId} and player_id = ${playerId}`.execute(db);
  if (counted.rows[0]!.n > IDENTITIES_MAX)
    throw conflict("IDENTITY_LIMIT", `a player may have ${IDENTITIES_MAX} ids at other providers`);
};

/** @throws DomainError NOT_FOUND when the player has no such id */
export const removeIdentity = async (
  { db }: Work,
  { projectId, id }: Player,
  { provider, externalId }: Pick<Identity, "provider" | "externalId">,
): Promise<void> => {
  const removed = await sql`
    delete from player_identities where project_id = ${projectId} and player_id = ${id}
      and provider = ${provider} and external_id = ${externalId} returning 1`.execute(db);
  if (removed.rows.length === 0) throw notFound("identity");
};
