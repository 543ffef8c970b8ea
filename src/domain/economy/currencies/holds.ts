import { sql } from "kysely";
import { z } from "zod";
import { type LedgerEntryView, showEntry } from "../ledger/entries.ts";
import {
  adjustCurrency,
  availableOf,
  type BalanceContext,
  balanceNow,
  type CurrencyChanged,
  expireLots,
  spend,
  touch,
  untouched,
} from "../../evaluation/currencies/adjust.ts";
import { checkActive } from "../../evaluation/player-state.ts";
import type { PlanTurn, ProjectPlan } from "../../evaluation/project-plan.ts";
import type { Turn } from "../../evaluation/turn.ts";
import { conflict, invalid, notFound } from "../../kernel/errors.ts";
import type { Cause } from "../../kernel/events/events.ts";
import { isId, newId } from "../../kernel/ids.ts";
import { type RowOf, shownRow } from "../../kernel/json.ts";
import { type Outcome, together } from "../../kernel/together.ts";
import type { Work } from "../../kernel/work.ts";
import type { Player } from "../../players/player.ts";
import { changePlayer, lockPlayerRow, type PlayerKey } from "../../progression/change.ts";
import { loadStates } from "../../progression/load-states.ts";
import { balances, lots } from "../../progression/parts/part.ts";
import { projectPlans, readPlan } from "../../progression/plan.ts";
import { stateOfPlayer } from "../../progression/load.ts";

/** Maximum number of lots shown with a balance. */
const EXPIRING_MAX = 10;

/** Maximum number of open lots of one player and currency that grants with their own expiry may create. */
export const LOTS_MAX = 1_000;

/** A balance as the API shows it, as of now. */
export const Balance = z
  .object({
    currencyKey: z.string(),
    balance: z.int(),
    available: z.int().meta({ description: "balance - held" }),
    held: z.int(),
    lifetimeEarned: z.int(),
    lifetimeSpent: z.int(),
    expiring: z
      .array(z.object({ amount: z.int(), at: z.iso.datetime() }))
      .meta({ description: "The next lots to expire, up to 10" }),
  })
  .meta({ id: "Balance" });
type BalanceView = z.output<typeof Balance>;

/** Returns a player's balance. @throws Error for a currency that is neither the project's nor the player's */
const showBalance = (purse: BalanceContext, currencyKey: string): BalanceView => {
  const state = balanceNow(purse, currencyKey);
  if (!state) throw new Error(`there is no currency ${currencyKey}`);
  const { balance, held, earned, spent } = state;
  const expiring = (purse.player.lots.get(currencyKey) ?? [])
    .filter(({ remaining, expiresMs }) => remaining > 0 && expiresMs > purse.nowMs)
    .slice(0, EXPIRING_MAX)
    .map(({ remaining, expiresMs }) => ({ amount: remaining, at: new Date(expiresMs).toISOString() }));
  const available = availableOf(state);
  return { currencyKey, balance, available, held, lifetimeEarned: earned, lifetimeSpent: spent, expiring };
};

/** Lists balances of all currencies of the project, and of archived ones that the player has had, by key. */
export const listBalances = async (work: Work, player: Player): Promise<BalanceView[]> => {
  const project = await readPlan(work, player.projectId, projectPlans);
  const state = stateOfPlayer(player);
  await loadStates(work, [state], [project], [balances, lots]);
  return balancesOf({ player: state, project, nowMs: work.now.getTime() });
};

/** As `listBalances`, for a player whose balances and lots are loaded. */
export const balancesOf = (purse: BalanceContext & { project: ProjectPlan }): BalanceView[] => {
  const { project, player: state } = purse;
  const keys = new Set([...project.currencies.keys(), ...state.balances.keys()]);
  return [...keys].toSorted().map((key) => showBalance(purse, key));
};

export type BalanceChange = {
  currencyKey: string;
  /** Signed: above 0 it is a grant, below 0 spending. */
  amount: number;
  reason: string;
  reference?: string | undefined;
  expiresAt?: Date | undefined;
  cause: Cause;
};

