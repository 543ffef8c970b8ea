import type { Moment } from "../evaluation/boards/board.ts";
import { sql } from "kysely";
import { lockPlayersById } from "../progression/load.ts";
import { loadStates } from "../progression/load-states.ts";
import { PLAYER_PARTS } from "../progression/parts/player-parts.ts";
import type { PlayerState } from "../evaluation/player-state.ts";
import type { ProjectPlan } from "../evaluation/project-plan.ts";
import type { SharedCounters, SharedKey } from "../evaluation/shared-counters.ts";
import { lockSharedCounters } from "../progression/lock-shared-counters.ts";
import { bundlesOf } from "../evaluation/adventures/compile.ts";
import { noEffects, type Effects } from "../evaluation/effects.ts";
import type { CompiledQuest } from "../evaluation/quests/compile.ts";
import type { RewardBundle } from "../evaluation/rewards/bundle.ts";
import { limitedKey } from "../evaluation/rewards/shared-keys.ts";
import type { Pace, Steps } from "../kernel/slices.ts";
import type { Work } from "../kernel/work.ts";
import {
  type Caused,
  type OwnedAward,
  readBoardStarts,
  readCounterStarts,
  type ReadRules,
  readRules,
} from "./read-record.ts";
import type { RevertedEvent } from "./record.ts";
import type { ReverseContext } from "./reverse.ts";
import { type FiredRules, sharedKeysOfFirings } from "./reverse-scores.ts";

/** Returns the players of external ids; a merged player resolves to the other one. */
export const playerIdsOf = async (
  { db }: Work,
  projectId: string,
  externalUserIds: readonly string[],
): Promise<Map<string, string>> => {
  const found = await sql<{ id: string; name: string }>`
    select coalesce(p.merged_into, p.id) as id, p.external_user_id as name
    from json_array_elements_text(${JSON.stringify([...new Set(externalUserIds)])}::json) as x(u)
    join players p on p.project_id = ${projectId} and p.external_user_id = x.u`.execute(db);
  return new Map(found.rows.map(({ id, name }) => [name, id]));
};

type Reached = {
  caused: Caused;
  /** The players whose own events are reverted, by external id. */
  ownerIds: ReadonlyMap<string, string>;
  done: readonly RevertedEvent[];
};

const isRoot = ({ id, rootId }: RevertedEvent): boolean => id === rootId;

/** Returns the id of the player whose own event is reverted; undefined for one that another has sent. */
export const ownerIdOf = (event: RevertedEvent, ownerIds: ReadonlyMap<string, string>): string | undefined =>
  isRoot(event) ? ownerIds.get(event.externalUserId) : undefined;

/** Locks all players affected by the events, with their state at the times of those. */
export const lockAll = async (
  work: Work,
  plan: ProjectPlan,
  { caused, ownerIds, done }: Reached,
): Promise<Map<string, PlayerState>> => {
  const eventsById = new Map(done.map((event) => [event.id, event]));
  const momentsOf = new Map<string, Set<Moment>>();
  const note = (playerId: string, event: RevertedEvent | undefined): void => {
    const moments = momentsOf.get(playerId) ?? new Set();
    momentsOf.set(playerId, event === undefined ? moments : moments.add(event));
  };
  for (const event of done) {
    const ownerId = ownerIdOf(event, ownerIds);
    if (ownerId !== undefined) note(ownerId, event);
  }
  for (const ownerId of ownerIds.values()) note(ownerId, undefined);
  for (const rows of Object.values(caused))
    for (const { playerId, eventId } of rows) note(playerId, eventsById.get(eventId ?? ""));
  const players = await lockPlayersById(work, plan.projectId, [...momentsOf.keys()]);
  for (const [id, player] of players)
    player.moments = [...new Set([...player.moments, ...(momentsOf.get(id) ?? [])])];
  await loadStates(work, [...new Set(players.values())], [plan], [...PLAYER_PARTS]);
  return players;
};

/** What one event has caused for one player, besides awards. */
export type OfPlayer = Omit<Caused, "awards">;

/** Effects of events, by event and player, and the logs of badges by player. */
type Sorted = {
  byEvent: ReadonlyMap<string, ReadonlyMap<PlayerState, OfPlayer>>;
  logs: ReadonlyMap<PlayerState | undefined, OwnedAward[]>;
};

const nothing = (): OfPlayer => ({ ledger: [], grants: [], firings: [], emitted: [] });

const sorted = ({ awards, ...caused }: Caused, players: ReadonlyMap<string, PlayerState>): Sorted => {
  const byEvent = new Map<string, Map<PlayerState, OfPlayer>>();
  const placeOf = ({ eventId, playerId }: { eventId: string | null; playerId: string }) => {
    const player = players.get(playerId);
    if (!player || eventId === null) return undefined;
    let ofEvent = byEvent.get(eventId);
    if (!ofEvent) byEvent.set(eventId, (ofEvent = new Map()));
    let place = ofEvent.get(player);
    if (!place) ofEvent.set(player, (place = nothing()));
    return place;
  };
  for (const row of caused.ledger) placeOf(row)?.ledger.push(row);
  for (const row of caused.grants) placeOf(row)?.grants.push(row);
  for (const row of caused.firings) placeOf(row)?.firings.push(row);
  for (const row of caused.emitted) placeOf(row)?.emitted.push(row);
  for (const row of awards) placeOf(row);
  return { byEvent, logs: Map.groupBy(awards, ({ playerId }) => players.get(playerId)) };
};

