import { type RawBuilder, sql } from "kysely";
import type { Work } from "../../../kernel/work.ts";
import type { SanctionKind } from "../../../kernel/events/chat-views.ts";
import type { ActiveSanction } from "./moderate.ts";

/** A sanction as `sanctionsOf` reads it. */
export type SanctionRow = {
  playerId: string;
  id: string;
  kind: SanctionKind;
  channelId: string | null;
  reason: string;
  expiresAt: Date | string | null;
};

type Where = { projectId: string; channelId: string; now: Date };

/**
 * Selects the sanctions in force for `players` (an array of ids) in a channel, including those of all
 * channels.
 */
export const sanctionsOf = (
  players: RawBuilder<unknown>,
  { projectId, channelId, now }: Where,
) => sql<SanctionRow>`
  select player_id as "playerId", id, kind, channel_id as "channelId", reason, expires_at as "expiresAt"
  from chat_sanctions
  where project_id = ${projectId} and player_id = any(${players})
    and (channel_id is null or channel_id = ${channelId})
    and revoked_at is null
    and (expires_at is null or expires_at > ${now.toISOString()}::timestamptz)
  order by id`;

/** By player; players without any are absent. */
export const sanctionsByPlayer = (rows: readonly SanctionRow[]): Map<string, ActiveSanction[]> =>
  Map.groupBy(
    rows.map(({ playerId, expiresAt, ...rest }) => ({
      playerId,
      ...rest,
      expiresAt: expiresAt === null ? null : new Date(expiresAt),
    })),
    ({ playerId }) => playerId,
  );

/** Returns the sanctions in force for players in a channel, by player, in one statement. */
export const findSanctions = async (
  { db, now }: Work,
  projectId: string,
  playerIds: readonly string[],
  channelId: string,
): Promise<Map<string, ActiveSanction[]>> => {
  const players = sql`${`{${playerIds.join(",")}}`}::uuid[]`;
  const { rows } = await sanctionsOf(players, { projectId, channelId, now }).execute(db);
  return sanctionsByPlayer(rows);
};
