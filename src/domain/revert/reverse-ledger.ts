import { addToLots, BALANCE_MAX, expiryOf, takeFromLots } from "../evaluation/currencies/balance.ts";
import { appendLedger } from "../evaluation/ledger/append.ts";
import { adjustLives } from "../evaluation/lives/lives.ts";
import { levelOf } from "../evaluation/xp/levels.ts";
import type { LedgerRow } from "../evaluation/effects.ts";
import type { Turn } from "../evaluation/turn.ts";
import { XP_MAX } from "../evaluation/xp/xp.ts";
import { firstZone, localTime } from "../kernel/zones.ts";
import type { Pieces } from "../kernel/pace.ts";
import { addTo, type CausedLine, type Reversal } from "./record.ts";

/** Steps for a reversing entry: its hash, and its event. */
const LINE_STEPS = 100;
/** Number of lots examined per step. */
const LOTS_PER_STEP = 8;

/** Latest first: amounts that an event gave and spent again are restored without a temporary shortfall. */
const backwards = (lines: readonly CausedLine[]): CausedLine[] => lines.toSorted((a, b) => b.seq - a.seq);

const append = (
  turn: Turn,
  { id, asset, currencyKey }: CausedLine,
  { amount, balanceAfter, reversal }: { amount: number; balanceAfter: number; reversal: Reversal },
): LedgerRow =>
  appendLedger(turn, {
    asset,
    ...(currencyKey === null ? {} : { currencyKey }),
    amount,
    balanceAfter,
    reason: reversal.reason,
    key: `rev:${id}`,
    cause: reversal.cause,
    reverses: id,
  });

/**
 * Reverts the XP of entries, each by an opposite entry; never below 0. The level follows where the project
 * lets levels fall. In pieces.
 */
export function* reverseXp(turn: Turn, lines: readonly CausedLine[], reversal: Reversal): Pieces<void> {
  const { player, project } = turn;
  const before = { xp: player.xp, level: player.level };
  for (const line of backwards(lines)) {
    yield LINE_STEPS;
    const xp = Math.min(XP_MAX, Math.max(0, player.xp - line.amount));
    const change = xp - player.xp;
    const missing = Math.abs(line.amount) - Math.abs(change);
    addTo(reversal.shortfall, "xp", missing);
    if (line.amount > 0) addSpentGain(turn, null, missing);
    takeFromDay(turn, line);
    if (change === 0) continue;
    player.xp = xp;
    reversal.xp -= change;
    const entry = append(turn, line, { amount: change, balanceAfter: xp, reversal });
    if (change > 0) emitGain(turn, entry);
  }
  const reached = levelOf(project.curve, player.xp);
  player.level = project.settings.allowLevelDown ? reached : Math.max(player.level, reached);
  if (player.xp < before.xp) emitLoss(turn, before, reversal);
}

/** Notes a gain that cannot be taken back, so that boards of gains lose it all the same. */
const addSpentGain = ({ root }: Turn, key: string | null, amount: number): void => {
  if (amount === 0) return;
  root.spentGains ??= new Map();
  root.spentGains.set(key, (root.spentGains.get(key) ?? 0) + amount);
};

/** Reduces the day's sum for the soft cap, if the entry belongs to that day. */
const takeFromDay = ({ player, project, event }: Turn, { amount, cause }: CausedLine): void => {
  const { x } = player.doc;
  if (!x || cause.kind !== "RULE" || amount < 0) return;
  const { dayNumber } = localTime(firstZone(player.timezone, project.timezone), event.at);
  if (dayNumber !== x[0]) return;
  player.doc = { ...player.doc, x: [x[0], Math.max(0, x[1] - amount)] };
  player.dirty.doc = true;
};

const emitGain = ({ player, emit }: Turn, { id: ledgerEntryId, amount, cause }: LedgerRow): void => {
  const { id: playerId, externalUserId, xp, level } = player;
  const granted = { amount, baseAmount: amount, boostFactor: 1, xp, level, ledgerEntryId, cause };
  emit("player.xp_granted", { playerId, externalUserId, ...granted });
};

const emitLoss = (
  { player, emit }: Turn,
  before: { xp: number; level: number },
  { cause }: Reversal,
): void => {
  const { id: playerId, externalUserId, xp, level } = player;
  const changed = level === before.level ? ["xp"] : ["xp", "level"];
  emit("player.updated", { playerId, externalUserId, changed, before, after: { xp, level }, cause });
};

