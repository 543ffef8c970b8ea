import { sql } from "kysely";
import type { Work } from "../../work.ts";
import type { SanctionKind } from "../views.ts";
import type { ActiveSanction } from "./judge.ts";

type Row = {
  playerId: string;
  id: string;
  kind: SanctionKind;
  channelId: string | null;
  reason: string;
  expiresAt: Date | string | null;
};

/**
 * The sanctions that hold now for players in a channel, those of the whole chat included, in one statement.
 * @returns by player; players without any are absent
 */
export const findSanctions = async (
  { db, now }: Work,
  projectId: string,
  playerIds: readonly string[],
  channelId: string,
): Promise<Map<string, ActiveSanction[]>> => {
  const { rows } = await sql<Row>`
    select player_id as "playerId", id, kind, channel_id as "channelId", reason, expires_at as "expiresAt"
    from chat_sanctions
    where project_id = ${projectId} and player_id = any(${`{${playerIds.join(",")}}`}::uuid[])
      and (channel_id is null or channel_id = ${channelId})
      and revoked_at is null
      and (expires_at is null or expires_at > ${now.toISOString()}::timestamptz)
    order by id`.execute(db);
  return Map.groupBy(
    rows.map(({ playerId, expiresAt, ...rest }) => ({
      playerId,
      ...rest,
      expiresAt: expiresAt === null ? null : new Date(expiresAt),
    })),
    ({ playerId }) => playerId,
  );
};
