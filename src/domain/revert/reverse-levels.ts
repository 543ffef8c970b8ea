import type { Turn } from "../evaluation/turn.ts";
import type { CausedEvent, Reversal } from "./record.ts";

const LEVEL_KEY = /^lvl:(\d+)[:~]/;

/** Returns the level whose reward a ledger, award or grant key belongs to. */
export const levelOfKey = (key: string): number | undefined => {
  const match = LEVEL_KEY.exec(key);
  return match ? Number(match[1]) : undefined;
};

/**
 * Reverts levels that the event reached and the player no longer has: their rewards are taken back, and can
 * be given again. A level that stays keeps its reward.
 */
export const takeLevelsBack = (
  { player }: Turn,
  emitted: readonly CausedEvent[],
  reversal: Reversal,
): ReadonlySet<number> => {
  const reached = emitted
    .filter(({ type }) => type === "player.level_up")
    .flatMap(({ data }) => {
      const { previousLevel, newLevel } = data as { previousLevel: number; newLevel: number };
      return Array.from({ length: newLevel - previousLevel }, (_, i) => previousLevel + 1 + i);
    });
  const lost = reached.filter((level) => level > player.level);
  if (lost.length < reached.length) reversal.left.add(`level ${player.level}, with what it gave`);
  const { v, r = {} } = player.doc;
  // Another event has been rewarded for a higher level since: lower levels keep their rewards.
  if (lost.length === 0 || v === undefined || Math.max(...lost) < v) return new Set();
  const again = { ...r };
  for (const level of lost) again[level] = (again[level] ?? 0) + 1;
  player.doc = { ...player.doc, v: Math.min(...lost) - 1, r: again };
  player.dirty.doc = true;
  return new Set(lost);
};
