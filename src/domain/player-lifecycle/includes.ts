import { z } from "zod";
import { sql } from "kysely";
import { auditDefinition } from "../accounts/audit/audit.ts";
import { shownAdventures } from "../economy/adventures/change-adventures.ts";
import { badgesAlong } from "../economy/badges/player-badges.ts";
import { BOOST_PARTS, shownBoosts } from "../economy/boosts/kind.ts";
import { includedQuests, placesOf, turnOf } from "../economy/quests/player-quests.ts";
import { shownStreaks } from "../economy/streaks/player-streaks.ts";
import { breakdownOf, findList as findCurrent, fromRankScore } from "../evaluation/boards/lists.ts";
import type { PeriodRef, Standing } from "../evaluation/boards/ranks.ts";
import { type CompiledMetric, compileMetric, Metric } from "../evaluation/metrics/compile.ts";
import { readMetricAt } from "../evaluation/metrics/count.ts";
import { HOLDING_NAMES, type HoldingName, type PlayerState } from "../evaluation/player-state.ts";
import type { PlanTurn, ProjectPlan } from "../evaluation/project-plan.ts";
import type { Cause } from "../kernel/events/events.ts";
import { offsetOf, type PageQuery } from "../kernel/paging.ts";
import type { Work } from "../kernel/work.ts";
import { type BoardList, findList, isOver, readPlace } from "../leaderboards/board-list.ts";
import type { LeaderboardParts } from "../leaderboards/entries.ts";
import { HOLDING_LIFE } from "./holdings.ts";
import { updateRankEntries } from "./personal-table.ts";
import type { Player } from "../players/player.ts";
import { openOneChange } from "../progression/group-change.ts";
import { boardOf, Leaderboard } from "../progression/load-plan.ts";
import { loadFirst, loadStates, partsFor } from "../progression/load-states.ts";
import { sharedCountersAlong } from "../progression/lock-shared-counters.ts";
import { docPart, type Loadable, segments, streaks } from "../progression/parts/part.ts";
import { atClock, projectPlans, readPlan } from "../progression/plan.ts";
import { identitiesAlong, lockKnown, refreshPlayer } from "../progression/players/players.ts";
import { stateOfPlayer } from "../progression/load.ts";
import { HIDDEN_STATUSES } from "../progression/save.ts";
import { leaveLobbies } from "../social/lobbies/leave-all.ts";

/** Maximum definitions that are named as readers of a metric. */
const READERS_MAX = 10;
/** Maximum metrics that are included with a player. */
const INCLUDED_METRICS_MAX = 100;

type Reader = { kind: "rule" | "badge" | "segment" | "quest"; key: string };

/** A counter of a player; `value` is null where it has none: of min, max, avg and latest without events. */
export const PlayerMetric = z
  .object({
    id: z.string().meta({ description: "Changes with what is counted" }),
    metric: Metric,
    value: z
      .number()
      .nullable()
      .meta({ description: "Now; null of min, max, avg and latest where there is none" }),
    readBy: z
      .array(z.object({ kind: z.enum(["rule", "badge", "segment", "quest"]), key: z.string() }))
      .meta({ description: "Definitions that read it, 10 at most" }),
  })
  .meta({ id: "PlayerMetric" });
export type PlayerMetric = z.output<typeof PlayerMetric>;

type Read = { metric: CompiledMetric; readBy: Reader[] };

const known = new WeakMap<ProjectPlan, readonly Read[]>();

/** Returns the metrics that a project's definitions read, by id; computed once for each plan. */
const metricsOf = (plan: ProjectPlan): readonly Read[] => {
  const found = known.get(plan) ?? collect(plan);
  known.set(plan, found);
  return found;
};