/**
 * Grants or spends by REST: a grant up to the currency's limit, spending in full or not at all.
 * @throws DomainError NOT_FOUND for an unknown currency; CONFLICT: INSUFFICIENT_FUNDS, BALANCE_LIMIT,
 * LOT_LIMIT, REFERENCE_USED, PLAYER_INACTIVE
 */
export const changeBalance = async (
  work: Work,
  player: PlayerKey,
  { expiresAt, reference, ...change }: BalanceChange,
): Promise<{ balance: BalanceView; ledgerEntry: LedgerEntryView }> => {
  const shown = (turn: PlanTurn, key: string) => {
    if (change.amount > 0) checkActive(turn.player);
    if (expiresAt) checkLots(turn, change.currencyKey, expiresAt.getTime());
    const more = {
      ...(reference === undefined ? {} : { reference }),
      ...(expiresAt ? { expiresMs: expiresAt.getTime() } : {}),
    };
    const entry = entryOf(adjustCurrency(turn, { ...change, ...more, key }), change);
    // Read last: rules triggered by the change may have changed the balance further.
    return () => ({ balance: showBalance(turn, change.currencyKey), entry });
  };
  const { value } = await changePlayer(work, player, shown, { reference });
  return { balance: value.balance, ledgerEntry: showEntry(value.entry, work.now) };
};

/** A gain with the same expiry as an open lot is added to that lot. */
const checkLots = ({ player, nowMs }: BalanceContext, currencyKey: string, expiresMs: number): void => {
  const open = (player.lots.get(currencyKey) ?? []).filter(
    (lot) => lot.remaining > 0 && lot.expiresMs > nowMs,
  );
  if (open.length >= LOTS_MAX && !open.some((lot) => lot.expiresMs === expiresMs))
    throw conflict("LOT_LIMIT", `a player may have at most ${LOTS_MAX} different expiry times of a currency`);
};

const entryOf = ({ entry, problem }: CurrencyChanged, { currencyKey, amount }: BalanceChange) => {
  if (problem === "UNKNOWN_CURRENCY") throw notFound("currency");
  if (problem === "INSUFFICIENT_FUNDS") throw insufficient(currencyKey, -amount);
  if (!entry)
    throw conflict(
      "BALANCE_LIMIT",
      `the balance would exceed its maximum by a grant of ${amount} ${currencyKey}`,
    );
  return entry;
};

const insufficient = (currencyKey: string, amount: number) =>
  conflict("INSUFFICIENT_FUNDS", `the player does not have ${amount} ${currencyKey} to spend`);

/** Maximum duration of a hold, in seconds. */
export const HOLD_SECONDS_MAX = 86_400;
/** Maximum number of one player's unsettled holds. */
export const HOLDS_MAX = 100;

const HOLD_STATUSES = ["HELD", "CAPTURED", "RELEASED", "EXPIRED"] as const;

/** An amount that is reserved until it is captured (spent), released or expires. */
export const Hold = z
  .object({
    id: z.uuid(),
    currencyKey: z.string(),
    amount: z.int(),
    captured: z.int().nullable().meta({ description: "The captured amount; null until captured" }),
    status: z.enum(HOLD_STATUSES),
    reference: z.string().nullable(),
    expiresAt: z.iso.datetime(),
    createdAt: z.iso.datetime(),
    settledAt: z.iso.datetime().nullable(),
  })
  .meta({ id: "Hold" });
type HoldView = z.output<typeof Hold>;

type Row = RowOf<HoldView> & { playerId: string };

const COLUMNS = sql.raw(
  `id, player_id as "playerId", currency_key as "currencyKey", amount, captured, status, reference,
  expires_at as "expiresAt", created_at as "createdAt", settled_at as "settledAt"`,
);

type NewHold = {
  currencyKey: string;
  amount: number;
  expiresInSeconds: number;
  reference?: string | undefined;
};

/**
 * Reserves an amount: it is no longer available, but still in the balance.
 * @throws DomainError NOT_FOUND for an unknown currency; CONFLICT: INSUFFICIENT_FUNDS, HOLD_LIMIT,
 * REFERENCE_USED
 */
