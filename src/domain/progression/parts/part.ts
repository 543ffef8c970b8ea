import { type RawBuilder, sql } from "kysely";
import type { HeldName, PlayerState } from "../../evaluation/player-state.ts";
import type { ProjectPlan } from "../../evaluation/project-plan.ts";

/** A row that a part's `load` answers: whose, which of its things, and the thing. */
export type LoadedRow = { k: string; project_id: string; player_id: string; ref: string | null; r: unknown };

/**
 * A kind of thing that players have beside their row. All parts are loaded by one statement and saved by one
 * statement; add a part by a file beside this one and a line in `parts.ts`.
 */
export type PlayerPart = {
  /** Marks its rows in the load statement. */
  tag: string;
  /** Whether evaluation under this plan may touch it; then it is loaded. */
  isNeeded(plan: ProjectPlan): boolean;
  /**
   * Selects `k` (the tag), project_id, player_id, `ref` (text) and `r` (jsonb) for the players of `r(i, p)`.
   * By primary key, with a lateral join and a limit: the planner must not read the table.
   */
  load(plans: readonly ProjectPlan[], players: readonly PlayerState[]): RawBuilder<unknown>;
  read(player: PlayerState, ref: string, value: unknown): void;
  /** What has changed, to be written. */
  arms(players: readonly PlayerState[]): Arm[];
};

/** One data-modifying member of the save statement; one without rows is left out. */
export type Arm = {
  name: string;
  rows: readonly unknown[];
  /** `rows`: the rows as a JSON parameter; `now`: the time of the transaction. */
  write(rows: RawBuilder<unknown>, now: RawBuilder<unknown>): RawBuilder<unknown>;
};

/** The rows of one player of a part whose table has the key (project_id, player_id, …). */
export const rowsOfPlayer = (table: string, columns: string): RawBuilder<unknown> => sql`
  from r cross join lateral (
    select ${sql.raw(columns)} from ${sql.raw(table)} s
    where s.project_id = r.p and s.player_id = r.i limit 1000) s`;

/** The players' changed things of one kind, each with its player. */
export const changesOf = <V>(
  players: readonly PlayerState[],
  name: HeldName,
): { player: PlayerState; key: string; value: V | undefined }[] =>
  players.flatMap((player) =>
    [...player.dirty[name]].map((key) => ({
      player,
      key,
      value: (player[name] as ReadonlyMap<string, unknown>).get(key) as V | undefined,
    })),
  );

/** A moment of JSON in ms as a timestamptz; null stays null. */
export const at = (column: string): RawBuilder<unknown> => sql.raw(`to_timestamp(${column} / 1000.0)`);