const collect = ({ rules, badges, segments: planSegments, quests }: ProjectPlan): Read[] => {
  const byId = new Map<string, Read>();
  const add = (metrics: readonly Metric[], reader: Reader): void => {
    for (const definition of metrics) {
      const metric = compileMetric(definition);
      const read = byId.get(metric.id) ?? { metric, readBy: [] };
      byId.set(metric.id, read);
      const isNew = read.readBy.at(-1)?.key !== reader.key || read.readBy.at(-1)?.kind !== reader.kind;
      if (isNew && read.readBy.length < READERS_MAX) read.readBy.push(reader);
    }
  };
  for (const { key, metrics } of rules.all) add(metrics, { kind: "rule", key });
  for (const [key, { metrics }] of badges) add(metrics, { kind: "badge", key });
  for (const [key, { metrics }] of planSegments) add(metrics, { kind: "segment", key });
  for (const [key, { metrics }] of quests.byKey) add(metrics, { kind: "quest", key });
  return [...byId.values()].toSorted((a, b) => (a.metric.id < b.metric.id ? -1 : 1));
};

/** Lists the counters that a project's definitions read, as they are now for a player. */
export const listMetrics = async (
  work: Work,
  player: Player,
  query: PageQuery,
): Promise<{ metrics: PlayerMetric[]; total: number }> => {
  const plan = await readPlan(work, player.projectId, projectPlans);
  const state = stateOfPlayer(player);
  await loadStates(work, [state], [plan], [docPart]);
  return shownMetrics(state, plan, { atMs: work.now.getTime(), query });
};

/** Returns the counters of a player whose document is loaded, as `listMetrics` does. */
const shownMetrics = (
  state: PlayerState,
  plan: ProjectPlan,
  { atMs, query }: { atMs: number; query: PageQuery },
): { metrics: PlayerMetric[]; total: number } => {
  const offset = offsetOf(query);
  const all = metricsOf(plan);
  const metrics = all.slice(offset, offset + query.limit).map(({ metric, readBy }) => ({
    id: metric.id,
    metric: metric.definition,
    value: readMetricAt({ player: state, project: plan }, metric, atMs) ?? null,
    readBy: [...readBy],
  }));
  return { metrics, total: all.length };
};

/** Returns the first metrics of a player whose document is loaded. */
const includedMetrics = (state: PlayerState, plan: ProjectPlan, atMs: number): PlayerMetric[] =>
  shownMetrics(state, plan, { atMs, query: { page: 1, limit: INCLUDED_METRICS_MAX } }).metrics;

/** A player's place on one board; `rank`, `score` and `percentile` are null without an entry. */
export const PlayerRank = z
  .object({
    leaderboardKey: z.string(),
    periodKey: z.string(),
    rank: z.int().nullable(),
    score: z.number().nullable(),
    participants: z.int(),
    percentile: z.number().nullable().meta({ description: "Share of participants who are not ahead" }),
    leagueTier: z.string().nullable(),
  })
  .meta({ id: "PlayerRank" });
export type PlayerRank = z.output<typeof PlayerRank>;

/** The list in which a player is ranked. `over`: it is final, and no longer in the rank index. */
type OwnList = { leaderboard: Leaderboard; key: string; ref: PeriodRef; over?: BoardList };

const ownList = async (
  work: Work,
  leaderboard: Leaderboard,
  player: Player,
): Promise<OwnList | undefined> => {
  const { projectId, definition } = leaderboard;
  const current = findCurrent(boardOf(leaderboard), player, { at: work.now.getTime() });
  if (typeof current !== "string") {
    const ref = { projectId, periodId: current.id, ties: definition.ties };
    return { leaderboard, key: current.window.key, ref };
  }
  const board = breakdownOf(definition, player);
  if (definition.period.kind !== "FIXED" || board === undefined) return undefined;
  const list = await findList(work, leaderboard, board === "" ? {} : { board });
  return { leaderboard, key: list.key, ref: list.ref, ...(isOver(list) ? { over: list } : {}) };
};

const ownLists = async (work: Work, player: Player): Promise<OwnList[]> => {
  const where = { projectId: player.projectId, status: "ACTIVE" as const };
  const lists: OwnList[] = [];
  for (const leaderboard of await work.em.find(Leaderboard, where, { orderBy: { key: "asc" } })) {
    const list = await ownList(work, leaderboard, player);
    if (list) lists.push(list);
  }
  return lists;
};