/** Reverts currencies and lives of entries, each by an opposite entry; never held amounts. In pieces. */
export function* reverseHoldings(turn: Turn, lines: readonly CausedLine[], reversal: Reversal): Pieces<void> {
  for (const line of backwards(lines)) {
    const lots = line.currencyKey === null ? undefined : turn.player.lots.get(line.currencyKey);
    yield LINE_STEPS + (lots?.length ?? 0) / LOTS_PER_STEP;
    if (line.asset === "CURRENCY") reverseCurrency(turn, line, reversal);
    if (line.asset === "LIVES") reverseLives(turn, line, reversal);
  }
}

const NOTHING = { balance: 0, held: 0, earned: 0, spent: 0 };

const reverseCurrency = (turn: Turn, line: CausedLine, reversal: Reversal): void => {
  const key = line.currencyKey!;
  const moved = line.amount > 0 ? takeGain(turn, key, line.amount) : putBack(turn, key, -line.amount);
  const missing = Math.abs(line.amount) - moved.amount;
  addTo(reversal.shortfall, `currency:${key}`, missing);
  if (line.amount > 0) addSpentGain(turn, key, missing);
  if (moved.amount === 0) return;
  const { balance } = turn.player.balances.get(key)!;
  const change = line.amount > 0 ? -moved.amount : moved.amount;
  addTo(reversal.currencies, key, -change);
  const entry = append(turn, line, { amount: change, balanceAfter: balance, reversal });
  emitCurrency(turn, { key, change, entry, expiresMs: moved.expiresMs }, reversal);
};

type Moved = { amount: number; expiresMs?: number | undefined };

/** Takes back a gain, as far as it is there and not held. */
const takeGain = ({ player }: Turn, key: string, amount: number): Moved => {
  const state = player.balances.get(key) ?? NOTHING;
  const { balance, held, earned } = state;
  const taken = Math.min(amount, balance - held);
  if (taken === 0) return { amount: 0 };
  player.balances.set(key, {
    ...state,
    balance: balance - taken,
    earned: Math.max(0, earned - taken),
  });
  player.dirty.balances.add(key);
  takeFromLots(player, key, taken);
  return { amount: taken };
};

/** Refunds spending, up to the limit; it gets a new expiry. */
const putBack = ({ player, project, nowMs }: Turn, key: string, amount: number): Moved => {
  const currency = project.currencies.get(key);
  const state = player.balances.get(key) ?? NOTHING;
  const { balance, spent } = state;
  const given = Math.max(0, Math.min(amount, (currency?.maxBalance ?? BALANCE_MAX) - balance));
  if (given === 0) return { amount: 0 };
  player.balances.set(key, { ...state, balance: balance + given, spent: Math.max(0, spent - given) });
  player.dirty.balances.add(key);
  const expiresMs = currency && expiryOf(currency, nowMs);
  if (expiresMs !== undefined) addToLots(player, key, [{ amount: given, expiresMs }]);
  return { amount: given, expiresMs };
};

type Changed = { key: string; change: number; entry: LedgerRow; expiresMs: number | undefined };

const emitCurrency = (
  { player, emit }: Turn,
  { key: currencyKey, change, entry, expiresMs }: Changed,
  { cause }: Reversal,
): void => {
  const { id: playerId, externalUserId } = player;
  const { balance } = player.balances.get(currencyKey)!;
  const common = { playerId, externalUserId, currencyKey, balance, ledgerEntryId: entry.id, cause };
  if (change < 0) emit("player.currency_spent", { ...common, amount: -change, reference: null });
  else {
    const expiresAt = expiresMs === undefined ? null : new Date(expiresMs).toISOString();
    emit("player.currency_granted", { ...common, amount: change, expiresAt });
  }
};

const reverseLives = (turn: Turn, line: CausedLine, reversal: Reversal): void => {
  const { cause, reason } = reversal;
  const change = {
    amount: -line.amount,
    onInsufficient: "CLAMP",
    cause,
    key: `rev:${line.id}`,
    reason,
  } as const;
  const { entry, problem } = adjustLives(turn, change);
  if (problem !== undefined) reversal.left.add("lives: the project has none any more");
  if (entry) entry.reverses = line.id;
  const moved = entry?.amount ?? 0;
  reversal.lives -= moved;
  if (problem === undefined) addTo(reversal.shortfall, "lives", Math.abs(line.amount) - Math.abs(moved));
};