export const holdCurrency = async (
  work: Work,
  asked: PlayerKey,
  { currencyKey, amount, expiresInSeconds, reference }: NewHold,
): Promise<HoldView> => {
  const player = await lockPlayerRow(work, asked);
  if ((await countOpen(work, player)) >= HOLDS_MAX)
    throw conflict("HOLD_LIMIT", `a player may have at most ${HOLDS_MAX} open holds`);
  const set = (turn: Turn) => {
    reserve(turn, currencyKey, amount);
    return () => undefined;
  };
  await changePlayer(work, player, set, { reference });
  const expiresAt = new Date(work.now.getTime() + expiresInSeconds * 1_000).toISOString();
  const row = { h: newId(), p: player.id, k: currencyKey, a: amount, f: reference ?? null, x: expiresAt };
  return insertHold(work, { ...row, projectId: player.projectId });
};

const countOpen = together({
  phase: "READS",
  isWrite: false,
  run: async ({ db }, players: readonly PlayerKey[]) => {
    const found = await sql<{ player_id: string; n: number }>`
      select player_id, count(*) as n from currency_holds
      where project_id = ${players[0]!.projectId} and status = 'HELD'
        and player_id = any(${`{${players.map(({ id }) => id).join(",")}}`}::uuid[])
      group by player_id`.execute(db);
    const counts = new Map(found.rows.map(({ player_id, n }) => [player_id, n]));
    return players.map(({ id }) => ({ value: counts.get(id) ?? 0 }));
  },
});

type NewRow = { projectId: string; h: string; p: string; k: string; a: number; f: string | null; x: string };

type HoldRef = { playerId: string; id: string };

const nameOf = ({ playerId, id }: HoldRef): string => `${playerId} ${id}`;

/**
 * Returns the views of rows in the order of the holds that were asked for. A hold is asked for as its
 * player's: another request may have asked for it as somebody else's.
 */
const viewsOf = (rows: readonly Row[], asked: readonly HoldRef[]): Outcome<HoldView>[] => {
  const found = new Map(
    rows.map(({ playerId, ...row }) => [nameOf({ playerId, id: row.id }), shownRow<HoldView>(row)]),
  );
  return asked.map((ref) => {
    const value = found.get(nameOf(ref));
    return value ? { value } : { error: notFound("hold") };
  });
};

const insertHold = together({
  phase: "WRITES",
  isWrite: true,
  run: async ({ db, now }, rows: readonly NewRow[]) => {
    const made = await sql<Row>`
      insert into currency_holds
        (project_id, player_id, id, currency_key, amount, status, reference, expires_at, created_at)
      select ${rows[0]!.projectId}::uuid, p, h, k, a, 'HELD', f, x, ${now.toISOString()}::timestamptz
      from json_to_recordset(${JSON.stringify(rows)}::json)
        as r(h uuid, p uuid, k text, a bigint, f text, x timestamptz)
      returning ${COLUMNS}`.execute(db);
    return viewsOf(
      made.rows,
      rows.map(({ p, h }) => ({ playerId: p, id: h })),
    );
  },
});

/**
 * Reserves an amount, in memory.
 * @throws DomainError NOT_FOUND for an unknown currency; CONFLICT INSUFFICIENT_FUNDS
 */
export const reserve = (turn: Turn, currencyKey: string, amount: number): void => {
  const currency = turn.project.currencies.get(currencyKey);
  if (!currency) throw notFound("currency");
  expireLots(turn, currencyKey);
  const state = turn.player.balances.get(currencyKey) ?? untouched(currency);
  if (amount > availableOf(state) - currency.minBalance) throw insufficient(currencyKey, amount);
  touch(turn, currency);
  addHeld(turn, currencyKey, amount);
};

const addHeld = ({ player }: Turn, currencyKey: string, amount: number): void => {
  const state = player.balances.get(currencyKey)!;
  player.balances.set(currencyKey, { ...state, held: state.held + amount });
  player.dirty.balances.add(currencyKey);
};

/**
 * Captures a hold, or `amount` of it, and releases the rest; also for an archived currency.
 * @throws DomainError NOT_FOUND; CONFLICT INVALID_STATE when it is settled or has expired; VALIDATION_ERROR
 */
