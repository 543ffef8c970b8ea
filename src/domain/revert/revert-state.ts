import { sql } from "kysely";
import { noEffects } from "../evaluation/evaluate.ts";
import { lockPlayersById } from "../progression/load.ts";
import { loadStates } from "../progression/load-states.ts";
import { PLAYER_PARTS } from "../progression/parts/parts.ts";
import type { PlayerState } from "../evaluation/player-state.ts";
import type { ProjectPlan } from "../evaluation/project-plan.ts";
import type { SharedCounters, SharedKey } from "../evaluation/shared-counters.ts";
import { lockSharedCounters } from "../progression/lock-shared-counters.ts";
import type { Effects } from "../evaluation/effects.ts";
import { limitedKey } from "../evaluation/rewards/shared-keys.ts";
import { type PacedBudget, paced, type Pieces } from "../kernel/pace.ts";
import type { Work } from "../kernel/work.ts";
import {
  type Caused,
  readBoardStarts,
  readCounterStarts,
  readLongestRuns,
  readRules,
} from "./read-record.ts";
import { readFollowed } from "./read-followed.ts";
import { readHasOtherXp } from "./read-other-xp.ts";
import { readSubmitted } from "./read-submitted.ts";
import { readOtherScores } from "./read-scores.ts";
import type { PlayerRecord, Reversal, RevertedEvent } from "./record.ts";
import { pastEvents, type ReverseContext } from "./reverse.ts";
import { type FiredRules, sharedKeysOfFirings } from "./reverse-firings.ts";

/** Returns the player of an external id; a merged player resolves to the other one. */
export const playerIdOf = async (
  { db }: Work,
  projectId: string,
  externalUserId: string,
): Promise<string | undefined> => {
  const found = await sql<{ id: string }>`
    select coalesce(merged_into, id) as id from players
    where project_id = ${projectId} and external_user_id = ${externalUserId}`.execute(db);
  return found.rows[0]?.id;
};

type Reached = { caused: Caused; root: RevertedEvent; ownerId: string | undefined };

/** Locks all players affected by the events, with their state at the times of those. */
export const lockAll = async (
  work: Work,
  plan: ProjectPlan,
  { caused, root, ownerId, done }: Reached & { done: readonly RevertedEvent[] },
): Promise<Map<string, PlayerState>> => {
  const atOf = new Map(done.map(({ id, at }) => [id, at]));
  const timesOf = new Map<string, Set<number>>();
  const note = (playerId: string, at: number | undefined): void => {
    const times = timesOf.get(playerId) ?? new Set();
    timesOf.set(playerId, at === undefined ? times : times.add(at));
  };
  if (ownerId !== undefined) note(ownerId, root.at);
  for (const rows of Object.values(caused))
    for (const { playerId, eventId } of rows) note(playerId, atOf.get(eventId ?? ""));
  const players = await lockPlayersById(work, plan.projectId, [...timesOf.keys()]);
  for (const [id, player] of players)
    player.timesMs = [...new Set([...player.timesMs, ...(timesOf.get(id) ?? [])])];
  await loadStates(work, [...new Set(players.values())], [plan], [...PLAYER_PARTS]);
  return players;
};

type OfPlayer = Omit<Caused, "awards">;

/** Effects of events, by event and player, and the logs of badges by player. */
type Sorted = {
  byEvent: ReadonlyMap<string, ReadonlyMap<PlayerState, OfPlayer>>;
  logs: ReadonlyMap<PlayerState | undefined, Caused["awards"]>;
};

const sorted = ({ awards, ...caused }: Caused, players: ReadonlyMap<string, PlayerState>): Sorted => {
  const byEvent = new Map<string, Map<PlayerState, OfPlayer>>();
  const placeOf = ({ eventId, playerId }: { eventId: string | null; playerId: string }) => {
    const player = players.get(playerId);
    if (!player || eventId === null) return undefined;
    let ofEvent = byEvent.get(eventId);
    if (!ofEvent) byEvent.set(eventId, (ofEvent = new Map()));
    let place = ofEvent.get(player);
    if (!place) ofEvent.set(player, (place = { ledger: [], grants: [], firings: [], emitted: [] }));
    return place;
  };
  for (const row of caused.ledger) placeOf(row)?.ledger.push(row);
  for (const row of caused.grants) placeOf(row)?.grants.push(row);
  for (const row of caused.firings) placeOf(row)?.firings.push(row);
  for (const row of caused.emitted) placeOf(row)?.emitted.push(row);
  for (const row of awards) placeOf(row);
  return { byEvent, logs: Map.groupBy(awards, ({ playerId }) => players.get(playerId)) };
};

