import { type RawBuilder, sql } from "kysely";
import type { HoldingName, PlayerState } from "../../evaluation/player-state.ts";
import type { ProjectPlan } from "../../evaluation/project-plan.ts";

/** A row selected by a part's `load`: the player, the key within the part, and the value. */
export type LoadedRow = { k: string; project_id: string; player_id: string; ref: string | null; r: unknown };

/**
 * A kind of state that players have besides their row. All parts are loaded by one statement and saved by one
 * statement; to add a part, add a file here and a line in `parts.ts`.
 */
export type PlayerPart = {
  /** Marks its rows in the load statement. */
  tag: string;
  /** Returns whether evaluation under this plan may touch it, so that it must be loaded. */
  isNeeded(plan: ProjectPlan): boolean;
  /**
   * Selects `k` (the tag), project_id, player_id, `ref` (text) and `r` (json) for the players of `r(i, p)`.
   * By primary key, with a lateral join and a limit: the planner must not scan the table.
   */
  load(plans: readonly ProjectPlan[], players: readonly PlayerState[]): RawBuilder<unknown>;
  read(player: PlayerState, ref: string, value: unknown): void;
  /** Returns the arms that write its changes. */
  arms(players: readonly PlayerState[]): Arm[];
};

/** What one statement loads: a part, or rows that are read along with parts. */
export type Loadable = Pick<PlayerPart, "tag" | "load" | "read">;

/** Rows that are read along with the parts of one player; `select` selects what `load` of a part does. */
export const alongside = (
  tag: string,
  select: RawBuilder<unknown>,
  read: (ref: string, value: unknown) => void,
): Loadable => ({ tag, load: () => select, read: (_player, ref, value) => read(ref, value) });

/** One data-modifying arm of the save statement; an arm without rows is left out. */
export type Arm = {
  name: string;
  rows: readonly unknown[];
  /** `rows`: the rows as a JSON parameter; `now`: the time of the transaction. */
  write(rows: RawBuilder<unknown>, now: RawBuilder<unknown>): RawBuilder<unknown>;
};

/** Selects the rows of one player from a table with the key (project_id, player_id, …). */
export const rowsOfPlayer = (table: string, columns: string): RawBuilder<unknown> => sql`
  from r cross join lateral (
    select ${sql.raw(columns)} from ${sql.raw(table)} s
    where s.project_id = r.p and s.player_id = r.i limit 1000) s`;

/** Returns the players' changed entries of one kind, each with its player. */
export const changesOf = <V>(
  players: readonly PlayerState[],
  name: HoldingName,
): { player: PlayerState; key: string; value: V | undefined }[] =>
  players.flatMap((player) =>
    [...player.dirty[name]].map((key) => ({
      player,
      key,
      value: (player[name] as ReadonlyMap<string, unknown>).get(key) as V | undefined,
    })),
  );

/** The ms of a timestamptz(3), as a number of JSON: `extract` computes decimals, at four times the cost. */
export const msOf = (column: string): RawBuilder<unknown> =>
  sql.raw(`round(date_part('epoch', ${column}) * 1000)`);

/** Converts epoch ms in JSON to timestamptz; null stays null. */
export const at = (column: string): RawBuilder<unknown> => sql.raw(`to_timestamp(${column} / 1000.0)`);
