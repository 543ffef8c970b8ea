import { sql } from "kysely";
import { z } from "zod";
import { auditDefinition } from "../../accounts/audit/audit.ts";
import { definitionKind } from "../definitions/definitions.ts";
import {
  checkActiveKey,
  loadProjectDefinitions,
  ProjectDefinitions,
  type Reference,
  sharedDefinitions,
  UnknownReference,
} from "../definitions/references.ts";
import {
  type Giver,
  GivingGraph,
  namesOfBundle,
  Reward,
  type RewardBundle,
  rewardShape,
} from "../../evaluation/rewards/bundle.ts";
import { grantBundle, limitedKey, type LimitedKind } from "../../evaluation/rewards/shared-keys.ts";
import type { Turn } from "../../evaluation/turn.ts";
import { ADMINS } from "../../kernel/caller.ts";
import { invalid } from "../../kernel/errors.ts";
import { throwUnlessOwn } from "../../kernel/outages.ts";
import { localKey, savepoint, type Work } from "../../kernel/work.ts";
import {
  type JobInProgress,
  jobKind,
  type ProjectJob,
  queueJob,
  type Step,
} from "../../long-work/project-jobs.ts";
import { changePlayers } from "../../progression/change.ts";
import { loadDefinitionsNamed } from "../../progression/load-plan.ts";
import { fittingPlayers } from "../../progression/load-states.ts";

/** Number of players per step. */
const PAGE = 200;

const Params = z.object({
  segmentKey: z.string().optional(),
  playerIds: z.array(z.string()).optional(),
  /** Validated when the job was started: the schema may have changed since. */
  bundle: z.custom<RewardBundle>((given) => typeof given === "object" && given !== null),
  reason: z.string(),
});
type Params = z.output<typeof Params>;

/** Progress of the job; `offset` is into playerIds, `after` the last player of the segment. */
const State = z.object({
  offset: z.int().default(0),
  after: z.string().nullable().default(null),
  granted: z.int().default(0),
  skipped: z.int().default(0),
  failed: z.int().default(0),
});
type State = z.output<typeof State>;

const nextPage = async (
  { db }: Work,
  projectId: string,
  { segmentKey, playerIds }: Params,
  { offset, after }: State,
): Promise<string[]> => {
  if (playerIds) return playerIds.slice(offset, offset + PAGE);
  const found = await sql<{ player_id: string }>`
    select player_id from player_segments
    where project_id = ${projectId} and segment_key = ${segmentKey!}
      and (${after}::uuid is null or player_id > ${after}::uuid)
    order by player_id limit ${PAGE}`.execute(db);
  return found.rows.map(({ player_id }) => player_id);
};

/** @returns whether the grant was made: players who are not ACTIVE get none */
const give =
  ({ id, params: { bundle, reason }, createdBy }: JobInProgress<Params>) =>
  (turn: Turn): boolean => {
    if (turn.player.status !== "ACTIVE") return false;
    const cause = { kind: "API" as const, actor: createdBy, refId: id, note: reason };
    // The job's id prevents a second grant to a player, whatever happens to the job's state.
    grantBundle(turn, { bundle, cause, key: `bulk:${id}`, reason });
    return true;
  };

type Counts = Pick<State, "granted" | "skipped" | "failed">;

const givePage = async (
  work: Work,
  job: JobInProgress<Params>,
  playerIds: readonly string[],
): Promise<Counts> => {
  const { projectId } = job;
  const changed = await changePlayers(work, projectId, playerIds, give(job));
  const granted = changed.filter(({ value }) => value).length;
  return { granted, skipped: playerIds.length - granted, failed: 0 };
};

/** One by one, so that a failing player does not keep the others from getting it. */
const giveEach = async (
  work: Work,
  job: JobInProgress<Params>,
  playerIds: readonly string[],
): Promise<Counts> => {
  const counts = { granted: 0, skipped: 0, failed: 0 };
  for (const playerId of playerIds) {
    try {
      const { granted, skipped } = await savepoint(work, () => givePage(work, job, [playerId]));
      counts.granted += granted;
      counts.skipped += skipped;
    } catch (error) {
      throwUnlessOwn(error);
      counts.failed++;
    }
  }
  return counts;
};

const runStep = async (work: Work, job: JobInProgress<Params>): Promise<Step> => {
  const state = State.parse(job.state);
  const { granted, skipped, failed } = state;
  const named = await nextPage(work, job.projectId, job.params, state);
  const page = await fittingPlayers(work, job.projectId, named);
  if (page.length === 0) return { result: { granted, skipped, failed } };
  const counts = await savepoint(work, () => givePage(work, job, page)).catch((error: unknown) => {
    throwUnlessOwn(error);
    return giveEach(work, job, page);
  });
  const offset = state.offset + page.length;
  const next: State = {
    offset,
    after: page.at(-1)!,
    granted: granted + counts.granted,
    skipped: skipped + counts.skipped,
    failed: failed + counts.failed,
  };
  const { playerIds } = job.params;
  return { state: next, progress: playerIds ? (100 * offset) / playerIds.length : 50 };
};

/** Grants a bundle to many players, page by page, exactly once each. */
export const bulkGrant = jobKind({
  kind: "BULK_GRANT",
  access: { scope: "players:write", roles: ADMINS },
  params: Params,
  step: runStep,
});

