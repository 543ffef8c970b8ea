import { Catalogue, heldCatalogue, loadCatalogue } from "../definitions/catalogue.ts";
import { loadDefinitionsNamed } from "../../progression/load-definitions.ts";
import { type Reference, UnknownReference } from "../definitions/references.ts";
import { invalid } from "../../kernel/errors.ts";
import type { Work } from "../../kernel/work.ts";
import { namesOfBundle, type RewardBundle } from "../../evaluation/rewards/bundle.ts";
import { type Giver, GivingGraph } from "../../evaluation/rewards/reward-graph.ts";

/** A bundle and the field that contains it, such as `tiers.0.rewards`. */
export type BundleField = { bundle: RewardBundle; field: string };

/**
 * A definition that gives bundles. A badge, a reward or a level can be given by others, so it must not give
 * itself indirectly; `tiers`: number of a badge's tiers.
 */
export type BundlesOf = {
  kind: "badge" | "reward" | "level" | "streak" | "grant";
  key: string;
  bundles: readonly BundleField[];
  tiers?: number;
  /** Whether the badge or reward exists already, so that others may give it. */
  isKnown?: boolean;
};

const graphs = new WeakMap<Catalogue, GivingGraph>();

/** The graph of what gives what, built once for each catalogue. */
const graphOf = (catalogue: Catalogue): GivingGraph => {
  const graph = graphs.get(catalogue) ?? new GivingGraph(giversOf(catalogue));
  graphs.set(catalogue, graph);
  return graph;
};

/**
 * Refuses bundles with unknown names, that give themselves indirectly, or that give too much at once. Reads
 * what the bundles name and what that gives in turn, one statement per depth; for a giver that others may
 * give, all definitions of the project. Reads nothing for bundles that name nothing, or where the transaction
 * has a catalogue: there it records the giver as changed, so it must be called after all other checks.
 * @throws DomainError VALIDATION_ERROR naming the field
 */
export const checkBundles = async (work: Work, projectId: string, given: BundlesOf): Promise<void> => {
  const held = heldCatalogue(work, projectId);
  if (!held && isPlain(given)) return;
  const load = given.isKnown === true ? loadCatalogue : loadGiven(given);
  const catalogue = held ?? (await load(work, projectId));
  checkNames(catalogue, given);
  graphOf(catalogue).put(given);
};

/** Bundles without names cannot form a cycle; but a badge or reward that others give may now give XP. */
const isPlain = ({ bundles }: BundlesOf): boolean =>
  bundles.every((one) => namesOf(one).length === 0 && one.bundle.xp === undefined);

type Name = Reference & { tier?: number | undefined };

const namesOf = ({ bundle, field }: BundleField): Name[] =>
  namesOfBundle(bundle).map(({ at, kind, key, tier }) => ({ field: `${field}.${at}`, kind, key, tier }));

/** Reads the definitions that bundles name, with everything that those give in turn. */
const loadGiven =
  ({ bundles }: BundlesOf) =>
  async (work: Work, projectId: string): Promise<Catalogue> => {
    const catalogue = new Catalogue(new Map());
    const seen = new Set<string>();
    let names = bundles.flatMap(namesOf);
    while (names.length > 0) {
      for (const { kind, key } of names) seen.add(`${kind} ${key}`);
      const found = await loadDefinitionsNamed(work, projectId, names);
      for (const [kind, ofKind] of found) for (const stored of ofKind) catalogue.put(kind, stored);
      const given = giversOf(new Catalogue(found)).flatMap((giver) => giver.bundles);
      names = given
        .flatMap((bundle) => namesOf({ bundle, field: "" }))
        .filter(({ kind, key }) => !seen.has(`${kind} ${key}`));
    }
    return catalogue;
  };

const checkNames = (catalogue: Catalogue, given: BundlesOf): void => {
  const isOwn = ({ kind, key }: Name): boolean => kind === given.kind && key === given.key;
  const names = given.bundles.flatMap(namesOf);
  const missing = names.filter((name) => !isOwn(name) && !catalogue.get(name.kind, name.key));
  const [first, ...others] = missing;
  if (first) throw new UnknownReference([first, ...others]);
  for (const name of names) {
    const found = catalogue.get(name.kind, name.key)?.definition as { tiers?: unknown[] } | undefined;
    checkTier(name, (isOwn(name) ? given.tiers : found?.tiers?.length) ?? Infinity);
  }
};

const checkTier = ({ field, key, tier = 1 }: Name, tiers: number): void => {
  if (tier > tiers) throw invalid(field.replace(/badgeKey$/, "tier"), `the badge ${key} has ${tiers} tiers`);
};

const giverOf = (kind: Giver["kind"], key: string, bundles: (RewardBundle | undefined)[]): Giver => ({
  kind,
  key,
  bundles: bundles.filter((bundle) => bundle !== undefined),
});

/** Returns everything in a project that gives bundles. */
const giversOf = (catalogue: Catalogue): Giver[] => {
  const all = <D>(kind: string): D[] =>
    catalogue.all(kind).map(({ definition }) => definition as unknown as D);
  type Keyed<T> = { key: string } & T;
  return [
    ...all<Keyed<{ bundle?: RewardBundle }>>("reward").map(({ key, bundle }) =>
      giverOf("reward", key, [bundle]),
    ),
    ...all<Keyed<{ tiers: { rewards: RewardBundle }[] }>>("badge").map(({ key, tiers }) =>
      giverOf(
        "badge",
        key,
        tiers.map(({ rewards }) => rewards),
      ),
    ),
    ...all<Keyed<{ rewards: RewardBundle }>>("level").map(({ key, rewards }) =>
      giverOf("level", key, [rewards]),
    ),
    ...all<Keyed<{ milestones?: { rewards: RewardBundle }[] }>>("streak").map(({ key, milestones = [] }) =>
      giverOf(
        "streak",
        key,
        milestones.map(({ rewards }) => rewards),
      ),
    ),
  ];
};
