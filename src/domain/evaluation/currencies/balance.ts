import { newId } from "../../kernel/ids.ts";
import type { BalanceState, LotState, PlayerState } from "../player-state.ts";
import type { CompiledDefinitions } from "../compiled-definitions.ts";
import type { Currency } from "./currency.ts";

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
export const withoutExpired = (
  state: BalanceState,
  lots: readonly LotState[],
  nowMs: number,
): BalanceState => {
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
