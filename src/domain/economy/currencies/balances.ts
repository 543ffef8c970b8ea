import { conflict, notFound } from "../../kernel/errors.ts";
import type { Cause } from "../../kernel/events/events.ts";
import { type LedgerEntryView, showEntry } from "../ledger/entries.ts";
import type { PlayerKey } from "../../progression/reference.ts";
import type { Player } from "../../players/player.ts";
import { stateOfPlayer } from "../../progression/players/show.ts";
import { changePlayer } from "../../progression/change.ts";
import { loadStates } from "../../progression/load-states.ts";
import { balances, lots } from "../../progression/parts/balances.ts";
import { projectPlans, readPlan } from "../../progression/plan.ts";
import type { PlanTurn, ProjectPlan } from "../../evaluation/project-plan.ts";
import type { Work } from "../../kernel/work.ts";
import { adjustCurrency, type CurrencyChanged } from "../../evaluation/currencies/adjust.ts";
import { availableOf, balanceNow, type BalanceContext } from "../../evaluation/currencies/balance.ts";

/** Maximum number of lots shown with a balance. */
const EXPIRING_MAX = 10;

/** Maximum number of open lots of one player and currency that grants with their own expiry may create. */
export const LOTS_MAX = 1_000;

/** A balance as the API shows it, as of now. */
export type BalanceView = {
  currencyKey: string;
  balance: number;
  /** `balance - held`. */
  available: number;
  held: number;
  lifetimeEarned: number;
  lifetimeSpent: number;
  /** The next amounts to expire, earliest first. */
  expiring: { amount: number; at: string }[];
};

/** Returns a player's balance. @throws Error for a currency that is neither the project's nor the player's */
export const showBalance = (purse: BalanceContext, currencyKey: string): BalanceView => {
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
    const { status } = turn.player;
    if (change.amount > 0 && status !== "ACTIVE")
      throw conflict("PLAYER_INACTIVE", `the player is ${status}`);
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

export const insufficient = (currencyKey: string, amount: number) =>
  conflict("INSUFFICIENT_FUNDS", `the player does not have ${amount} ${currencyKey} to spend`);
