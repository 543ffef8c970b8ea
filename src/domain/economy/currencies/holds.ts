import { sql } from "kysely";
import { conflict, invalid, notFound } from "../../kernel/errors.ts";
import type { Cause } from "../../kernel/events/events.ts";
import { isId, newId } from "../../kernel/ids.ts";
import { keyOfReference, lockPlayerRow, type PlayerKey } from "../../progression/reference.ts";
import { changePlayer } from "../../progression/change.ts";
import type { Turn } from "../../evaluation/turn.ts";
import type { Work } from "../../kernel/work.ts";
import { spend, touch } from "../../evaluation/currencies/adjust.ts";
import { availableOf, untouched } from "../../evaluation/currencies/balance.ts";
import { insufficient } from "./balances.ts";
import { expireLots } from "../../evaluation/currencies/expire.ts";

/** Maximum duration of a hold, in seconds. */
export const HOLD_SECONDS_MAX = 86_400;
/** Maximum number of one player's unsettled holds. */
export const HOLDS_MAX = 100;

export const HOLD_STATUSES = ["HELD", "CAPTURED", "RELEASED", "EXPIRED"] as const;

/** An amount that is reserved until it is captured (spent), released or expires. */
export type HoldView = {
  id: string;
  currencyKey: string;
  amount: number;
  /** The captured amount; null until captured. */
  captured: number | null;
  status: (typeof HOLD_STATUSES)[number];
  reference: string | null;
  expiresAt: string;
  createdAt: string;
  settledAt: string | null;
};

type Row = {
  id: string;
  currency_key: string;
  amount: string | number;
  captured: string | number | null;
  status: HoldView["status"];
  reference: string | null;
  expires_at: Date | string;
  created_at: Date | string;
  settled_at: Date | string | null;
};

const COLUMNS = sql.raw(
  "id, currency_key, amount, captured, status, reference, expires_at, created_at, settled_at",
);

const iso = (value: Date | string): string => new Date(value).toISOString();

const show = (row: Row): HoldView => ({
  id: row.id,
  currencyKey: row.currency_key,
  amount: Number(row.amount),
  captured: row.captured === null ? null : Number(row.captured),
  status: row.status,
  reference: row.reference,
  expiresAt: iso(row.expires_at),
  createdAt: iso(row.created_at),
  settledAt: row.settled_at === null ? null : iso(row.settled_at),
});

export type NewHold = {
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
  const { projectId, id: playerId } = player;
  await keyOfReference(work, player, reference);
  await changePlayer(work, projectId, playerId, (turn) => reserve(turn, currencyKey, amount));
  const open = await sql<{ n: string | number }>`
    select count(*) as n from currency_holds
    where project_id = ${projectId} and player_id = ${playerId} and status = 'HELD'`.execute(work.db);
  if (Number(open.rows[0]!.n) >= HOLDS_MAX)
    throw conflict("HOLD_LIMIT", `a player may have at most ${HOLDS_MAX} open holds`);
  const now = work.now.toISOString();
  const expiresAt = new Date(work.now.getTime() + expiresInSeconds * 1_000).toISOString();
  const made = await sql<Row>`
    insert into currency_holds
      (project_id, player_id, id, currency_key, amount, status, reference, expires_at, created_at)
    values (${projectId}, ${playerId}, ${newId()}, ${currencyKey}, ${amount}, 'HELD', ${reference ?? null},
      ${expiresAt}::timestamptz, ${now}::timestamptz) returning ${COLUMNS}`.execute(work.db);
  return show(made.rows[0]!);
};

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
  await changePlayer(work, player.projectId, player.id, (turn) => spendHeld(turn, hold, { captured, cause }));
  return settleHold(work, player, { id: hold.id, status: "CAPTURED", captured });
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
  await changePlayer(work, player.projectId, player.id, (turn) => freeHeld(turn, currencyKey, amount));
  return settleHold(work, player, { id, status: "RELEASED", captured: null });
};

/** Releases an amount, which expires at once if its expiry has passed meanwhile. */
export const freeHeld = (turn: Turn, currencyKey: string, amount: number): void => {
  addHeld(turn, currencyKey, -amount);
  expireLots(turn, currencyKey);
};

/** Locks the player, so that no other transaction settles the hold. */
const readOpen = async (work: Work, player: PlayerKey, holdId: string): Promise<HoldView> => {
  const found = isId(holdId)
    ? await sql<Row>`
        select ${COLUMNS} from currency_holds
        where project_id = ${player.projectId} and player_id = ${player.id} and id = ${holdId}`.execute(
        work.db,
      )
    : { rows: [] };
  const [row] = found.rows;
  if (!row) throw notFound("hold");
  const hold = show(row);
  if (hold.status !== "HELD") throw conflict("INVALID_STATE", `the hold is ${hold.status}`);
  if (Date.parse(hold.expiresAt) <= work.now.getTime())
    throw conflict("INVALID_STATE", "the hold has expired");
  return hold;
};

type Settled = { id: string; status: "CAPTURED" | "RELEASED"; captured: number | null };

const settleHold = async (
  { db, now }: Work,
  { projectId, id: playerId }: PlayerKey,
  { id, status, captured }: Settled,
): Promise<HoldView> => {
  const settled = await sql<Row>`
    update currency_holds set status = ${status}, captured = ${captured}::bigint,
      settled_at = ${now.toISOString()}::timestamptz
    where project_id = ${projectId} and player_id = ${playerId} and id = ${id}
    returning ${COLUMNS}`.execute(db);
  return show(settled.rows[0]!);
};
