/**
 * The range of rankScores in which ranks may have changed, both ends inclusive, the smaller and better one
 * first; null is open. Ranks outside of it are unchanged.
 */
export type Moved = { from: number | null; to: number | null };

/** All ranks may have changed. */
export const ALL_MOVED: Moved = { from: null, to: null };

/** Returns the range for an entry that moved from one score to another; undefined stands for no entry. */
export const movedBetween = (before: number | undefined, after: number | undefined): Moved | undefined => {
  if (before === undefined && after === undefined) return undefined;
  // One entry more or fewer shifts all that follow.
  if (before === undefined || after === undefined) return { from: (before ?? after)!, to: null };
  return { from: Math.min(before, after), to: Math.max(before, after) };
};

/** Returns the union of two ranges. */
export const joinMoved = (a: Moved | undefined, b: Moved | undefined): Moved | undefined => {
  if (!a || !b) return a ?? b;
  const from = a.from === null || b.from === null ? null : Math.min(a.from, b.from);
  const to = a.to === null || b.to === null ? null : Math.max(a.to, b.to);
  return { from, to };
};

export const mayHaveMoved = ({ from, to }: Moved, rankScore: number): boolean =>
  (from === null || rankScore >= from) && (to === null || rankScore <= to);
