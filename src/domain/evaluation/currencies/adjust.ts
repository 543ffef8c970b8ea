import { countChange, roomFor, warnOfCut } from "../caps/caps.ts";
import type { CapSet } from "../caps/cap.ts";
import { boostOf, UNBOOSTED } from "../boosts/boosts.ts";
import type { Cause } from "../../kernel/events/events.ts";
import { appendLedger } from "../ledger/append.ts";
import type { LedgerRow } from "../effects.ts";
import type { BalanceState } from "../player-state.ts";
import type { Turn } from "../turn.ts";
import { addToLots, availableOf, BALANCE_MAX, expiryOf, takeFromLots, untouched } from "./balance.ts";
import type { Currency } from "./currency.ts";
import { expireLots } from "./expire.ts";

export type CurrencyChange = {
  currencyKey: string;
  /** Signed whole number. */
  amount: number;
  cause: Cause;
  /** Deterministic ledger key. */
  key: string;
  reason: string;
  /** Whether boosts on `currency:{key}` multiply a gain. */
  boostable?: boolean;
  /** CLAMP takes what is available; otherwise a loss beyond the balance changes nothing. */
  onInsufficient?: "REFUSE" | "CLAMP";
  /** When a gain expires; default: as the currency says. */
  expiresMs?: number;
  reference?: string;
  /** Caps that cut a gain, and count every change: those of a rule that makes it. */
  caps?: readonly CapSet[];
};

const NO_CAPS: readonly CapSet[] = [];

/**
 * `entry` is absent when nothing changed; `problem` is the reason when the change was refused for
 * insufficient balance or, by a currency that rejects overflow, room.
 */
export type CurrencyChanged = {
  entry?: LedgerRow;
  problem?: "INSUFFICIENT_FUNDS" | "BALANCE_LIMIT" | "UNKNOWN_CURRENCY";
};

/**
 * Changes a balance: ledger entry, lots, `player.currency_granted` or `player.currency_spent`. A loss never
 * takes held amounts, nor the balance below the currency's minimum; a gain beyond its maximum is cut or
 * refused, as the currency says. The initial balance is granted by an entry of its own before the first
 * change.
 */
export const adjustCurrency = (turn: Turn, change: CurrencyChange): CurrencyChanged => {
  const currency = turn.project.currencies.get(change.currencyKey);
  if (!currency) return { problem: "UNKNOWN_CURRENCY" };
  if (change.amount === 0) return {};
  expireLots(turn, currency.key);
  const changed = change.amount > 0 ? credit(turn, currency, change) : debit(turn, currency, change);
  const { caps = NO_CAPS } = change;
  if (caps.length > 0 && changed.entry)
    countChange(turn, caps, { asset: `currency:${currency.key}`, change: changed.entry.amount });
  return changed;
};

/** Returns how much of the currency caps still let the change give. */
const roomUnderCaps = (turn: Turn, { currencyKey, caps = NO_CAPS }: CurrencyChange): number =>
  caps.length === 0 ? Infinity : roomFor(turn, `currency:${currencyKey}`, caps);

const credit = (turn: Turn, currency: Currency, change: CurrencyChange): CurrencyChanged => {
  const state = turn.player.balances.get(currency.key) ?? untouched(currency);
  const asset = `currency:${currency.key}`;
  const boost = change.boostable === true ? boostOf(turn, asset) : UNBOOSTED;
  const boosted = Math.round(Math.min(BALANCE_MAX, change.amount * boost.factor));
  const capped = roomUnderCaps(turn, change);
  if (capped < boosted) warnOfCut(turn, { asset, wanted: boosted, room: capped });
  const wanted = Math.min(boosted, capped);
  const room = (currency.maxBalance ?? BALANCE_MAX) - state.balance;
  if (wanted > room && currency.overflow === "REJECT") return { problem: "BALANCE_LIMIT" };
  const gain = Math.min(wanted, room);
  if (gain <= 0) return {};
  boost.use();
  touch(turn, currency);
  return { entry: gainOf(turn, currency, { ...change, amount: gain }) };
};

