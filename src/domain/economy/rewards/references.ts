import {
  ProjectDefinitions,
  sharedDefinitions,
  loadProjectDefinitions,
} from "../definitions/project-definitions.ts";
import { loadDefinitionsNamed } from "../../progression/load-definitions.ts";
import { type Reference, UnknownReference } from "../definitions/references.ts";
import { invalid } from "../../kernel/errors.ts";
import type { Work } from "../../kernel/work.ts";
import { localKey } from "../../kernel/work-state.ts";
import { namesOfBundle, type RewardBundle } from "../../evaluation/rewards/bundle.ts";
import { type Giver, GivingGraph } from "../../evaluation/rewards/reward-graph.ts";

/** A bundle and the field that contains it, such as `tiers.0.rewards`. */
export type BundleField = { bundle: RewardBundle; field: string };

/**
 * A definition that gives bundles. A badge, a reward or a level can be given by others, so it must not give
 * itself indirectly; `tiers`: number of a badge's tiers.
 */
export type BundlesOf = {
  kind: "badge" | "reward" | "level" | "streak" | "quest" | "adventure" | "grant";
  key: string;
  bundles: readonly BundleField[];
  tiers?: number;
  /** Whether the badge or reward exists already, so that others may give it. */
  isKnown?: boolean;
};

/** The graphs of what gives what, one for all checks that share the definitions of a project. */
const GRAPHS = localKey("giving graphs", () => new Map<ProjectDefinitions, GivingGraph>());

const sharedGraph = ({ local }: Work, shared: ProjectDefinitions): GivingGraph => {
  const graphs = local.get(GRAPHS);
  const graph = graphs.get(shared) ?? new GivingGraph(giversOf(shared));
  graphs.set(shared, graph);
  return graph;
};

/**
 * Refuses bundles with unknown names, that give themselves indirectly, or that give too much at once. Reads
 * what the bundles name and what that gives in turn, one statement per depth; for a giver that others may
 * give, all definitions of the project. Reads nothing for bundles that name nothing, or where the transaction
 * shares its definitions: there it records the giver as changed, so it must be called after all other checks.
 * @throws DomainError VALIDATION_ERROR naming the field
 */
export const checkBundles = async (work: Work, projectId: string, given: BundlesOf): Promise<void> => {
  const shared = sharedDefinitions(work, projectId);
  if (!shared && isPlain(given)) return;
  const load = given.isKnown === true ? loadProjectDefinitions : loadGiven(given);
  const definitions = shared ?? (await load(work, projectId));
  checkNames(definitions, given);
  const graph = shared ? sharedGraph(work, shared) : new GivingGraph(giversOf(definitions));
  graph.put(given);
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
  async (work: Work, projectId: string): Promise<ProjectDefinitions> => {
    const definitions = new ProjectDefinitions(new Map());
    const seen = new Set<string>();
    let names = bundles.flatMap(namesOf);
    while (names.length > 0) {
      for (const { kind, key } of names) seen.add(`${kind} ${key}`);
      const found = await loadDefinitionsNamed(work, projectId, names);
      for (const [kind, ofKind] of found) for (const stored of ofKind) definitions.put(kind, stored);
      const given = giversOf(new ProjectDefinitions(found)).flatMap((giver) => giver.bundles);
      names = given
        .flatMap((bundle) => namesOf({ bundle, field: "" }))
        .filter(({ kind, key }) => !seen.has(`${kind} ${key}`));
    }
    return definitions;
  };

const checkNames = (definitions: ProjectDefinitions, given: BundlesOf): void => {
  const isOwn = ({ kind, key }: Name): boolean => kind === given.kind && key === given.key;
  const names = given.bundles.flatMap(namesOf);
  const missing = names.filter((name) => !isOwn(name) && !definitions.get(name.kind, name.key));
  const [first, ...others] = missing;
  if (first) throw new UnknownReference([first, ...others]);
  for (const name of names.filter(({ kind }) => kind === "badge")) {
    const found = definitions.get(name.kind, name.key)?.definition as { tiers?: unknown[] } | undefined;
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
const giversOf = (definitions: ProjectDefinitions): Giver[] => {
  const all = <D>(kind: string): D[] =>
    definitions.all(kind).map(({ definition }) => definition as unknown as D);
  type Keyed<T> = { key: string } & T;
  type Tiered = Keyed<{ rewards: RewardBundle; tiers: { free?: RewardBundle; premium?: RewardBundle }[] }>;
  type Given = Keyed<{ rewards: RewardBundle; steps: { rewards?: RewardBundle }[] }>;
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
    ...all<Given>("quest").map(({ key, rewards, steps }) =>
      giverOf("quest", key, [rewards, ...steps.map((step) => step.rewards)]),
    ),
    ...all<Tiered>("adventure").map(({ key, rewards, tiers }) =>
      giverOf("adventure", key, [rewards, ...tiers.flatMap(({ free, premium }) => [free, premium])]),
    ),
  ];
};
