import { sql } from "kysely";
import type { PlayerState } from "../evaluation/player-state.ts";
import { isId } from "../kernel/ids.ts";
import { kept } from "../kernel/statements.ts";
import { Apart } from "../kernel/together.ts";
import type { Work } from "../kernel/work.ts";
import { unknownPlayer } from "../players/player-refs.ts";
import { COLUMNS, type FoundRow, playersOf } from "./load.ts";

/** A player that a request names, or the error of the request. */
export type LockedRef = { player: PlayerState } | { error: Error };

/** SQL for `s(ref, id)`: the players that references stand for; merged ones are their merge target. */
const namedBy = (projectId: string, refs: readonly string[]) => {
  const ids = refs.filter(isId).map((f) => ({ f, i: f }));
  const names = refs.filter((ref) => ref.startsWith("ext:")).map((f) => ({ f, u: f.slice("ext:".length) }));
  return sql`s as materialized (
    select r.f as ref, coalesce(q.merged_into, q.id) as id
    from json_to_recordset(${JSON.stringify(ids)}::json) as r(f text, i uuid)
    join players q on q.project_id = ${projectId} and q.id = r.i
    union all
    select r.f, coalesce(q.merged_into, q.id)
    from json_to_recordset(${JSON.stringify(names)}::json) as r(f text, u text)
    join players q on q.project_id = ${projectId} and q.external_user_id = r.u)`;
};

/**
 * Locks the players that UUIDs or `ext:…` references stand for and reads them, in id order and in one
 * statement. In a shared transaction nobody is waited for: a player that others hold is an error `Apart`.
 * @returns by reference
 */
export const lockRefs = async (
  work: Work,
  projectId: string,
  refs: readonly string[],
): Promise<Map<string, LockedRef>> => {
  const asked = [...new Set(refs)];
  const rows = work.isShared ? await lockFree(work, projectId, asked) : await lockAll(work, projectId, asked);
  const isMerged = new Set(rows.filter((row) => row.merged_into !== null).map(({ ref }) => ref));
  const free = rows.filter(
    (row): row is FoundRow => row.id !== null && !(work.isShared && isMerged.has(row.ref)),
  );
  const players = await playersOf(work, free, ({ ref }) => ref);
  const known = new Set(rows.map(({ ref }) => ref));
  const lockedOf = (ref: string): LockedRef => {
    const player = players.get(ref);
    if (player) return { player };
    const isHeld = work.isShared && known.has(ref);
    return { error: isHeld ? new Apart("ALONE", "others hold its player") : unknownPlayer(ref) };
  };
  return new Map(asked.map((ref) => [ref, lockedOf(ref)]));
};

type MaybeRow = FoundRow | { id: null; ref: string; merged_into: null };

const lockAll = async ({ db }: Work, projectId: string, refs: readonly string[]): Promise<MaybeRow[]> => {
  const found = await kept(
    db,
    sql<FoundRow>`
    with ${namedBy(projectId, refs)}
    select ${COLUMNS}, s.ref from s join players t on t.project_id = ${projectId} and t.id = s.id
    order by t.project_id, t.id for update of t`,
  );
  return found.rows;
};

const lockFree = async ({ db }: Work, projectId: string, refs: readonly string[]): Promise<MaybeRow[]> => {
  const found = await kept(
    db,
    sql<MaybeRow>`
    with ${namedBy(projectId, refs)},
    k as materialized (
      select ${COLUMNS}, s.ref as asked from s join players t on t.project_id = ${projectId} and t.id = s.id
      order by t.project_id, t.id for update of t skip locked)
    select k.*, s.ref from s left join k on k.asked = s.ref`,
  );
  return found.rows;
};
