import { boostOf, UNBOOSTED } from "../boosts/boosts.ts";
import type { CapSet } from "../caps/cap.ts";
import { countChange, NO_CAPS, roomFor, warnOfCut } from "../caps/caps.ts";
import type { Currency } from "./currency.ts";
import type { LedgerRow } from "../effects.ts";
import { appendLedger } from "../ledger/append.ts";
import type { BalanceState, LotState, PlayerState } from "../player-state.ts";
import type { CompiledDefinitions } from "../project-settings.ts";
import { playerOf, type Turn } from "../turn.ts";
import type { Cause } from "../../kernel/events/events.ts";
import { newId } from "../../kernel/ids.ts";
import { isoOf } from "../../kernel/iso-time.ts";

/** Maximum of every balance: each integer below it is exact in JavaScript and JSON. */
export const BALANCE_MAX = Number.MAX_SAFE_INTEGER;

const DAY_MS = 86_400_000;

/** Returns a player's balance before the first change. */
export const untouched = ({ initialBalance, maxBalance = BALANCE_MAX }: Currency): BalanceState => {
  const balance = Math.min(initialBalance, maxBalance);
  return { balance, held: 0, earned: balance, spent: 0 };
};

/** Returns the remainder of expired lots. */
const dueOf = (lots: readonly LotState[], nowMs: number): number => {
  let due = 0;
  for (const { expiresMs, remaining } of lots) {
    if (expiresMs > nowMs) break;
    due += remaining;
  }
  return due;
};

/** Subtracts what has expired and is not held. `lots`: ordered by expiry. */
const withoutExpired = (state: BalanceState, lots: readonly LotState[], nowMs: number): BalanceState => {
  const due = Math.min(dueOf(lots, nowMs), state.balance - state.held);
  return due > 0 ? { ...state, balance: state.balance - due } : state;
};

const NO_LOTS: readonly LotState[] = [];

/** The inputs that determine a balance; a turn has them. */
export type BalanceContext = {
  player: Pick<PlayerState, "balances" | "lots">;
  project: Pick<CompiledDefinitions, "currencies">;
  nowMs: number;
};

/**
 * Returns a player's current balance of a currency: including an initial balance not in the ledger yet, and
 * without what has expired. Undefined for a currency that the project does not have and the player never had.
 */
export const balanceNow = (
  { player, project, nowMs }: BalanceContext,
  currencyKey: string,
): BalanceState | undefined => {
  const state = player.balances.get(currencyKey);
  if (state) return withoutExpired(state, player.lots.get(currencyKey) ?? NO_LOTS, nowMs);
  const currency = project.currencies.get(currencyKey);
  return currency && untouched(currency);
};

/** Returns what may be spent or held: never what is held already. */
export const availableOf = ({ balance, held }: BalanceState): number => balance - held;

/**
 * Returns when a gain of this currency expires by default, in ms: at the end of the UTC day that lies
 * `expiryDays` ahead, so that the gains of a day share one lot.
 */
export const expiryOf = ({ expiryDays }: Currency, nowMs: number): number | undefined =>
  expiryDays === undefined ? undefined : (Math.floor(nowMs / DAY_MS) + expiryDays + 1) * DAY_MS;

const setLots = ({ lots, dirty }: PlayerState, currencyKey: string, value: readonly LotState[]): void => {
  lots.set(currencyKey, value);
  dirty.lots.add(currencyKey);
};

/** Returns the first unused lot of each moment of expiry: a used-up lot is closed, with its id. */
const firstOpen = (lots: readonly LotState[]): Map<number, LotState> =>
  new Map(
    lots
      .filter(({ remaining }) => remaining > 0)
      .toReversed()
      .map((lot) => [lot.expiresMs, lot]),
  );

/** Adds gains to the lots of their moments of expiry. */
export const addToLots = (
  player: PlayerState,
  currencyKey: string,
  gains: readonly { amount: number; expiresMs: number }[],
): void => {
  const known = player.lots.get(currencyKey) ?? NO_LOTS;
  const open = firstOpen(known);
  const changed = new Map<number, LotState>();
  for (const { amount, expiresMs } of gains) {
    const same = changed.get(expiresMs) ?? open.get(expiresMs);
    const remaining = (same?.remaining ?? 0) + amount;
    changed.set(expiresMs, { id: same?.id ?? newId(), remaining, expiresMs, isChanged: true });
  }
  const others = known.filter((lot) => !changed.has(lot.expiresMs) || open.get(lot.expiresMs) !== lot);
  const lots = [...others, ...changed.values()].toSorted((a, b) => a.expiresMs - b.expiresMs);
  setLots(player, currencyKey, lots);
};