export const captureHold = async (
  work: Work,
  asked: PlayerKey,
  { holdId, amount, cause }: { holdId: string; amount?: number | undefined; cause: Cause },
): Promise<HoldView> => {
  const player = await lockPlayerRow(work, asked);
  const hold = await readOpen(work, player, holdId);
  const captured = amount ?? hold.amount;
  if (captured > hold.amount) throw invalid("amount", `must be at most ${hold.amount}, which is held`);
  await changePlayer(work, player, (turn) => {
    spendHeld(turn, hold, { captured, cause });
    return () => undefined;
  });
  return settleHold(work, { player, id: hold.id, status: "CAPTURED", captured });
};

/** Spends `captured` of a held amount and releases the rest, in memory. */
export const spendHeld = (
  turn: Turn,
  { id, currencyKey, amount, reference }: Pick<HoldView, "id" | "currencyKey" | "amount" | "reference">,
  { captured, cause }: { captured: number; cause: Cause },
): void => {
  addHeld(turn, currencyKey, -amount);
  const what = { currencyKey, amount: captured, cause, key: `hold:${id}`, reason: "hold captured" };
  spend(turn, reference === null ? what : { ...what, reference });
  expireLots(turn, currencyKey);
};

/** Releases a hold. @throws DomainError NOT_FOUND; CONFLICT INVALID_STATE when it is settled */
export const releaseHold = async (work: Work, asked: PlayerKey, holdId: string): Promise<HoldView> => {
  const player = await lockPlayerRow(work, asked);
  const { id, currencyKey, amount } = await readOpen(work, player, holdId);
  await changePlayer(work, player, (turn) => {
    freeHeld(turn, currencyKey, amount);
    return () => undefined;
  });
  return settleHold(work, { player, id, status: "RELEASED", captured: null });
};

/** Releases an amount, which expires at once if its expiry has passed meanwhile. */
export const freeHeld = (turn: Turn, currencyKey: string, amount: number): void => {
  addHeld(turn, currencyKey, -amount);
  expireLots(turn, currencyKey);
};

/** The player is locked, so no other transaction settles the hold. */
const readOpen = async (work: Work, player: PlayerKey, holdId: string): Promise<HoldView> => {
  if (!isId(holdId)) throw notFound("hold");
  const hold = await readHold(work, { player, id: holdId.toLowerCase() });
  if (hold.status !== "HELD") throw conflict("INVALID_STATE", `the hold is ${hold.status}`);
  if (Date.parse(hold.expiresAt) <= work.now.getTime())
    throw conflict("INVALID_STATE", "the hold has expired");
  return hold;
};

const readHold = together({
  phase: "READS",
  isWrite: false,
  run: async ({ db }, holds: readonly { player: PlayerKey; id: string }[]) => {
    const rows = JSON.stringify(holds.map(({ player, id }) => ({ p: player.id, h: id })));
    const found = await sql<Row>`
      select ${COLUMNS} from json_to_recordset(${rows}::json) as r(p uuid, h uuid)
      join currency_holds t
        on t.project_id = ${holds[0]!.player.projectId} and t.player_id = r.p and t.id = r.h`.execute(db);
    return viewsOf(
      found.rows,
      holds.map(({ player, id }) => ({ playerId: player.id, id })),
    );
  },
});

type Settled = { player: PlayerKey; id: string } & (
  | { status: "CAPTURED"; captured: number }
  | { status: "RELEASED"; captured: null }
);

const settleHold = together({
  phase: "WRITES",
  isWrite: true,
  run: async ({ db, now }, settled: readonly Settled[]) => {
    const rows = settled.map(({ player, id, status, captured }) => ({
      p: player.id,
      h: id,
      s: status,
      c: captured,
    }));
    const done = await sql<Row>`
      update currency_holds t set status = r.s, captured = r.c,
        settled_at = ${now.toISOString()}::timestamptz
      from json_to_recordset(${JSON.stringify(rows)}::json) as r(p uuid, h uuid, s text, c bigint)
      where t.project_id = ${settled[0]!.player.projectId} and t.player_id = r.p and t.id = r.h
      returning ${COLUMNS}`.execute(db);
    return viewsOf(
      done.rows,
      settled.map(({ player, id }) => ({ playerId: player.id, id })),
    );
  },
});
