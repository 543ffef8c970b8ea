/**
 * Between which rankScores ranks may have changed, both inclusive and the smaller, better one first; null is
 * open. Who has a score outside of it stands where they stood.
 */
export type Moved = { from: number | null; to: number | null };

/** Anybody may have moved. */
export const ALL_MOVED: Moved = { from: null, to: null };

/** An entry went from one score to another; undefined is that there was none, or is none any more. */
export const movedBetween = (before: number | undefined, after: number | undefined): Moved | undefined => {
  if (before === undefined && after === undefined) return undefined;
  // One more or one fewer: all that come after are pushed.
  if (before === undefined || after === undefined) return { from: (before ?? after)!, to: null };
  return { from: Math.min(before, after), to: Math.max(before, after) };
};

/** Both together. */
export const joinMoved = (a: Moved | undefined, b: Moved | undefined): Moved | undefined => {
  if (!a || !b) return a ?? b;
  const from = a.from === null || b.from === null ? null : Math.min(a.from, b.from);
  const to = a.to === null || b.to === null ? null : Math.max(a.to, b.to);
  return { from, to };
};

export const mayHaveMoved = ({ from, to }: Moved, rankScore: number): boolean =>
  (from === null || rankScore >= from) && (to === null || rankScore <= to);
