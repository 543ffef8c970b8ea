import type { Ranked, Standing, Ties } from "../evaluation/boards/ranks.ts";

/**
 * Start of a sequence of neighbours that is to be numbered: position and displayed rank of its first member.
 */
export type RunStart = { ties: Ties; position: number; rank: number };

/** Numbers consecutive members in storage order. */
export const numberStandings = (
  { ties, position, rank }: RunStart,
  members: readonly Ranked[],
): Standing[] => {
  const standings: Standing[] = [];
  for (const [i, member] of members.entries()) {
    const before = standings[i - 1];
    const at = position + i;
    standings.push({ ...member, position: at, rank: before ? rankAfter(ties, before, member, at) : rank });
  }
  return standings;
};

const rankAfter = (ties: Ties, before: Standing, member: Ranked, position: number): number => {
  if (ties === "EARLIEST" || ties === "LATEST") return position + 1;
  if (member.rankScore === before.rankScore) return before.rank;
  return ties === "SHARED" ? position + 1 : before.rank + 1;
};

/**
 * Returns the first position of a window of `limit` around `position`: the player is in the middle, except
 * near the ends.
 */
export const windowStart = (position: number, total: number, limit: number): number =>
  Math.max(0, Math.min(position - Math.floor((limit - 1) / 2), total - limit));