type RankParts = Pick<LeaderboardParts, "transact" | "ranks">;
type Place = { participants: number; standing: Standing | undefined };

const placeIn = async (parts: RankParts, { ref, over }: OwnList, id: string): Promise<Place> => {
  if (over)
    return { participants: over.participants, standing: await readPlace({ ...parts, list: over }, id) };
  const [{ total: participants }, standing] = await Promise.all([
    parts.ranks.page(ref, 0, 1),
    parts.ranks.standing(ref, id),
  ]);
  return { participants, standing };
};

/**
 * Returns a player's places in the current periods of all active boards, by key; in a fixed period also
 * before and after it. Of a board with a breakdown it is that of the player's own value; boards for which the
 * player has none, and those between two periods, are left out.
 * @throws DomainError SERVICE_UNAVAILABLE while the rank index is being built
 */
export const readRanks = async (parts: RankParts, player: Player): Promise<PlayerRank[]> => {
  const lists = await parts.transact((work) => ownLists(work, player));
  return Promise.all(
    lists.map(async (list) => {
      const { participants, standing } = await placeIn(parts, list, player.id);
      return {
        leaderboardKey: list.leaderboard.key,
        periodKey: list.key,
        rank: standing?.rank ?? null,
        score: standing ? fromRankScore(boardOf(list.leaderboard), standing.rankScore) : null,
        participants,
        percentile: standing ? percentileOf(standing.position, participants) : null,
        leagueTier: null,
      };
    }),
  );
};

const percentileOf = (position: number, participants: number): number =>
  Math.floor(((participants - position) / participants) * 100);

/** Statuses that can be set by hand. */
export const SETTABLE_STATUSES = ["ACTIVE", "SUSPENDED", "BANNED"] as const;
type SettableStatus = (typeof SETTABLE_STATUSES)[number];

const REASON_OF_DELETION = "deleted";

/**
 * Sets a player's status: events of a player who is not ACTIVE are REJECTED when they are processed, and a
 * BANNED one is on no board and may not connect. Scores are kept meanwhile, and count again when the player
 * returns. Emits `player.updated`, unless nothing changes.
 * @throws DomainError NOT_FOUND; CONFLICT INVALID_STATE for an erased player
 */
export const setStatus = async (
  work: Work,
  player: Player,
  { status, reason, cause }: { status: SettableStatus; reason: string; cause: Cause },
): Promise<Player> => {
  const changed = await change(work, player, { status, isDeleted: false, cause: { ...cause, note: reason } });
  await auditDefinition(work, "player.status_changed", { projectId: player.projectId, id: changed.id });
  return changed;
};

/** Hides a player from lists and boards and suspends them, until a status is set again. */
export const deletePlayer = async (work: Work, player: Player, cause: Cause): Promise<void> => {
  const deletion = { ...cause, note: REASON_OF_DELETION };
  const { id } = await change(work, player, { status: "SUSPENDED", isDeleted: true, cause: deletion });
  await auditDefinition(work, "player.deleted", { projectId: player.projectId, id });
};

type Change = { status: SettableStatus; isDeleted: boolean; cause: Cause };

const isHidden = ({ status, isDeleted = false }: Pick<PlayerState, "status" | "isDeleted">): boolean =>
  isDeleted || HIDDEN_STATUSES.has(status);