/** A bundle and the field that contains it, such as `tiers.0.rewards`. */
type BundleField = { bundle: RewardBundle; field: string };

/**
 * A definition that gives bundles. A badge, a reward or a level can be given by others, so it must not give
 * itself indirectly; `tiers`: number of a badge's tiers.
 */
type BundlesOf = {
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

/** A document that gives bundles, as far as it has them: which fields it has is for its kind to say. */
type Gives = { key: string; bundle?: RewardBundle; rewards?: RewardBundle } & Partial<
  Record<"steps" | "milestones" | "tiers", Partial<Record<"rewards" | "free" | "premium", RewardBundle>>[]>
>;

const GIVING_KINDS = ["reward", "badge", "level", "streak", "quest", "adventure"] as const;

/** Returns everything in a project that gives bundles. */
const giversOf = (definitions: ProjectDefinitions): Giver[] =>
  GIVING_KINDS.flatMap((kind) =>
    definitions.all(kind).map(({ definition }): Giver => {
      const {
        key,
        bundle,
        rewards,
        steps = [],
        milestones = [],
        tiers = [],
      } = definition as unknown as Gives;
      const parts = [...steps, ...milestones, ...tiers].flatMap((part) => [
        part.rewards,
        part.free,
        part.premium,
      ]);
      return { kind, key, bundles: [bundle, rewards, ...parts].filter((one) => one !== undefined) };
    }),
  );

const GIVEN = {
  badge: sql`select sum(times_awarded) as n from player_badges`,
  reward: sql`select sum(quantity) as n from reward_grants`,
  quest: sql`select count(distinct player_id) as n from player_quests`,
} as const;

/**
 * Initializes the counter of a definition that gets a limit with the number granted so far. The project's
 * configuration is locked, so nothing is granted meanwhile.
 */
export const startCounting = async (
  { db }: Work,
  { projectId, kind, key }: { projectId: string; kind: LimitedKind; key: string },
): Promise<void> => {
  const { scope, windowNo } = limitedKey(projectId, kind, key);
  const column = sql.ref(`${kind}_key`);
  await sql`
    insert into shared_counters as c (project_id, scope, window_no, used)
    select ${projectId}::uuid, ${scope}, ${windowNo}::bigint, coalesce(n, 0)
    from (${GIVEN[kind]} where project_id = ${projectId} and ${column} = ${key}) as given
    on conflict (project_id, scope, window_no) do update set used = greatest(c.used, excluded.used)`.execute(
    db,
  );
};

export const rewardKind = definitionKind<Reward>({
  kind: "reward",
  example: {
    key: "starter-chest",
    name: "Starter chest",
    kind: "BUNDLE",
    bundle: { xp: 50, addTags: ["starter"] },
    perPlayerLimit: 1,
  },
  plural: "rewards",
  tag: "Rewards",
  schema: Reward,
  shape: rewardShape,
  max: 500,
  check: async (work, projectId, reward, before) => {
    const { key, bundle, price, stock } = reward;
    if (before && (before.kind !== reward.kind || before.fulfilment !== reward.fulfilment))
      throw invalid("kind", "cannot change, because players may hold the reward: create another one");
    if (price) {
      const reference = { kind: "currency", key: price.currencyKey, field: "price.currencyKey" };
      await checkActiveKey(work, projectId, reference);
    }
    const bundles = bundle ? [{ bundle, field: "bundle" }] : [];
    await checkBundles(work, projectId, { kind: "reward", key, bundles, isKnown: before !== undefined });
    if (stock !== undefined && before?.stock === undefined)
      await startCounting(work, { projectId, kind: "reward", key });
  },
});

/** Maximum number of players named by one bulk grant. */
export const BULK_PLAYERS_MAX = 10_000;

/** Exactly one of `segmentKey` and `playerIds`. */
type BulkGrant = {
  segmentKey?: string | undefined;
  playerIds?: readonly string[] | undefined;
  bundle: RewardBundle;
  reason: string;
  createdBy: string;
};

/**
 * Starts granting a bundle to the players of a segment or of a list, evaluated when their page is processed.
 * Unknown ids are skipped.
 * @throws DomainError VALIDATION_ERROR naming the field; CONFLICT JOB_LIMIT
 */
export const startBulkGrant = async (
  work: Work,
  projectId: string,
  grant: BulkGrant,
): Promise<ProjectJob> => {
  const { segmentKey, playerIds, bundle, reason, createdBy } = grant;
  await checkBundles(work, projectId, {
    kind: "grant",
    key: "bulk",
    bundles: [{ bundle, field: "bundle" }],
  });
  if (segmentKey !== undefined)
    await checkActiveKey(work, projectId, { kind: "segment", key: segmentKey, field: "segmentKey" });
  const ids = playerIds && [...new Set(playerIds)];
  const params = { bundle, reason, ...(ids ? { playerIds: ids } : { segmentKey: segmentKey! }) };
  const job = await queueJob(work, projectId, { kind: bulkGrant, params, createdBy });
  await auditDefinition(work, "bulk_grant.started", { projectId, id: job.id });
  return job;
};
