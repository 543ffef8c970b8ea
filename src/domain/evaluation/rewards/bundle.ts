import { z } from "zod";
import { Description, IconUrl, Key, Name } from "../language/syntax.ts";
import { BUNDLE_PARTS, type BundlePart, type PartName, type PartOfBundle } from "./parts.ts";
import { invalid } from "../../kernel/errors.ts";
import type { Cause } from "../../kernel/events/events.ts";
import { isEmptySpan, IsoTime } from "../../kernel/iso-time.ts";

const optional = Object.fromEntries(
  Object.entries(BUNDLE_PARTS).map(([name, { schema }]) => [name, schema.optional()]),
) as { [P in PartOfBundle]: z.ZodOptional<(typeof BUNDLE_PARTS)[P]["schema"]> };

/** Items granted together: by levels, badges, streaks, the catalogue and manually. */
export const RewardBundle = z.strictObject(optional).meta({ id: "RewardBundle" });
export type RewardBundle = z.output<typeof RewardBundle>;

export type BundleGrant = {
  bundle: RewardBundle;
  cause: Cause;
  /** Deterministic; each part appends its own name: `lvl:5` becomes `lvl:5:xp`. */
  key: string;
  reason: string;
};

const isEmpty = (part: unknown): boolean =>
  part === undefined ||
  (Array.isArray(part) ? part.length === 0 : typeof part === "object" && Object.keys(part!).length === 0);

/** Returns whether a bundle grants nothing. */
export const isEmptyBundle = (bundle: RewardBundle): boolean => Object.values(bundle).every(isEmpty);

type AnyPart = BundlePart<z.ZodType>;

const PARTS = Object.entries(BUNDLE_PARTS) as unknown as readonly (readonly [PartOfBundle, AnyPart])[];

/** Returns the parts that a bundle has. */
const partsOf = (bundle: RewardBundle): { name: PartOfBundle; part: AnyPart; value: unknown }[] =>
  PARTS.filter(([name]) => bundle[name] !== undefined).map(([name, part]) => ({
    name,
    part,
    value: bundle[name],
  }));

/** Multiplies a bundle, each part capped at its maximum. */
export const multiplyBundle = (bundle: RewardBundle, times: number): RewardBundle =>
  times === 1
    ? bundle
    : Object.fromEntries(partsOf(bundle).map(({ name, part, value }) => [name, part.times(value, times)]));

/** Sums bundles for display; null for nothing. */
export const sumBundles = (bundles: readonly RewardBundle[]): RewardBundle | null => {
  const given = PARTS.flatMap(([name, part]) => {
    const values = bundles.map((bundle) => bundle[name]).filter((value) => !isEmpty(value));
    return values.length === 0 ? [] : [[name, part.sum(values)]];
  });
  return given.length === 0 ? null : Object.fromEntries(given);
};

/**
 * Returns the definitions that a bundle names, each with its path from the bundle, such as
 * `badges.0.badgeKey`.
 */
export const namesOfBundle = (bundle: RewardBundle): PartName[] =>
  partsOf(bundle).flatMap(({ name, part, value }) =>
    part.names(value).map((named) => ({ ...named, at: `${name}.${named.at}` })),
  );

/** Returns the possible effects of granting a bundle; see causes.ts. */
export const causesOfBundle = (bundle: RewardBundle): string[] =>
  partsOf(bundle).flatMap(({ part, value }) => [...part.causes(value)]);

/** Maximum nesting of rewards: a bundle in a bundle is 2. */
export const BUNDLE_DEPTH_MAX = 5;
/** Maximum bundles that one bundle may grant, including nested ones, each counted once. */
export const BUNDLE_SIZE_MAX = 100;
/** The same for all tiers of an adventure together. */
const ADVENTURE_BUNDLES_MAX = 400;

/** A definition that grants bundles. */
export type Giver = {
  kind: "badge" | "reward" | "level" | "streak" | "quest" | "adventure" | "grant";
  key: string;
  bundles: readonly RewardBundle[];
};

/** Totals of a giver, including everything that it grants indirectly. */
type Reach = { depth: number; size: number; givesXp: boolean };

const NOTHING: Reach = { depth: 0, size: 0, givesXp: false };
const nameOf = ({ kind, key }: Pick<Giver, "kind" | "key">): string => `${kind} ${key}`;

