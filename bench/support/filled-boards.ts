import type { Box } from "./box.ts";
import { post, type Site } from "./setup.ts";

const FILL_ROWS = 100_000;
const ID = "('00000000-0000-7000-8000-' || lpad(to_hex(n), 12, '0'))::uuid";

/** Lets the site ask as fast as it can. */
export const unlimit = async ({ pool }: Box, { projectId }: Site): Promise<void> => {
  const ofProject = "(select tenant_id from projects where id = $1)";
  await pool.query(`update tenants set plan = 'ENTERPRISE' where id = ${ofProject}`, [projectId]);
};

/** Key of the board that `fillBoards` makes of this size. */
export const keyOf = (size: number): string => `board-${size}`;

/**
 * Makes as many players as the largest board has (`playerIdOf` names them), and a board of each size, whose
 * index the first read builds.
 */
export const fillBoards = async (
  { pool }: Box,
  site: Site,
  sizes: readonly number[],
): Promise<{ id: string; periodId: string }[]> => {
  const client = await pool.connect();
  const run = (text: string, values: unknown[]) => client.query({ text, values }) as Promise<unknown>;
  await client.query("set statement_timeout = 0");
  const count = Math.max(...sizes);
  for (let from = 0; from < count; from += FILL_ROWS)
    await run(
      `insert into players (project_id, id, external_user_id, display_name, created_at, updated_at)
       select $1::uuid, ${ID}, 'player-' || n, 'Player ' || n, now(), now()
       from generate_series($2::int, $3::int) as n`,
      [site.projectId, from, Math.min(from + FILL_ROWS, count) - 1],
    );
  const boards: { id: string; periodId: string }[] = [];
  for (const size of sizes) {
    const definition = { metric: { source: "CUSTOM" }, operator: "LATEST", name: "Board" };
    const id = String((await post(site, "/leaderboards", { key: keyOf(size), ...definition }))["id"]);
    await run(
      `insert into leaderboard_entries
         (project_id, period_id, player_id, rank_score, rank_tie, latest_us, version, updated_at)
       select $1::uuid, b.period_id, ${ID}, -(n * 7919::bigint % 1000003), n, n, 1, now()
       from generate_series(0, $3::int - 1) as n, leaderboards b where b.id = $2::uuid`,
      [site.projectId, id, size],
    );
    const { rows } = await pool.query("select period_id from leaderboards where id = $1", [id]);
    boards.push({ id, periodId: String(rows[0]!["period_id"]) });
  }
  await client.query("vacuum analyze players, leaderboard_entries");
  client.release(true);
  return boards;
};

/** Reads until the rank index of a board is built. @throws Error unless it has all entries */
export const untilBuilt = async (site: Site, size: number): Promise<void> => {
  for (;;) {
    const path = `${site.url}/api/v1/leaderboards/${keyOf(size)}/entries?limit=1`;
    const response = await fetch(path, { headers: { "X-API-Key": site.key } });
    const { pagination } = (await response.json()) as { pagination?: { total: number } };
    if (response.ok && pagination!.total !== size) throw new Error(`${pagination!.total} of ${size} entries`);
    if (response.ok) return;
    await new Promise((resolve) => setTimeout(resolve, 200));
  }
};