/** The context in which events are reverted. */
export type RevertState = Omit<ReverseContext, "reversal"> & {
  plan: ProjectPlan;
  /** By the id under which they were affected. */
  players: ReadonlyMap<string, PlayerState>;
  caused: Sorted;
  shared: SharedCounters;
  effects: Effects;
  reversal: Reversal;
  /** Ids of all events that are reverted together. */
  eventIds: readonly string[];
  /** Step budget for reverting all of them. */
  steps: PacedBudget;
};

type RevertInput = Pick<RevertState, "players" | "reversal" | "steps"> & {
  caused: Caused;
  done: readonly RevertedEvent[];
};

/** Reads everything else needed, and locks what the players share. */
export const readRevertState = async (
  work: Work,
  plan: ProjectPlan,
  { done, caused, players, reversal, steps }: RevertInput,
): Promise<RevertState> => {
  const { projectId } = plan;
  const { rules, left } = await readRules(work, projectId, caused.firings);
  for (const what of left) reversal.left.add(what);
  const keys = await paced(sharedKeysOf(plan, { done, caused, rules }), steps);
  return {
    plan,
    players,
    caused: sorted(caused, players),
    eventIds: done.map(({ id }) => id),
    rules,
    counterStarts: await readCounterStarts(work, projectId, plan),
    boardStarts: await readBoardStarts(work, projectId),
    shared: await lockSharedCounters(work, keys),
    effects: noEffects(),
    reversal,
    steps,
  };
};

function* sharedKeysOf(
  plan: ProjectPlan,
  { done, caused, rules }: { done: readonly RevertedEvent[]; caused: Caused; rules: FiredRules },
): Pieces<SharedKey[]> {
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
  return [...keys, ...ofBadges, ...ofRewards];
}

/** Returns the players affected by an event. */
export const reachedBy = (
  { caused }: Pick<RevertState, "caused">,
  { id }: RevertedEvent,
  owner: PlayerState | undefined,
): Set<PlayerState> => new Set([...(owner ? [owner] : []), ...(caused.byEvent.get(id)?.keys() ?? [])]);

/** Returns what one event has caused for one player. */
export const recordOf = async (
  work: Work,
  state: RevertState,
  { event, player, isOwn }: { event: RevertedEvent; player: PlayerState; isOwn: boolean },
): Promise<PlayerRecord> => {
  const { plan, caused, boardStarts, counterStarts, eventIds, reversal } = state;
  const own = caused.byEvent.get(event.id)?.get(player) ?? {
    ledger: [],
    grants: [],
    firings: [],
    emitted: [],
  };
  const past = pastEvents({ project: plan }, { event, emitted: own.emitted, isOwn });
  const { grants, left, ...followed } = await readFollowed(
    work,
    { player, project: plan },
    { event, past, starts: counterStarts, eventIds },
  );
  for (const what of left) reversal.left.add(what);
  const lines = [own, ...followed.lost].flatMap(({ ledger }) => ledger);
  const isOnXpBoard = plan.boardIndex.xp.length > 0 && lines.some(({ asset }) => asset === "XP");
  return {
    event,
    ...own,
    ...followed,
    submitted: await readSubmitted(work, { player, project: plan }, { firings: own.firings, eventIds }),
    hasOtherXp: isOnXpBoard && (await readHasOtherXp(work, player, { ledger: lines, eventIds })),
    grants: [...own.grants, ...grants],
    awards: caused.logs.get(player) ?? [],
    longestRuns: isOwn ? await readLongestRuns(work, plan.projectId, player.id) : new Map(),
    scores: isOwn ? await readOtherScores(work, { plan, player, event, starts: boardStarts }) : new Map(),
    isOwn,
  };
};
