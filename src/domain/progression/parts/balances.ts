import { sql } from "kysely";
import type { BalanceState, LotState } from "../../evaluation/player-state.ts";
import { at, changesOf, msOf, type PlayerPart, rowsOfPlayer } from "./part.ts";

/** Currency balances. */
export const balances: PlayerPart = {
  tag: "b",
  isNeeded: ({ currencies }) => currencies.size > 0,
  load: () => sql`
    select 'b', r.p, r.i, s.currency_key, json_build_array(s.balance, s.held, s.earned, s.spent)
    ${rowsOfPlayer("player_balances", "currency_key, balance, held, earned, spent")}`,
  read: (player, key, value) => {
    const [balance, held, earned, spent] = value as [number, number, number, number];
    player.balances.set(key, { balance, held, earned, spent });
  },
  arms: (players) => [
    {
      name: "b",
      rows: changesOf<BalanceState>(players, "balances").map(({ player, key, value }) => {
        const { balance, held, earned, spent } = value!;
        return { p: player.projectId, i: player.id, k: key, b: balance, h: held, e: earned, s: spent };
      }),
      write: (rows, now) => sql`
        insert into player_balances
          (project_id, player_id, currency_key, balance, held, earned, spent, updated_at)
        select p, i, k, b, h, e, s, ${now} from json_to_recordset(${rows}::json) as x(
          p uuid, i uuid, k text, b bigint, h bigint, e bigint, s bigint)
        on conflict (project_id, player_id, currency_key) do update set balance = excluded.balance,
          held = excluded.held, earned = excluded.earned, spent = excluded.spent,
          updated_at = excluded.updated_at`,
    },
  ],
};

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
    select 'o', r.p, r.i, s.currency_key, to_json(s.due)
    from r cross join lateral (
      select currency_key, sum(remaining) as due from currency_lots s
      where s.project_id = r.p and s.player_id = r.i and s.expires_at <= ${now.toISOString()}::timestamptz
      group by currency_key) s`,
  read: (player, key, due) =>
    void player.lots.set(key, [{ id: "", remaining: Number(due), expiresMs: now.getTime() }]),
  arms: () => [],
});

/** Lots of expiring gains. A lot that is used up is deleted. */
export const lots: PlayerPart = {
  tag: "o",
  // A single gain may expire even if the currency's gains do not by default.
  isNeeded: ({ currencies }) => currencies.size > 0,
  load: () => sql`
    select 'o', r.p, r.i, s.currency_key,
      json_build_array(s.id, s.remaining, ${msOf("s.expires_at")})
    from r cross join lateral (
      select id, currency_key, remaining, expires_at from currency_lots s
      where s.project_id = r.p and s.player_id = r.i order by expires_at, id) s`,
  read: (player, key, value) => {
    const [id, remaining, expiresMs] = value as [string, number, number];
    const known = player.lots.get(key) as LotState[] | undefined;
    if (known) insertLot(known, { id, remaining, expiresMs });
    else player.lots.set(key, [{ id, remaining, expiresMs }]);
  },
  arms: (players) => {
    const rows = changesOf<readonly LotState[]>(players, "lots").flatMap(({ player, key, value = [] }) =>
      value
        .filter(({ isChanged }) => isChanged === true)
        .map(({ id, remaining, expiresMs }) => ({
          p: player.projectId,
          i: player.id,
          k: key,
          id,
          r: remaining,
          x: expiresMs,
        })),
    );
    return [
      {
        name: "og",
        rows: rows.filter(({ r }) => r === 0),
        write: (given) => sql`
          delete from currency_lots t using json_to_recordset(${given}::json) as x(p uuid, i uuid, id uuid)
          where t.project_id = x.p and t.player_id = x.i and t.id = x.id`,
      },
      {
        name: "o",
        rows: rows.filter(({ r }) => r > 0),
        write: (given) => sql`
          insert into currency_lots (project_id, player_id, id, currency_key, remaining, expires_at)
          select p, i, id, k, r, ${at("x.x")} from json_to_recordset(${given}::json) as x(
            p uuid, i uuid, k text, id uuid, r bigint, x float8)
          on conflict (project_id, player_id, id) do update set remaining = excluded.remaining`,
      },
    ];
  },
};
