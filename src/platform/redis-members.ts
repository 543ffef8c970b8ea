import type { Ranked } from "../domain/evaluation/boards/ranks.ts";

/**
 * Ties may be negative; in a member they are shifted by this, so that 14 hex digits sort as the numbers do.
 */
const TIE_OFFSET = 2n ** 55n;

export const hexOf = (tie: number): string => (BigInt(tie) + TIE_OFFSET).toString(16).padStart(14, "0");
/** Computes a tie from the two halves of its hex digits: each is exact, and so is the sum. */
export const tieOf = (high: number, low: number): number => (high - 2 ** 27) * 2 ** 28 + low;

/** Parses an entry of a sorted set, whose members are `tie:player`. */
export const rankedOf = (member: string, score: string): Ranked => ({
  playerId: member.slice(15),
  rankScore: Number(score),
  rankTie: tieOf(Number.parseInt(member.slice(0, 7), 16), Number.parseInt(member.slice(7, 14), 16)),
});