/** The context in which events are reverted together. */
export type RevertState = Omit<ReverseContext, "reversal"> &
  Pick<ReadRules, "leftBy"> & {
    plan: ProjectPlan;
    /** By the id under which they were affected. */
    players: ReadonlyMap<string, PlayerState>;
    ownerIds: ReadonlyMap<string, string>;
    caused: Sorted;
    shared: SharedCounters;
    effects: Effects;
    /** The events, in the order of their arrival. */
    done: readonly RevertedEvent[];
    /** Time for reverting all of them. */
    pace: Pace;
  };

/** The rules of lines, also of actions that were sent, with the versions that were in force, each once. */
const rulesOf = ({ ledger }: Caused): { ruleId: string; ruleVersion: number }[] => {
  const versions = new Map<string, Set<number>>();
  for (const { cause } of ledger) {
    const { ruleId, ruleVersion } = cause;
    if (ruleId === undefined || ruleVersion === undefined) continue;
    const known = versions.get(ruleId);
    if (known) known.add(ruleVersion);
    else versions.set(ruleId, new Set([ruleVersion]));
  }
  return [...versions].flatMap(([ruleId, known]) =>
    [...known].map((ruleVersion) => ({ ruleId, ruleVersion })),
  );
};

type RevertInput = Pick<RevertState, "players" | "ownerIds" | "done" | "pace"> & { caused: Caused };

/** Reads everything else needed that does not depend on a player, and locks what players share. */
export const readRevertState = async (
  work: Work,
  plan: ProjectPlan,
  { caused, ...input }: RevertInput,
): Promise<RevertState> => {
  const { projectId } = plan;
  const { players, done, pace } = input;
  const { rules, leftBy } = await readRules(work, projectId, [...caused.firings, ...rulesOf(caused)]);
  const keys = await pace.run(sharedKeysOf(plan, { done, players, caused, rules }));
  return {
    plan,
    ...input,
    caused: sorted(caused, players),
    rules,
    leftBy,
    counterStarts: await readCounterStarts(work, projectId, plan),
    boardStarts: await readBoardStarts(work, projectId),
    shared: await lockSharedCounters(work, keys),
    effects: noEffects(),
  };
};

function* sharedKeysOf(
  plan: ProjectPlan,
  { done, players, caused, rules }: Pick<RevertInput, "done" | "players" | "caused"> & { rules: FiredRules },
): Steps<SharedKey[]> {
  const { projectId, badges, rewards } = plan;
  const firingsOf = Map.groupBy(caused.firings, ({ eventId }) => eventId);
  const keys: SharedKey[] = [];
  for (const { id, at: atMs } of done)
    for (const key of yield* sharedKeysOfFirings(rules, firingsOf.get(id) ?? [], { project: plan, atMs }))
      keys.push(key);
  const awarded = new Set(caused.awards.map(({ badgeKey }) => badgeKey));
  // Those that follow a counter may fall, whichever event has awarded them.
  const ofBadges = [...badges.values()]
    .filter(({ definition: { key, maxAwards }, metrics }) => {
      return maxAwards !== undefined && (awarded.has(key) || metrics.length > 0);
    })
    .map(({ definition: { key } }) => limitedKey(projectId, "badge", key));
  const ofRewards = caused.grants
    .filter(({ rewardKey }) => rewards.get(rewardKey)?.definition.stock !== undefined)
    .map(({ rewardKey }) => limitedKey(projectId, "reward", rewardKey));
  return [...keys, ...ofBadges, ...ofRewards, ...stockOf(plan, bundlesOfGoals(plan, { done, players }))];
}

/** Returns what quests and adventures may give that the events have counted for. */
const bundlesOfGoals = (
  { quests, adventures }: ProjectPlan,
  { done, players }: Pick<RevertInput, "done" | "players">,
): RewardBundle[] => {
  const counting = [...new Set(done.flatMap(({ type }) => quests.forEvent(type)))];
  const states = [...players.values()];
  const joined = [...adventures.byKey.values()].filter(({ key }) =>
    states.some((player) => player.adventures.has(key)),
  );
  return [...counting.flatMap(bundlesOfQuest), ...joined.flatMap(bundlesOf)];
};

const bundlesOfQuest = ({ definition, earlier }: CompiledQuest): RewardBundle[] =>
  [definition, ...[...earlier.values()].map((one) => one.definition)].flatMap(({ rewards, steps }) => [
    rewards,
    ...steps.map((step) => step.rewards ?? {}),
  ]);

/** Returns the counters of the stock that bundles take from: other events may have given them. */
const stockOf = ({ projectId, rewards }: ProjectPlan, bundles: readonly RewardBundle[]): SharedKey[] =>
  bundles
    .flatMap((bundle) => bundle.rewards ?? [])
    .filter(({ rewardKey }) => rewards.get(rewardKey)?.definition.stock !== undefined)
    .map(({ rewardKey }) => limitedKey(projectId, "reward", rewardKey));

/** What one event has caused for one player. */
export type EventPart = { event: RevertedEvent; player: PlayerState; isOwn: boolean; own: OfPlayer };

/** Returns what the events have caused, in the order in which it is reverted: the latest root first. */
export const partsOf = ({ done, caused, players, ownerIds }: RevertState): EventPart[] => {
  const latestFirst = done.toSorted((a, b) => compare(b.rootId, a.rootId) || compare(b.id, a.id));
  return latestFirst.flatMap((event) => {
    const owner = players.get(ownerIdOf(event, ownerIds) ?? "");
    const ofEvent = caused.byEvent.get(event.id);
    const reached = new Set([...(owner ? [owner] : []), ...(ofEvent?.keys() ?? [])]);
    return [...reached].map((player) => ({
      event,
      player,
      isOwn: player === owner,
      own: ofEvent?.get(player) ?? nothing(),
    }));
  });
};

const compare = (a: string, b: string): number => {
  if (a === b) return 0;
  return a < b ? -1 : 1;
};
