import { type RawBuilder, sql } from "kysely";
import type { ProjectPlan } from "../evaluation/project-plan.ts";
import { NIL_ID } from "../kernel/ids.ts";
import type { Work } from "../kernel/work.ts";
import { planOf } from "./locked-plan.ts";

/** Rows looked at in one transaction. */
export const ENDS_PAGE = 1_000;
/** Maximum number of definitions that one sweep follows. */
const DEFINITIONS_MAX = 1_000;

/**
 * When what players do of a definition, and what waits to be claimed, is over, in ms; Infinity for never.
 * `kept`: versions by which players may go on; who has another adopts the current one.
 */
export type Ends = { openMs: number; claimMs: number; kept: readonly number[] };

/** Players of a page whose rows may be due too late, and the place after it; undefined behind the last. */
export type EndsPage = { playerIds: readonly string[]; after: string | undefined };

/** What of a definition's players falls due with its end: rows of `table`, at `due_at`. */
export type EndingRows = {
  kind: "quest" | "adventure";
  /** Returns when a definition ends; undefined for one that is archived. */
  endsOf(plan: ProjectPlan, key: string): Ends | undefined;
  readPage(work: Work, of: { projectId: string; key: string; after: string; ends: Ends }): Promise<EndsPage>;
  /** Updates rows of locked players that are due later than `ends`, or are to adopt another version now. */
  moveDue(
    work: Work,
    of: { projectId: string; key: string; playerIds: readonly string[]; ends: Ends },
  ): Promise<void>;
};

/** A moment as timestamptz. */
export const endAt = (ms: number): RawBuilder<unknown> =>
  sql`${Number.isFinite(ms) ? new Date(ms).toISOString() : "infinity"}::timestamptz`;

/** As stored: null stands for never, and `after` for the place of a walk through the rows. */
type StoredEnds = { openMs: number | null; claimMs: number | null; kept?: readonly number[]; after?: string };

const storedOf = ({ openMs, claimMs, kept }: Ends): StoredEnds => ({
  kept,
  openMs: Number.isFinite(openMs) ? openMs : null,
  claimMs: Number.isFinite(claimMs) ? claimMs : null,
});

/** Whether everything that was due by earlier ends is due in time by these, and nobody has to go on by others. */
const isNoSooner = (ends: Ends, before: StoredEnds): boolean =>
  before.kept?.every((version) => ends.kept.includes(version)) === true &&
  ends.openMs >= (before.openMs ?? Infinity) &&
  ends.claimMs >= (before.claimMs ?? Infinity);

const changed = ({ kind }: EndingRows): RawBuilder<unknown> =>
  sql`from definitions where ends_changed and kind = ${sql.lit(kind)}`;

/** Whether the version of a row `s` is one that `ends` does not keep. */
export const isOtherVersion = (column: string, { kept }: Ends): RawBuilder<unknown> =>
  sql`s.${sql.ref(column)} <> all(${`{${kept.join(",")}}`}::int[])`;

/** Whether the end of a definition of the kind may have been moved. */
export const areEndsMoved = (rows: EndingRows): RawBuilder<unknown> => sql`exists (select ${changed(rows)})`;

/** Selects as `due_at` a time that has passed for each definition of a project whose end may have moved. */
export const movedEndsOf = (rows: EndingRows, projectId: string): RawBuilder<unknown> =>
  sql`select 'epoch'::timestamptz as due_at ${changed(rows)} and project_id = ${projectId}::uuid`;

export type MovedEnd = { projectId: string; id: string };

/** Returns definitions whose ends may have been moved, of all projects or one. */
export const movedEnds = async ({ db }: Work, rows: EndingRows, projectId?: string): Promise<MovedEnd[]> => {
  const within = projectId === undefined ? sql`` : sql`and project_id = ${projectId}::uuid`;
  const found = await sql<MovedEnd>`
    select project_id as "projectId", id ${changed(rows)} ${within}
    order by updated_at, id limit ${DEFINITIONS_MAX}`.execute(db);
  return found.rows;
};

type Row = { key: string; ends: StoredEnds | null };

const store = async ({ db }: Work, { id }: MovedEnd, ends: StoredEnds | null): Promise<void> => {
  await sql`
    update definitions set ends = ${JSON.stringify(ends)}::jsonb,
      ends_changed = ${ends?.after !== undefined}::boolean
    where id = ${id}::uuid`.execute(db);
};

/** Locks players in the order of batches: a batch that has them may be about to write their rows. */
const lockPlayers = async ({ db }: Work, projectId: string, playerIds: readonly string[]): Promise<void> => {
  await sql`
    select 1 from players
    where project_id = ${projectId}::uuid and id = any(${`{${playerIds.join(",")}}`}::uuid[])
    order by id for update`.execute(db);
};

/**
 * Makes due by the end of a definition what was to be due after it, and now what is to adopt its version, a
 * page of its players: the sweep of what is due then settles them. The place is stored in the same transaction. An end that was put off needs
 * nothing: what is due too early is given its new time then.
 * @returns whether there is more to do; BUSY where another worker does it
 */
export const followEnd = async (
  work: Work,
  rows: EndingRows,
  moved: MovedEnd,
): Promise<"MORE" | "DONE" | "BUSY"> => {
  const { projectId, id } = moved;
  // No end moves meanwhile, and batches evaluate by the new one.
  const plan = await planOf(work, projectId);
  const found = await sql<Row>`
    select key, ends from definitions where id = ${id}::uuid and ends_changed
    for update skip locked`.execute(work.db);
  const row = found.rows[0];
  if (!row) return "BUSY";
  const { key, ends: before } = row;
  const ends = rows.endsOf(plan, key);
  if (!ends) {
    await store(work, moved, null);
    return "DONE";
  }
  const isBehind = before !== null && isNoSooner(ends, before);
  if (isBehind && before.after === undefined) {
    await store(work, moved, storedOf(ends));
    return "DONE";
  }
  const page = await rows.readPage(work, {
    projectId,
    key,
    after: isBehind ? before.after! : NIL_ID,
    ends,
  });
  if (page.playerIds.length > 0) {
    await lockPlayers(work, projectId, page.playerIds);
    await rows.moveDue(work, { projectId, key, playerIds: page.playerIds, ends });
  }
  const { after } = page;
  await store(work, moved, { ...storedOf(ends), ...(after === undefined ? {} : { after }) });
  return after === undefined ? "DONE" : "MORE";
};