/** Takes `amount` from the lots in order of expiry; the rest comes from what never expires. */
export const takeFromLots = (player: PlayerState, currencyKey: string, amount: number): void => {
  const known = player.lots.get(currencyKey);
  if (!known) return;
  let left = amount;
  const lots = known.map((lot) => {
    const taken = Math.min(left, lot.remaining);
    left -= taken;
    return taken === 0 ? lot : { ...lot, remaining: lot.remaining - taken, isChanged: true as const };
  });
  if (left < amount) setLots(player, currencyKey, lots);
};

/**
 * Expires the due lots of a currency: a ledger entry and `player.currency_expired` for each. Held amounts
 * stay until the hold is settled.
 */
export const expireLots = (turn: Turn, currencyKey: string): void => {
  const lots = turn.player.lots.get(currencyKey);
  if (!lots) return;
  let expired = 0;
  for (const lot of lots) {
    if (lot.expiresMs > turn.nowMs) break;
    expired += expireLot(turn, currencyKey, lot);
  }
  // Lots in front of a reduced one only have held amounts left, so everything is taken from the front.
  if (expired > 0) takeFromLots(turn.player, currencyKey, expired);
};

/** @returns the amounts to be taken from the lots */
const expireLot = (turn: Turn, currencyKey: string, { id, remaining }: LotState): number => {
  const { player } = turn;
  const state = player.balances.get(currencyKey);
  const amount = state ? Math.min(remaining, state.balance - state.held) : 0;
  if (!state || amount <= 0) return 0;
  const { subject } = book(turn, currencyKey, {
    state: { ...state, balance: state.balance - amount },
    amount: -amount,
    reason: "expiry",
    // The held part of a lot expires later, with a key of its own.
    key: remaining === amount ? `exp:${id}` : `exp:${id}:${player.ledgerSeq + 1}`,
    cause: { kind: "EXPIRY", refKey: currencyKey, refId: id },
    isOfEvent: false,
  });
  turn.emit("player.currency_expired", subject);
  return amount;
};

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
  const { entry } = changed;
  if (change.caps && entry)
    countChange(turn, change.caps, { asset: `currency:${currency.key}`, change: entry.amount });
  return changed;
};

const credit = (turn: Turn, currency: Currency, change: CurrencyChange): CurrencyChanged => {
  const state = turn.player.balances.get(currency.key) ?? untouched(currency);
  const asset = `currency:${currency.key}`;
  const boost = change.boostable === true ? boostOf(turn, asset) : UNBOOSTED;
  const boosted = Math.round(Math.min(BALANCE_MAX, change.amount * boost.factor));
  const capped = roomFor(turn, asset, change.caps ?? NO_CAPS);
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

type Booking = Pick<CurrencyChange, "amount" | "cause" | "key" | "reason"> & {
  state: BalanceState;
  isOfEvent?: boolean;
};

/** Stores a balance and the line of what has changed it. `subject`: what events say of every such change. */
const book = (turn: Turn, currencyKey: string, { state, ...change }: Booking) => {
  const { balances, dirty } = turn.player;
  const { balance } = state;
  balances.set(currencyKey, state);
  dirty.balances.add(currencyKey);
  const entry = appendLedger(turn, { asset: "CURRENCY", currencyKey, balanceAfter: balance, ...change });
  const amount = Math.abs(change.amount);
  return { entry, subject: { ...playerOf(turn), currencyKey, amount, balance, ledgerEntryId: entry.id } };
};

const gainOf = (turn: Turn, currency: Currency, gain: Gain): LedgerRow => {
  const { player } = turn;
  const { amount, cause, key, reason, isOfEvent = true } = gain;
  const before = player.balances.get(currency.key) ?? NOTHING;
  const earned = Math.min(BALANCE_MAX, before.earned + amount);
  const state = { ...before, balance: before.balance + amount, earned };
  const expiresMs = gain.expiresMs ?? expiryOf(currency, turn.nowMs);
  if (expiresMs !== undefined) addToLots(player, currency.key, [{ amount, expiresMs }]);
  const { entry, subject } = book(turn, currency.key, { state, amount, reason, key, cause, isOfEvent });
  turn.emit("player.currency_granted", { ...subject, expiresAt: isoOf(expiresMs), cause });
  return entry;
};

type Spending = Pick<CurrencyChange, "currencyKey" | "amount" | "cause" | "key" | "reason" | "reference">;

/** Debits `amount` (above 0, at most the balance), whatever is held. */
export const spend = (turn: Turn, spending: Spending): LedgerRow => {
  const { player } = turn;
  const { currencyKey, amount, cause, key, reason, reference = null } = spending;
  const before = player.balances.get(currencyKey) ?? NOTHING;
  const spent = Math.min(BALANCE_MAX, before.spent + amount);
  const state = { ...before, balance: before.balance - amount, spent };
  takeFromLots(player, currencyKey, amount);
  const { entry, subject } = book(turn, currencyKey, { state, amount: -amount, reason, key, cause });
  turn.emit("player.currency_spent", { ...subject, reference, cause });
  return entry;
};
