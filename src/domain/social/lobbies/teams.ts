import { hash } from "node:crypto";
import type { LobbyTeams } from "../../kernel/events/lobby-views.ts";

export type TeamPlayer = { playerId: string; rating: number };
export type TeamSlot = { team: number; slot: number };

/** Returns a number below `n` derived from the seed and a step. */
const pick = (seed: string, step: number, n: number): number =>
  Number.parseInt(hash("sha256", `${seed}:${step}`, "hex").slice(0, 12), 16) % n;

/** Fisher-Yates shuffle, determined by the seed. */
export const shuffle = <T>(items: readonly T[], seed: string): T[] => {
  const mixed = [...items];
  for (let i = mixed.length - 1; i > 0; i--) {
    const j = pick(seed, i, i + 1);
    [mixed[i], mixed[j]] = [mixed[j]!, mixed[i]!];
  }
  return mixed;
};

/** Deals players to teams 1 2 3, 3 2 1, 1 2 3 …: late in one round means early in the next. */
const snake = (players: readonly TeamPlayer[], count: number): TeamPlayer[][] => {
  const teams: TeamPlayer[][] = Array.from({ length: count }, () => []);
  players.forEach((player, i) => {
    const [round, place] = [Math.floor(i / count), i % count];
    teams[round % 2 === 0 ? place : count - 1 - place]!.push(player);
  });
  return teams;
};

const sumOf = (team: readonly TeamPlayer[]): number => team.reduce((sum, { rating }) => sum + rating, 0);

/** Returns the difference between the strongest and the weakest team. */
export const spreadOf = (teams: readonly (readonly TeamPlayer[])[]): number => {
  const sums = teams.map(sumOf);
  return Math.max(...sums) - Math.min(...sums);
};

type Swap = { a: number; b: number; spread: number };

/** Returns the swap between the strongest and the weakest team that lowers the spread most. */
const bestSwap = (
  strong: readonly TeamPlayer[],
  weak: readonly TeamPlayer[],
  sums: number[],
): Swap | undefined => {
  const [high, low] = [sumOf(strong), sumOf(weak)];
  let best: Swap | undefined;
  let spread = Math.max(...sums, high, low) - Math.min(...sums, high, low);
  for (const [a, { rating: mine }] of strong.entries())
    for (const [b, { rating: theirs }] of weak.entries()) {
      const next = [...sums, high - mine + theirs, low + mine - theirs];
      const after = Math.max(...next) - Math.min(...next);
      if (after < spread) [best, spread] = [{ a, b, spread: after }, after];
    }
  return best;
};

/** Swaps players of the strongest and the weakest team while that lowers the spread, n² times at most. */
const level = (teams: TeamPlayer[][], n: number): void => {
  for (let i = 0; i < n * n; i++) {
    const order = teams.toSorted((a, b) => sumOf(b) - sumOf(a));
    const [strong, weak] = [order[0]!, order.at(-1)!];
    const swap = strong === weak ? undefined : bestSwap(strong, weak, order.slice(1, -1).map(sumOf));
    if (!swap) return;
    [strong[swap.a], weak[swap.b]] = [weak[swap.b]!, strong[swap.a]!];
  }
};

const deal = (players: readonly TeamPlayer[], count: number): TeamPlayer[][] => {
  const teams: TeamPlayer[][] = Array.from({ length: count }, () => []);
  for (const [i, player] of players.entries()) teams[i % count]!.push(player);
  return teams;
};

/**
 * Assigns every player a team and a slot in it, both from 1; team sizes differ by one player at most. RANDOM
 * is determined by the seed. BALANCED depends on nothing but ratings and ids.
 */
export const assignTeams = (
  players: readonly TeamPlayer[],
  { count, assignment }: LobbyTeams,
  seed: string,
): Map<string, TeamSlot> => {
  const teams = assignment === "RANDOM" ? deal(shuffle(players, seed), count) : balance(players, count);
  return new Map(
    teams.flatMap((team, t) =>
      team.map(({ playerId }, s) => [playerId, { team: t + 1, slot: s + 1 }] as const),
    ),
  );
};

/** Returns teams of similar strength. */
export const balance = (players: readonly TeamPlayer[], count: number): TeamPlayer[][] => {
  const sorted = players.toSorted(
    (a, b) => b.rating - a.rating || Number(a.playerId > b.playerId) - Number(a.playerId < b.playerId),
  );
  const teams = snake(sorted, count);
  level(teams, players.length);
  return teams;
};