/** Kinds named in bundles that grant bundles in turn. */
const GIVERS: ReadonlySet<string> = new Set<Giver["kind"]>(["badge", "reward"]);

const childrenOf = (bundle: RewardBundle): string[] =>
  namesOfBundle(bundle)
    .filter(({ kind }) => GIVERS.has(kind))
    .map(({ kind, key }) => `${kind} ${key}`);

const namesGiven = ({ bundles }: Giver): string[] => bundles.flatMap(childrenOf);

class CycleError extends Error {}

const sameReach = (a: Reach, b: Reach): boolean =>
  a.depth === b.depth && a.size === b.size && a.givesXp === b.givesXp;

const totalOf = (reached: readonly Reach[]): Reach => ({
  depth: Math.max(0, ...reached.map(({ depth }) => depth)),
  size: reached.reduce((sum, { size }) => sum + size, 0),
  givesXp: reached.some(({ givesXp }) => givesXp),
});

/** A giver to be added, and the fields that contain its bundles. */
type Giving = {
  kind: Giver["kind"];
  key: string;
  bundles: readonly { bundle: RewardBundle; field: string }[];
};

/**
 * Graph of what grants what in a project, maintained incrementally: a change costs as much as it may affect,
 * which is the giver itself and all that grant it.
 */
export class GivingGraph {
  readonly #givers = new Map<string, Giver>();
  readonly #givenBy = new Map<string, Set<string>>();
  readonly #known = new Map<string, Reach>();
  readonly #path: string[] = [];

  constructor(givers: readonly Giver[]) {
    for (const giver of givers) this.#set(nameOf(giver), giver);
  }

  /**
   * Adds or replaces a giver. Rejects cycles, excessive depth or size, and XP granted for a level (which
   * could reach the next one and so on), for this giver and for all that grant it; then the graph is
   * unchanged.
   * @throws DomainError VALIDATION_ERROR
   */
  put({ kind, key, bundles }: Giving): void {
    const name = nameOf({ kind, key });
    const before = this.#givers.get(name);
    const own: Giver = { kind, key, bundles: bundles.map(({ bundle }) => bundle) };
    if (before && this.#isAlike(name, before, own)) {
      this.#givers.set(name, own);
      return;
    }
    const affected = this.#above(name);
    const reached = affected.map((one) => this.#known.get(one));
    this.#set(name, own);
    for (const one of affected) this.#known.delete(one);
    try {
      this.#check(affected, bundles[0]?.field ?? kind);
    } catch (error) {
      this.#path.length = 0;
      this.#set(name, before);
      affected.forEach((one, i) => {
        if (reached[i]) this.#known.set(one, reached[i]);
        else this.#known.delete(one);
      });
      throw error;
    }
  }

  #check(names: readonly string[], field: string): void {
    try {
      for (const name of names) {
        const giver = this.#givers.get(name);
        const problem = giver && problemOf(this.#reachOf(name), giver.kind);
        if (problem !== undefined) throw invalid(field, `${name}: ${problem}`);
      }
    } catch (error) {
      throw error instanceof CycleError ? invalid(field, `gives itself: ${error.message}`) : error;
    }
  }

  /** Returns whether nothing changes for what grants it: it grants the same things, with the same totals. */
  #isAlike(name: string, before: Giver, own: Giver): boolean {
    const known = this.#known.get(name);
    if (!known || namesGiven(before).join() !== namesGiven(own).join()) return false;
    return sameReach(known, this.#sumOf(own));
  }

  #set(name: string, giver: Giver | undefined): void {
    const before = this.#givers.get(name);
    for (const child of before ? namesGiven(before) : []) this.#givenBy.get(child)?.delete(name);
    if (!giver) {
      this.#givers.delete(name);
      return;
    }
    this.#givers.set(name, giver);
    for (const child of namesGiven(giver)) {
      const above = this.#givenBy.get(child);
      if (above) above.add(name);
      else this.#givenBy.set(child, new Set([name]));
    }
  }

  /** Returns a name and those of all that grant it, which come first. */
  #above(name: string): string[] {
    const found = new Set([name]);
    for (const one of found) for (const above of this.#givenBy.get(one) ?? []) found.add(above);
    return [...found].toReversed();
  }

