import { type Cause } from "../events.ts";
import { appendLedger } from "../ledger/append.ts";
import { grantLevelRewards } from "./level-rewards.ts";
import { levelOf } from "./levels.ts";
import type { LedgerRow, Turn } from "./turn.ts";

/** Ceiling of a player's XP: every integer below it is exact in JavaScript and JSON. */
export const XP_MAX = Number.MAX_SAFE_INTEGER;

export type XpGrant = {
  /** Signed whole number; a loss never takes XP below 0. */
  amount: number;
  cause: Cause;
  /** Deterministic ledger key: the same key never grants twice. */
  key: string;
  reason: string;
};

/**
 * Changes the player's XP: ledger entry, `player.xp_granted` for a gain or `player.updated` for a loss, level
 * at once, `player.level_up` for a rise.
 * XP never falls below 0 and never exceeds XP_MAX; a change of 0 leaves no trace.
 * @returns the ledger entry, or undefined when nothing changed
 */
export const grantXp = (turn: Turn, { amount, cause, key, reason }: XpGrant): LedgerRow | undefined => {
  const { player } = turn;
  const xp = Math.min(XP_MAX, Math.max(0, player.xp + amount));
  const change = xp - player.xp;
  if (change === 0) return undefined;
  player.xp = xp;
  const previousLevel = player.level;
  const reached = levelOf(turn.project.curve, xp);
  player.level = turn.project.settings.allowLevelDown ? reached : Math.max(previousLevel, reached);
  const entry = appendLedger(turn, { asset: "XP", amount: change, balanceAfter: xp, reason, key, cause });
  if (change > 0) {
    turn.emit("player.xp_granted", {
      playerId: player.id,
      externalUserId: player.externalUserId,
      amount: change,
      baseAmount: amount,
      boostFactor: 1,
      xp,
      level: player.level,
      ledgerEntryId: entry.id,
      cause,
    });
  }
  // A loss has no event type of its own; the stream must still tell it.
  if (change < 0) emitLoss(turn, { xp: xp - change, level: previousLevel }, cause);
  if (player.level > previousLevel) {
    turn.emit("player.level_up", { playerId: player.id, previousLevel, newLevel: player.level, xp });
    grantLevelRewards(turn, previousLevel, player.level);
  }
  return entry;
};

const emitLoss = ({ player, emit }: Turn, before: { xp: number; level: number }, cause: Cause): void => {
  const after = { xp: player.xp, level: player.level };
  const changed = after.level === before.level ? ["xp"] : ["xp", "level"];
  emit("player.updated", {
    playerId: player.id,
    externalUserId: player.externalUserId,
    changed,
    before,
    after,
    cause,
  });
};