const debit = (turn: Turn, currency: Currency, change: CurrencyChange): CurrencyChanged => {
  const state = turn.player.balances.get(currency.key) ?? untouched(currency);
  const spendable = Math.max(0, availableOf(state) - currency.minBalance);
  const isShort = -change.amount > spendable;
  if (isShort && change.onInsufficient !== "CLAMP") return { problem: "INSUFFICIENT_FUNDS" };
  const amount = isShort ? spendable : -change.amount;
  if (amount === 0) return {};
  touch(turn, currency);
  return { entry: spend(turn, { ...change, amount }) };
};

/** Grants the initial balance before the player's first change of the currency. */
export const touch = (turn: Turn, currency: Currency): void => {
  if (turn.player.balances.has(currency.key)) return;
  const { balance } = untouched(currency);
  if (balance === 0) return;
  gainOf(turn, currency, {
    amount: balance,
    cause: { kind: "ADMIN", refKey: currency.key, note: "initial balance" },
    key: `init:${currency.key}`,
    reason: "initial balance",
    isOfEvent: false,
  });
};

type Gain = Pick<CurrencyChange, "amount" | "cause" | "key" | "reason" | "expiresMs"> & {
  isOfEvent?: boolean;
};

const NOTHING: BalanceState = { balance: 0, held: 0, earned: 0, spent: 0 };

const setBalance = ({ player }: Turn, key: string, state: BalanceState): void => {
  player.balances.set(key, state);
  player.dirty.balances.add(key);
};

const gainOf = (turn: Turn, currency: Currency, gain: Gain): LedgerRow => {
  const { player } = turn;
  const { amount, cause, key, reason, isOfEvent = true } = gain;
  const state = player.balances.get(currency.key) ?? NOTHING;
  const balance = state.balance + amount;
  const earned = Math.min(BALANCE_MAX, state.earned + amount);
  setBalance(turn, currency.key, { ...state, balance, earned });
  const expiresMs = gain.expiresMs ?? expiryOf(currency, turn.nowMs);
  if (expiresMs !== undefined) addToLots(player, currency.key, [{ amount, expiresMs }]);
  const currencyKey = currency.key;
  const line = { asset: "CURRENCY", currencyKey, amount, balanceAfter: balance } as const;
  const entry = appendLedger(turn, { ...line, reason, key, cause, isOfEvent });
  turn.emit("player.currency_granted", {
    playerId: player.id,
    externalUserId: player.externalUserId,
    currencyKey,
    amount,
    balance,
    ledgerEntryId: entry.id,
    expiresAt: expiresMs === undefined ? null : new Date(expiresMs).toISOString(),
    cause,
  });
  return entry;
};

export type Spending = Pick<
  CurrencyChange,
  "currencyKey" | "amount" | "cause" | "key" | "reason" | "reference"
>;

/** Debits `amount` (above 0, at most the balance), whatever is held. */
export const spend = (turn: Turn, spending: Spending): LedgerRow => {
  const { player } = turn;
  const { currencyKey, amount, cause, key, reason, reference = null } = spending;
  const state = player.balances.get(currencyKey) ?? NOTHING;
  const balance = state.balance - amount;
  const spent = Math.min(BALANCE_MAX, state.spent + amount);
  setBalance(turn, currencyKey, { ...state, balance, spent });
  takeFromLots(player, currencyKey, amount);
  const line = { asset: "CURRENCY", currencyKey, amount: -amount, balanceAfter: balance } as const;
  const entry = appendLedger(turn, { ...line, reason, key, cause });
  turn.emit("player.currency_spent", {
    playerId: player.id,
    externalUserId: player.externalUserId,
    currencyKey,
    amount,
    balance,
    ledgerEntryId: entry.id,
    reference,
    cause,
  });
  return entry;
};
