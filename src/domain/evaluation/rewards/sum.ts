import type { RewardBundle } from "./bundle.ts";

const total = (amounts: readonly (number | undefined)[]): number | undefined => {
  const given = amounts.filter((amount) => amount !== undefined);
  return given.length === 0
    ? undefined
    : Math.min(
        Number.MAX_SAFE_INTEGER,
        given.reduce((sum, amount) => sum + amount, 0),
      );
};

const totals = (
  records: readonly (Readonly<Record<string, number>> | undefined)[],
): Record<string, number> | undefined => {
  const keys = new Set(records.flatMap((record) => Object.keys(record ?? {})));
  return keys.size === 0
    ? undefined
    : Object.fromEntries([...keys].map((key) => [key, total(records.map((record) => record?.[key]))!]));
};

const all = <T>(lists: readonly (readonly T[] | undefined)[]): T[] | undefined => {
  const items = lists.flatMap((list) => list ?? []);
  return items.length === 0 ? undefined : items;
};

const livesOf = (lives: readonly RewardBundle["lives"][]): RewardBundle["lives"] =>
  lives.includes("FULL") ? "FULL" : total(lives.map((one) => (one === "FULL" ? undefined : one)));

/** What several bundles come to together, to be shown; null for nothing. */
export const sumBundles = (bundles: readonly RewardBundle[]): RewardBundle | null => {
  const sum: RewardBundle = {
    xp: total(bundles.map(({ xp }) => xp)),
    currencies: totals(bundles.map(({ currencies }) => currencies)),
    lives: livesOf(bundles.map(({ lives }) => lives)),
    badges: all(bundles.map(({ badges }) => badges)),
    boosts: all(bundles.map(({ boosts }) => boosts)),
    streakFreezes: totals(bundles.map(({ streakFreezes }) => streakFreezes)),
    rewards: all(bundles.map(({ rewards }) => rewards)),
    addTags: all(bundles.map(({ addTags }) => addTags)),
  };
  const given = Object.entries(sum).filter(([, part]) => part !== undefined);
  return given.length === 0 ? null : Object.fromEntries(given);
};
