import type { Read } from "../kernel/read.ts";
import type { PlayerStatus } from "./player.ts";

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