  /** @throws CycleError with the names on it */
  #reachOf(name: string): Reach {
    const known = this.#known.get(name);
    if (known) return known;
    const path = this.#path;
    if (path.includes(name)) throw new CycleError([...path.slice(path.indexOf(name)), name].join(" gives "));
    path.push(name);
    const giver = this.#givers.get(name);
    const reach = giver ? this.#sumOf(giver) : NOTHING;
    path.pop();
    this.#known.set(name, reach);
    return reach;
  }

  #sumOf({ bundles }: Giver): Reach {
    return totalOf(bundles.map((bundle) => this.#reachOfBundle(bundle)));
  }

  #reachOfBundle(bundle: RewardBundle): Reach {
    const children = childrenOf(bundle);
    if (children.length === 0 && Object.keys(bundle).length === 0) return NOTHING;
    const { depth, size, givesXp } = totalOf(children.map((name) => this.#reachOf(name)));
    return { depth: depth + 1, size: size + 1, givesXp: givesXp || bundle.xp !== undefined };
  }
}

const problemOf = ({ depth, size, givesXp }: Reach, kind: Giver["kind"]): string | undefined => {
  if (depth > BUNDLE_DEPTH_MAX) return `rewards may be nested ${BUNDLE_DEPTH_MAX} deep, not ${depth}`;
  const max = kind === "adventure" ? ADVENTURE_BUNDLES_MAX : BUNDLE_SIZE_MAX;
  if (size > max) return `gives ${size} bundles with all in them; ${max} are the most`;
  return kind === "level" && givesXp ? "a level cannot give XP, through other rewards either" : undefined;
};

/** Maximum pieces of a reward, for its stock and for each player. */
const PIECES_MAX = 1_000_000_000;

export const rewardShape = z.strictObject({
  key: Key,
  name: Name,
  description: Description.optional(),
  iconUrl: IconUrl.optional(),
  kind: z.enum(["BUNDLE", "PRIZE"], { error: "must be BUNDLE or PRIZE; MYSTERY_BOX is not available yet" }),
  bundle: RewardBundle.optional().meta({ description: "The contents of a BUNDLE" }),
  fulfilment: z.enum(["CODE", "EXTERNAL"]).optional().meta({
    description: "For kind PRIZE. CODE: a code of its pool; EXTERNAL: you deliver it and confirm with fulfil",
  }),
  price: z
    .strictObject({ currencyKey: Key, amount: z.int().min(1).max(Number.MAX_SAFE_INTEGER) })
    .optional()
    .meta({ description: "A reward without a price can only be granted, not bought" }),
  stock: z
    .int()
    .min(0)
    .max(PIECES_MAX)
    .optional()
    .meta({ description: "Maximum number granted to all players in total, including earlier grants" }),
  perPlayerLimit: z.int().min(1).max(PIECES_MAX).optional(),
  availableFrom: IsoTime.optional(),
  availableUntil: IsoTime.optional(),
  claimSeconds: z
    .int()
    .min(60)
    .max(31_536_000)
    .optional()
    .meta({ description: "How long a grant can be claimed; default: without limit" }),
});
type RewardShape = z.output<typeof rewardShape>;

const kindFault = ({ kind, bundle, fulfilment }: RewardShape): [string, string] | undefined => {
  if (kind === "BUNDLE") {
    if (!bundle || isEmptyBundle(bundle)) return ["bundle", "must give something: the kind is BUNDLE"];
    return fulfilment === undefined ? undefined : ["fulfilment", "is for the kind PRIZE"];
  }
  if (fulfilment === undefined) return ["fulfilment", "must be CODE or EXTERNAL: the kind is PRIZE"];
  return bundle ? ["bundle", "is for the kind BUNDLE"] : undefined;
};

/** A reward of the catalogue. */
export const Reward = rewardShape.superRefine((reward, context) => {
  const fault = kindFault(reward);
  if (fault) context.addIssue({ code: "custom", path: [fault[0]], message: fault[1] });
  if (isEmptySpan(reward.availableFrom, reward.availableUntil))
    context.addIssue({ code: "custom", path: ["availableUntil"], message: "must be after availableFrom" });
});
export type Reward = z.output<typeof Reward>;
