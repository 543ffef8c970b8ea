import { invalid } from "../errors.ts";
import type { RewardBundle } from "./bundle.ts";

/** How deep rewards may give rewards: a bundle in a bundle is 2. */
export const BUNDLE_DEPTH_MAX = 5;
/** Bundles that one bundle may give with all that is in it, each counted once. */
export const BUNDLE_SIZE_MAX = 100;

/** What gives bundles. */
export type Giver = {
  kind: "badge" | "reward" | "level" | "streak" | "grant";
  key: string;
  bundles: readonly RewardBundle[];
};

/** What a giver comes to with all that it gives in turn. */
type Reach = { depth: number; size: number; givesXp: boolean };

const NOTHING: Reach = { depth: 0, size: 0, givesXp: false };
const nameOf = ({ kind, key }: Pick<Giver, "kind" | "key">): string => `${kind} ${key}`;

const childrenOf = ({ badges = [], rewards = [] }: RewardBundle): string[] => [
  ...badges.map(({ badgeKey }) => `badge ${badgeKey}`),
  ...rewards.map(({ rewardKey }) => `reward ${rewardKey}`),
];

/** Walks what gives what. @throws Ring with the names on it */
const createWalk = (givers: ReadonlyMap<string, Giver>) => {
  const known = new Map<string, Reach>();
  const path: string[] = [];
  const ofBundle = (bundle: RewardBundle): Reach => {
    const children = childrenOf(bundle);
    if (children.length === 0 && Object.keys(bundle).length === 0) return NOTHING;
    const reached = children.map(of);
    return {
      depth: 1 + Math.max(0, ...reached.map(({ depth }) => depth)),
      size: reached.reduce((sum, { size }) => sum + size, 1),
      givesXp: bundle.xp !== undefined || reached.some(({ givesXp }) => givesXp),
    };
  };
  const of = (name: string): Reach => {
    const before = known.get(name);
    if (before) return before;
    if (path.includes(name)) throw new Ring([...path.slice(path.indexOf(name)), name]);
    path.push(name);
    const bundles = (givers.get(name)?.bundles ?? []).map(ofBundle);
    path.pop();
    const reach = {
      depth: Math.max(0, ...bundles.map(({ depth }) => depth)),
      size: bundles.reduce((sum, { size }) => sum + size, 0),
      givesXp: bundles.some(({ givesXp }) => givesXp),
    };
    known.set(name, reach);
    return reach;
  };
  return of;
};

class Ring extends Error {
  readonly names: readonly string[];
  constructor(names: readonly string[]) {
    super(names.join(" gives "));
    this.names = names;
  }
}

/**
 * Refuses what would give itself through others, be too deep or too much, or give XP for a level (which could
 * reach the next one and so on), for the giver in hand and for all that give it.
 * @param givers what gives in the project; `given` takes the place of the one with its name
 * @throws DomainError VALIDATION_ERROR
 */
export const checkGiving = (
  givers: readonly Giver[],
  given: { kind: Giver["kind"]; key: string; bundles: readonly { bundle: RewardBundle; field: string }[] },
): void => {
  const field = given.bundles[0]?.field ?? given.kind;
  const own: Giver = { kind: given.kind, key: given.key, bundles: given.bundles.map(({ bundle }) => bundle) };
  const byName = new Map([...givers, own].map((giver) => [nameOf(giver), giver]));
  const reachOf = createWalk(byName);
  try {
    for (const [name, { kind }] of byName) {
      const problem = problemOf(reachOf(name), kind);
      if (problem !== undefined) throw invalid(field, `${name}: ${problem}`);
    }
  } catch (error) {
    throw error instanceof Ring ? invalid(field, `gives itself: ${error.message}`) : error;
  }
};

const problemOf = ({ depth, size, givesXp }: Reach, kind: Giver["kind"]): string | undefined => {
  if (depth > BUNDLE_DEPTH_MAX) return `rewards may be ${BUNDLE_DEPTH_MAX} inside one another, not ${depth}`;
  if (size > BUNDLE_SIZE_MAX)
    return `gives ${size} bundles with all in them; ${BUNDLE_SIZE_MAX} are the most`;
  return kind === "level" && givesXp ? "a level cannot give XP, through other rewards either" : undefined;
};
