import { z } from "zod";
import { addTo } from "../record.ts";
import type { RevertResult } from "../revert-events.ts";

/** Number of different remarks in a result. */
const LEFT_MAX = 100;
/** Number of events reverted together at most; fewer where that proves too much for a transaction. */
export const GROUP_MAX = 100;

/** What a job has reverted so far. */
export const Sums = z.object({
  reverted: z.int(),
  reversed: z.object({
    xp: z.number(),
    currencies: z.record(z.string(), z.number()),
    badges: z.int(),
  }),
  lives: z.number(),
  shortfall: z.record(z.string(), z.number()),
  /** Actions on other players or for later times that were cancelled. */
  cancelled: z.int(),
  /** Effects that remain, in words. */
  left: z.array(z.string()),
  /** Reasons why events were not reverted, by id. */
  refused: z.record(z.string(), z.string()),
  /** Number of events to be reverted together next. */
  size: z.int(),
});
export type Sums = z.output<typeof Sums>;

export const noSums = (): Sums => ({
  reverted: 0,
  reversed: { xp: 0, currencies: {}, badges: 0 },
  lives: 0,
  shortfall: {},
  cancelled: 0,
  left: [],
  refused: {},
  size: GROUP_MAX,
});

const adding = (
  sums: Record<string, number>,
  more: Readonly<Record<string, number>>,
): Record<string, number> => {
  const total = { ...sums };
  for (const [name, amount] of Object.entries(more)) addTo(total, name, amount);
  return total;
};

/** Returns the sums with the results of further events. */
export const withResults = (sums: Sums, results: readonly RevertResult[]): Sums => {
  let { reverted, reversed, lives, shortfall, cancelled } = sums;
  const left = new Set(sums.left);
  for (const one of results) {
    if (!one.isReverted) continue;
    reverted++;
    const { xp, currencies, badges } = one.reversed;
    reversed = {
      xp: reversed.xp + xp,
      currencies: adding(reversed.currencies, currencies),
      badges: reversed.badges + badges.length,
    };
    lives += one.lives;
    shortfall = adding(shortfall, one.shortfall);
    cancelled += one.cancelled;
    for (const what of one.left) if (left.size < LEFT_MAX) left.add(what);
  }
  return { ...sums, reverted, reversed, lives, shortfall, cancelled, left: [...left] };
};
