import { type RawBuilder, sql } from "kysely";
import type {
  BalanceState,
  BoostState,
  HoldingName,
  LotState,
  PlayerDoc,
  PlayerState,
  StreakState,
} from "../../evaluation/player-state.ts";
import type { ProjectPlan } from "../../evaluation/project-plan.ts";

/** A row selected by a part's `load`: the place of its player, -1 for none, the key within it, and the value. */
export type LoadedRow = { k: string; n: number; ref: string | null; r: unknown };

/**
 * A kind of state that players have besides their row. All parts are loaded by one statement and saved by one
 * statement; to add a part, add a file here and a line in `player-parts.ts`.
 */
export type PlayerPart = {
  /** Marks its rows in the load statement. */
  tag: string;
  /** Returns whether evaluation under this plan may touch it, so that it must be loaded. */
  isNeeded(plan: ProjectPlan): boolean;
  /**
   * Selects `k` (the tag), `n`, `ref` (text) and `r` (json) for the players of `r(n, i, p)`.
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

/** More than a player has of most kinds, archived definitions included: it keeps the planner from a scan. */
const HELD_MAX = 1_000;

/**
 * Selects the rows of one player from a table with the key (project_id, player_id, …).
 * @param rest ends the selection, with its own limit; what is beyond it is not loaded
 */
export const rowsOfPlayer = (
  table: string,
  columns: string,
  rest = `limit ${HELD_MAX}`,
): RawBuilder<unknown> =>
  sql.raw(`from r cross join lateral (
    select ${columns} from ${table} s where s.project_id = r.p and s.player_id = r.i ${rest}) s`);

/** Project, player and key. */
type Place = { p: string; i: string; k: string };

/** Returns the players' changed entries of one kind, each with its place. */
export const changesOf = <V>(
  players: readonly PlayerState[],
  name: HoldingName,
): { place: Place; value: V | undefined }[] =>
  players.flatMap(({ projectId: p, id: i, dirty, [name]: held }) =>
    [...dirty[name]].map((k) => ({
      place: { p, i, k },
      value: (held as ReadonlyMap<string, unknown>).get(k) as V | undefined,
    })),
  );

/** The ms of a timestamptz(3), as a number of JSON: `extract` computes decimals, at four times the cost. */
export const msOf = (column: string): RawBuilder<unknown> => sql.raw(msText(column));
const msText = (column: string): string => `round(date_part('epoch', ${column}) * 1000)`;

/** Converts epoch ms in JSON to timestamptz; null stays null. */
export const at = (column: string): RawBuilder<unknown> => sql.raw(atText(column));
const atText = (column: string): string => `to_timestamp(${column} / 1000.0)`;

/** Stands in texts of SQL for the time of the transaction. */
const NOW = "$now";

/** SQL whose text is put together once: building it anew for each statement took 4 % of a score's CPU. */
const textWithNow = (text: string): ((now: RawBuilder<unknown>) => RawBuilder<unknown>) => {
  const pieces = text.split(NOW).map((piece) => sql.raw(piece));
  return (now) => sql.join(pieces, now);
};

/** A column, the type of its JSON value, and the name of that. */
type Column = { column: string; type: string; name: string };

/** @param columns `column type name`, the name where it is not the column in camel case */
const columnsOf = (columns: string): Column[] =>
  columns.split(",").map((text) => {
    const [column, type, name] = text.trim().split(/\s+/) as [string, string, string?];
    const camel = column.replaceAll(/_(.)/g, (_, letter: string) => letter.toUpperCase());
    return { column, type, name: name ?? camel };
  });

const recordOf = (columns: readonly Column[]): string =>
  columns
    .filter(({ type }) => type !== "now")
    .map(({ name, type }) => `"${name}" ${type === "ms" || type === "due" ? "float8" : type}`)
    .join(", ");

/**
 * Reads rows `s` of a table: as arrays, which have no names to be sent.
 * @param columns see `columnsOf`
 */
export const loadedBy = <R extends object>(columns: string) => {
  const all = columnsOf(columns);
  const values = all.map(({ column, type }) =>
    type === "ms" || type === "due" ? msText(`s.${column}`) : `s.${column}`,
  );
  return {
    json: sql.raw(`json_build_array(${values.join(", ")})`),
    rowOf: (value: unknown): R => {
      const row: Record<string, unknown> = {};
      // Takes a quarter of the time of Object.fromEntries.
      for (let i = 0; i < all.length; i++) row[all[i]!.name] = (value as readonly unknown[])[i];
      return row as R;
    },
  };
};

/**
 * How long a row that is over when it is written stays open to further events of its time, from its last
 * change, in s: as in an import of past events, or with a client that was offline.
 */
const LATE_SECONDS = 3_600;

const DUE = `case when ${atText('x."dueMs"')} > ${NOW} then ${atText('x."dueMs"')}
    when x."dueMs" is not null then ${NOW} + interval '${LATE_SECONDS} s' end`;

/** When a row `x` is looked at: at its end, `dueMs`, or some time after this write if that is past. */
export const dueAt = textWithNow(DUE);

/** The value of a column as it is written. */
const writtenOf = ({ name, type }: Column): string => {
  if (type === "now") return NOW;
  if (type === "due") return DUE;
  return type === "ms" ? atText(`x."${name}"`) : `"${name}"`;
};

type Upsert = {
  /** The columns of the key; without it all rows are new. */
  key?: string;
  /** What a known row takes over, by default all columns but those of the key; and of which rows. */
  set?: string;
  where?: string;
  json?: "json" | "jsonb";
};

/**
 * Inserts rows of JSON into a table, or updates those that are there.
 * @param columns see `columnsOf`. Type `ms`: a time in ms; `now`: the time of the transaction; `due`: see
 * `dueAt`
 */
export const insertInto = (
  table: string,
  columns: string,
  { key, set, where, json = "json" }: Upsert = {},
): Arm["write"] => {
  const all = columnsOf(columns);
  const names = all.map(({ column }) => column);
  const taken = set?.split(", ") ?? names.filter((name) => !key?.split(", ").includes(name));
  const update = taken.map((name) => `${name} = excluded.${name}`).join(", ");
  const conflict = key ? `on conflict (${key}) do update set ${update}` : "";
  const head = textWithNow(`insert into ${table} (${names.join(", ")})
    select ${all.map(writtenOf).join(", ")} from ${json}_to_recordset(`);
  const tail = sql.raw(
    `::${json}) as x(${recordOf(all)}) ${where ? `${conflict} where ${where}` : conflict}`,
  );
  return (rows, now) => sql`${head(now)}${rows}${tail}`;
};

/** Deletes the rows of a table with these columns. */
export const deleteFrom = (table: string, columns: string): Arm["write"] => {
  const all = columnsOf(columns);
  const isIt = all.map(({ column, name }) => `t.${column} = x."${name}"`).join(" and ");
  const [head, record] = [sql.raw(`delete from ${table} t`), sql.raw(`x(${recordOf(all)}) where ${isIt}`)];
  return (rows) => sql`${head} using json_to_recordset(${rows}::json) as ${record}`;
};

type HeldRows<V, R> = Pick<PlayerPart, "tag" | "isNeeded"> & {
  name: HoldingName;
  table: string;
  /** The column that has the key of a holding. */
  key: string;
  /** The other columns, as `columnsOf` has them, and those that are written beside them. */
  columns: string;
  written?: string;
  /** As of `rowsOfPlayer`. */
  rest?: string;
  /** Makes the holding of a row as it was read. */
  holdingOf?: (row: R) => V;
  /** Makes the row that is written; undefined for none. */
  rowOf?: (holding: V, place: Place) => object | undefined;
};

/** A part of which each holding is a row of a table. */
export const heldRows = <V extends object, R extends object = V>({
  tag,
  isNeeded,
  name,
  table,
  key,
  columns,
  written = columns,
  rest,
  holdingOf = (row) => row as unknown as V,
  rowOf = (holding, place) => ({ ...place, ...holding }),
}: HeldRows<V, R>): PlayerPart => {
  const loaded = loadedBy<R>(columns);
  const keyColumn = sql.ref(`s.${key}`);
  const select = sql`select ${sql.lit(tag)}, r.n, ${keyColumn}, ${loaded.json} ${rowsOfPlayer(table, "*", rest)}`;
  const write = insertInto(
    table,
    `project_id uuid p, player_id uuid i, ${key} text k, ${written}, updated_at now`,
    { key: `project_id, player_id, ${key}` },
  );
  return {
    tag,
    isNeeded,
    load: () => select,
    read: (player, of, value) =>
      void (player[name] as Map<string, unknown>).set(of, holdingOf(loaded.rowOf(value))),
    arms: (players) => {
      const rows: object[] = [];
      for (const { place, value } of changesOf<V>(players, name)) {
        const row = value && rowOf(value, place);
        if (row) rows.push(row);
      }
      return [{ name: tag, rows, write }];
    },
  };
};

/** Currency balances. */
export const balances = heldRows<BalanceState>({
  tag: "b",
  isNeeded: ({ currencies }) => currencies.size > 0,
  name: "balances",
  table: "player_balances",
  key: "currency_key",
  columns: "balance bigint, held bigint, earned bigint, spent bigint",
});

const isLater = (a: LotState, b: LotState): boolean =>
  a.expiresMs > b.expiresMs || (a.expiresMs === b.expiresMs && a.id > b.id);

/** Inserts a lot in order; lots mostly arrive in order, so it is usually the last. */
const insertLot = (lots: LotState[], lot: LotState): void => {
  let place = lots.length;
  while (place > 0 && isLater(lots[place - 1]!, lot)) place--;
  lots.splice(place, 0, lot);
};

/**
 * The sum of lots expired by a moment, as one read-only lot for each currency. It suffices to show a balance.
 */
export const dueLots = (now: Date): PlayerPart => ({
  tag: "o",
  isNeeded: ({ currencies }) => currencies.size > 0,
  load: () => sql`
    select 'o', r.n, s.currency_key, to_json(s.due)
    from r cross join lateral (
      select currency_key, sum(remaining) as due from currency_lots s
      where s.project_id = r.p and s.player_id = r.i and s.expires_at <= ${now.toISOString()}::timestamptz
      group by currency_key) s`,
  read: (player, key, due) =>
    void player.lots.set(key, [{ id: "", remaining: Number(due), expiresMs: now.getTime() }]),
  arms: () => [],
});

const LOT = "id uuid, remaining bigint, expires_at ms expiresMs";
const lotRows = loadedBy<LotState>(LOT);
const deleteLots = deleteFrom("currency_lots", "project_id uuid p, player_id uuid i, id uuid");
const insertLots = insertInto(
  "currency_lots",
  `project_id uuid p, player_id uuid i, currency_key text k, ${LOT}`,
  { key: "project_id, player_id, id", set: "remaining" },
);

/** Lots of expiring gains. A lot that is used up is deleted. */
export const lots: PlayerPart = {
  tag: "o",
  // A single gain may expire even if the currency's gains do not by default.
  isNeeded: ({ currencies }) => currencies.size > 0,
  load: () => sql`
    select 'o', r.n, s.currency_key, ${lotRows.json}
    ${rowsOfPlayer("currency_lots", "id, currency_key, remaining, expires_at", "order by expires_at, id")}`,
  read: (player, key, value) => {
    const known = player.lots.get(key) as LotState[] | undefined;
    if (known) insertLot(known, lotRows.rowOf(value));
    else player.lots.set(key, [lotRows.rowOf(value)]);
  },
  arms: (players) => {
    const rows = changesOf<readonly LotState[]>(players, "lots").flatMap(({ place, value = [] }) =>
      value.filter(({ isChanged }) => isChanged === true).map((lot) => ({ ...place, ...lot })),
    );
    return [
      { name: "og", rows: rows.filter(({ remaining }) => remaining === 0), write: deleteLots },
      { name: "o", rows: rows.filter(({ remaining }) => remaining > 0), write: insertLots },
    ];
  },
};

const BOOST = `id uuid, boost_key text, applies text, factor float8, stacking text, starts_at ms startsMs,
  expires_at ms expiresMs, uses_left int, cause jsonb`;
const boostRows = loadedBy<BoostState>(BOOST);
const deleteBoosts = deleteFrom("player_boosts", "project_id uuid p, player_id uuid i, id uuid k");
const insertBoosts = insertInto("player_boosts", `project_id uuid p, player_id uuid i, ${BOOST}`, {
  key: "project_id, player_id, id",
  set: "factor, starts_at, expires_at, uses_left",
});

/** Boosts of a single player. Expired ones are deleted. */
export const boosts: PlayerPart = {
  tag: "f",
  isNeeded: () => true,
  load: () => sql`select 'f', r.n, s.id::text, ${boostRows.json} ${rowsOfPlayer("player_boosts", "*")}`,
  read: (player, id, value) => void player.boosts.set(id, boostRows.rowOf(value)),
  arms: (players) => {
    const changed = changesOf<BoostState>(players, "boosts");
    return [
      {
        name: "fg",
        rows: changed.flatMap(({ place, value }) => (value === undefined ? [place] : [])),
        write: deleteBoosts,
      },
      {
        name: "f",
        rows: changed.flatMap(({ place, value }) => (value === undefined ? [] : [{ ...place, ...value }])),
        write: insertBoosts,
      },
    ];
  },
};

/**
 * Counters and limit state. The documents and their sizes are selected as part of `r`; see load-states.ts.
 */
export const docPart: PlayerPart = {
  tag: "d",
  isNeeded: () => true,
  load: () => sql`select 'd', r.n, r.bytes::text, r.doc::json from r where r.doc is not null`,
  read: (player, bytes, value) => {
    player.doc = value as PlayerDoc;
    player.docSize = { bytes: Number(bytes), isExact: false, isPruned: false };
  },
  arms: (players) => [
    {
      name: "d",
      rows: players.filter(({ dirty }) => dirty.doc).map((t) => ({ p: t.projectId, i: t.id, d: t.doc })),
      write: (rows) => sql`
        insert into player_states (project_id, player_id, doc, bytes)
        select p, i, d::jsonb, octet_length(d::text)
        from json_to_recordset(${rows}::json) as x(p uuid, i uuid, d json)
        on conflict (project_id, player_id) do update set doc = excluded.doc, bytes = excluded.bytes`,
    },
  ],
};

const deleteSegments = deleteFrom(
  "player_segments",
  "project_id uuid p, player_id uuid i, segment_key text k",
);
const insertSegments = insertInto(
  "player_segments",
  "project_id uuid p, player_id uuid i, segment_key text k, entered_at ms x",
  {
    key: "project_id, player_id, segment_key",
    where: "player_segments.entered_at <> excluded.entered_at",
  },
);

/** Segment memberships. */
export const segments: PlayerPart = {
  tag: "x",
  isNeeded: (plan) => plan.segments.size > 0,
  load: () => sql`
    select 'x', r.n, s.segment_key, to_json(${msOf("s.entered_at")})
    ${rowsOfPlayer("player_segments", "segment_key, entered_at")}`,
  read: (player, key, value) => void player.segments.set(key, Number(value)),
  arms: (players) => {
    const changed = changesOf<number>(players, "segments").map(({ place, value: x }) => ({ ...place, x }));
    return [
      { name: "xg", rows: changed.filter(({ x }) => x === undefined), write: deleteSegments },
      { name: "x", rows: changed.filter(({ x }) => x !== undefined), write: insertSegments },
    ];
  },
};

const STREAK = "current int, longest int, freezes int, deadline_at ms deadlineMs, doc jsonb";
/** Streaks of a player. `due_at` is when the sweeper must look at it (economy/streaks/player-streaks.ts). */
export const streaks = heldRows<StreakState>({
  tag: "s",
  isNeeded: (plan) => plan.streaks.size > 0,
  name: "streaks",
  table: "player_streaks",
  key: "streak_key",
  columns: STREAK,
  written: `${STREAK}, due_at ms dueMs`,
  rowOf: (streak, place) => ({ ...place, ...streak, dueMs: streak.doc["dueMs"] ?? null }),
});
