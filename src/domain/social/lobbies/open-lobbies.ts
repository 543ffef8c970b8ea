import { sql } from "kysely";
import type { Json } from "../../kernel/events/events.ts";
import { type RowOf, shownRow } from "../../kernel/json.ts";
import type { Work } from "../../kernel/work.ts";

/** A lobby in the live list; `createdAt` is ISO 8601. */
export type OpenLobby = {
  id: string;
  code: string;
  name: string;
  mode: string;
  memberCount: number;
  maxPlayers: number;
  hasPasscode: boolean;
  metadata: Json;
  createdAt: string;
};

/** `mode` "" is every mode; `metadata` must be contained in a lobby's metadata. */
type OpenLobbiesQuery = { mode: string; metadata?: Json | undefined; limit: number };

/** Returns the newest PUBLIC lobbies of a project that are OPEN. */
export const readOpenLobbies = async (
  { db }: Work,
  projectId: string,
  { mode, metadata, limit }: OpenLobbiesQuery,
): Promise<OpenLobby[]> => {
  const contains = metadata ? sql`and metadata @> ${JSON.stringify(metadata)}::jsonb` : sql``;
  const { rows } = await sql<RowOf<OpenLobby>>`
    select id, code, name, mode, member_count as "memberCount", max_players as "maxPlayers",
      passcode_hash is not null as "hasPasscode", metadata, created_at as "createdAt"
    from lobbies
    where project_id = ${projectId} and status = 'OPEN' and visibility = 'PUBLIC'
      ${mode === "" ? sql`` : sql`and mode = ${mode}`} ${contains}
    order by created_at desc, id desc
    limit ${limit}`.execute(db);
  return rows.map((row) => shownRow(row));
};