const change = async (
  work: Work,
  { projectId, id: asked }: Player,
  { status, isDeleted, cause }: Change,
): Promise<Player> => {
  const { player, open, settle, save } = await openOneChange(work, projectId, () =>
    lockKnown(work, projectId, asked),
  );
  const { id, externalUserId } = player;
  const [before, wasHidden] = [player.status, isHidden(player)];
  if (before === status && (player.isDeleted ?? false) === isDeleted)
    return refreshPlayer(work, projectId, id);
  const turn = open(player);
  Object.assign(player, { status, isDeleted });
  turn.emit("player.updated", {
    playerId: id,
    externalUserId,
    changed: ["status"],
    before: { status: before },
    after: { status },
    cause,
  });
  await settle(turn);
  await save();
  const now = work.now.toISOString();
  await sql`
    update players set status = ${status}, deleted_at = ${isDeleted ? now : null}::timestamptz
    where project_id = ${projectId} and id = ${id}`.execute(work.db);
  if (isHidden(player)) await leaveLobbies(work, { projectId, playerId: id }, "KICKED");
  if (isHidden(player) !== wasHidden) await updateRankEntries(work, { projectId, id }, isHidden(player));
  return refreshPlayer(work, projectId, id);
};

type Life = typeof HOLDING_LIFE;
type IncludedHolding = {
  [Name in HoldingName]: Life[Name]["isIncluded"] extends true ? Name : never;
}[HoldingName];
export type Include = IncludedHolding | "identities" | "metrics";

/** Data that can be included with a player, besides ranks. */
export const INCLUDES: readonly Include[] = [
  ...HOLDING_NAMES.filter((name): name is IncludedHolding => HOLDING_LIFE[name].isIncluded),
  "identities",
  "metrics",
];

/** What is loaded of a player for each; quests and adventures need all that evaluation may touch. */
const PARTS: Readonly<Partial<Record<Include, readonly Loadable[]>>> = {
  streaks: [streaks],
  segments: [segments],
  boosts: BOOST_PARTS,
  metrics: [docPart],
};

/** One player alone is always loaded. */
const NO_LIMITS = { bytesMax: 0, rowsMax: 0 };

/** Games ask for one name, for all, or for few sets of the hundreds that they could choose: each is a statement. */
const SETS_MAX = 30;
const usual = new Set<string>();

const isRare = (wants: ReadonlySet<Include>): boolean => {
  if (wants.size === 1 || wants.size === INCLUDES.length) return false;
  const name = INCLUDES.filter((one) => wants.has(one)).join(",");
  if (usual.size < SETS_MAX) usual.add(name);
  return !usual.has(name);
};

/**
 * Reads the requested data of a player by one statement.
 * @param plan of the definitions as they were a moment ago
 */
export const showIncluded = async (
  work: Work,
  player: Player,
  { names, plan: of }: { names: readonly Include[]; plan: ProjectPlan },
) => {
  if (names.length === 0) return {};
  const plan = atClock(of, work.now.getTime() - work.serverNow.getTime());
  const wants = new Set(names);
  const hasGoals = wants.has("quests") || wants.has("adventures");
  const places = sharedCountersAlong(hasGoals ? placesOf(plan) : []);
  const [badges, identities] = [badgesAlong(work, player), identitiesAlong(player)];
  const parts = new Set([
    ...(hasGoals ? [...partsFor([plan]), ...places.parts] : []),
    ...INCLUDES.flatMap((name) => (wants.has(name) ? (PARTS[name] ?? []) : [])),
    ...(wants.has("badges") ? badges.parts : []),
    ...(wants.has("identities") ? identities.parts : []),
  ]);
  const state = stateOfPlayer(player);
  await loadFirst(work, [state], [plan], { ...NO_LIMITS, parts: [...parts], isRare: isRare(wants) });
  const nowMs = work.now.getTime();
  const turn = (): PlanTurn => turnOf(state, plan, { nowMs, shared: places.read() });
  const readers = {
    badges: badges.read,
    streaks: () => shownStreaks({ player: state, project: plan }, nowMs),
    segments: () => [...state.segments.keys()].toSorted(),
    boosts: () => shownBoosts(state, plan, nowMs),
    quests: () => includedQuests(turn()),
    adventures: () => shownAdventures(turn()),
    identities: identities.read,
    metrics: () => includedMetrics(state, plan, nowMs),
  } satisfies Record<Include, () => unknown>;
  const included: { [Name in Include]?: Awaited<ReturnType<(typeof readers)[Name]>> } = {};
  for (const name of names) Object.assign(included, { [name]: await readers[name]() });
  return included;
};
