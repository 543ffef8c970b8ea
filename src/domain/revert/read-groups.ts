import type { PastEvent } from "../evaluation/metrics/count.ts";
import type { PlayerState } from "../evaluation/player-state.ts";
import { paced, type Pieces } from "../kernel/pace.ts";
import type { Work } from "../kernel/work.ts";
import { adventuresWithout } from "./adventures/outcome.ts";
import { awardOfKey, isLost, keepAwards } from "./award-log.ts";
import type { OwnedAward } from "./read-awards.ts";
import { type Followed, openFollowing } from "./read-followed.ts";
import { rewardOfGoal } from "./goal-rewards.ts";
import { NO_QUESTS, openQuests, type QuestGathering, readQuestCycles } from "./quests/read-quests.ts";
import { visitHistories } from "./read-history.ts";
import { readLost } from "./read-lost.ts";
import { readHasOtherXp } from "./read-other-xp.ts";
import { readLongestRuns } from "./read-record.ts";
import { openOtherScores } from "./read-scores.ts";
import { openStreakDays, readStreakStarts, type StreakStarts } from "./read-streak-days.ts";
import { type OthersOfLists, readSubmitted, submittedBy } from "./read-submitted.ts";
import type { Rewards } from "./read-rewards.ts";
import type { GoalsOfRecord, PlayerRecord, Reversal, RevertedTogether } from "./record.ts";
import { pastEvents } from "./reverse.ts";
import type { EventPart, RevertState } from "./revert-state.ts";

/** What one player has without all events that are reverted together. */
type PlayerGroup = {
  followed: Followed;
  rewards: Rewards | undefined;
  hasOtherXp: boolean;
  /** What matters only for the player's own events. */
  own: Pick<PlayerRecord, "longestRuns" | "days" | "scores">;
  others: OthersOfLists | undefined;
  /** The player's log of awards. */
  log: readonly OwnedAward[];
  together: RevertedTogether;
  /** Keys of the badges that follow counters of an event reverted so far. */
  seen: Set<string>;
  goals: GoalsOfRecord;
  /** What cannot be determined, in words, until it was noted. */
  left: string[];
};

export type PlayerGroups = ReadonlyMap<PlayerState, PlayerGroup>;

type Part = EventPart & { past: readonly PastEvent[] };

/** Reads what the players have without the events: once for each player, whatever the number of events. */
export const readGroups = async (
  work: Work,
  state: RevertState,
  parts: readonly EventPart[],
): Promise<PlayerGroups> => {
  const { plan, done } = state;
  const eventIds = done.map(({ id }) => id);
  const counted = parts.map((part) => ({ ...part, past: pastOf(state, part) }));
  const byPlayer = [...Map.groupBy(counted, ({ player }) => player)];
  const starts = await readStreakStarts(work, plan);
  const computed = await compute(work, state, { byPlayer, starts });
  const logOf = (player: PlayerState): readonly OwnedAward[] => state.caused.logs.get(player) ?? [];
  const lost = await readLost(work, plan, {
    ofGoals: new Map(computed.map(({ player, goals }) => [player.id, goals.lost])),
    players: computed.map(({ player, followed: { followed, left } }) => ({
      player,
      followed,
      left,
      log: logOf(player),
    })),
    eventIds,
  });
  const rewards = new Map([...lost].map(([id, one]) => [id, one.rewards]));
  const players = byPlayer.map(([player, own]) => ({
    player,
    firings: own.flatMap(({ own: { firings } }) => firings),
  }));
  const others = await readSubmitted(work, { plan, players, eventIds });
  const hasOtherXp = await readOtherXp(work, state, { byPlayer, rewards, eventIds });
  const owners = byPlayer.filter(([, own]) => own.some(({ isOwn }) => isOwn)).map(([{ id }]) => id);
  const longestRuns = await readLongestRuns(work, plan.projectId, owners);
  return new Map(
    computed.map(({ player, followed, scores, days, goals }) => {
      const log = logOf(player);
      return [
        player,
        {
          followed,
          own: { scores, days, longestRuns: longestRuns.get(player.id) ?? new Map() },
          rewards: rewards.get(player.id),
          hasOtherXp: hasOtherXp.has(player.id),
          others: others.get(player.id),
          log,
          together: togetherOf(log, { followed: followed.followed, lost: lost.get(player.id)?.awards }),
          seen: new Set(),
          goals: { ...goals },
          left: [...followed.left],
        },
      ];
    }),
  );
};

type GoalsPlayer = { player: PlayerState; parts: readonly Part[]; nowMs: number };

/** Finds out what becomes of the player's quests, and then of the adventures. In pieces. */
function* goalsOf(
  { plan }: RevertState,
  questing: QuestGathering | undefined,
  { player, parts, nowMs }: GoalsPlayer,
): Pieces<GoalsOfRecord> {
  const quests = questing ? yield* questing.result() : NO_QUESTS;
  const adventures = yield* adventuresWithout({ plan, player, parts, quests, nowMs });
  const lost = [...quests.outcomes, ...adventures].flatMap((one) => [...one.lost]);
  return { ...quests, adventures, lost: new Set(lost) };
}

const togetherOf = (
  log: readonly OwnedAward[],
  { followed, lost = new Set() }: { followed: Followed["followed"]; lost: Set<string> | undefined },
): RevertedTogether => {
  const together = {
    awards: log.filter(({ isOfEvent }) => isOfEvent),
    taken: new Set<string>(),
    lost,
    followed,
  };
  keepAwards(log, lost, (key, eventId) => {
    const of = awardOfKey(key);
    return of !== undefined && !isLost(eventId, of, together);
  });
  return together;
};

const pastOf = ({ plan }: RevertState, { event, own, isOwn }: EventPart): PastEvent[] =>
  pastEvents({ project: plan }, { event, emitted: own.emitted, isOwn });

type Computed = Pick<PlayerRecord, "scores" | "days"> & {
  player: PlayerState;
  followed: Followed;
  goals: GoalsOfRecord;
};

type Computing = {
  byPlayer: readonly (readonly [PlayerState, readonly Part[]])[];
  starts: StreakStarts;
};

/** Computes what follows from the players' other events, which are read once for all of it. */
const compute = async (
  work: Work,
  state: RevertState,
  { byPlayer, starts }: Computing,
): Promise<Computed[]> => {
  const { plan, counterStarts, boardStarts, steps } = state;
  const nowMs = work.now.getTime();
  const cycles = await readQuestCycles(
    work,
    plan,
    byPlayer.map(([player, parts]) => ({ player, parts })),
  );
  const opened = [];
  for (const [player, parts] of byPlayer) {
    steps.charge(stepsOf(plan, parts));
    await steps.pause();
    const events = parts.map(({ event: { id, receivedMs }, past }) => ({ id, receivedMs, past }));
    const following = openFollowing({ player, project: plan }, { events, starts: counterStarts });
    const own = parts.filter(({ isOwn }) => isOwn);
    const ownEvents = own.map(({ event }) => event);
    const scoring = openOtherScores({ plan, player, events: ownEvents, starts: boardStarts });
    const gathering = openStreakDays({ plan, player, parts: own, starts });
    const questing = openQuests({ plan, player, parts, starts: counterStarts, nowMs }, cycles);
    opened.push({ player, parts, following, scoring, gathering, questing });
  }
  const readings = opened
    .filter(
      ({ following, scoring, gathering, questing }) =>
        following.recounting ?? scoring ?? gathering ?? questing,
    )
    .map(({ player: { id: playerId }, following, scoring, gathering, questing }) => ({
      playerId,
      visit: (...event: Parameters<NonNullable<typeof scoring>["visit"]>): Pieces<void> | void => {
        following.recounting?.visit(...event);
        scoring?.visit(...event);
        gathering?.visit(...event);
        return questing?.visit(...event);
      },
    }));
  const read = await visitHistories(work, plan.projectId, readings);
  const computed: Computed[] = [];
  for (const { player, parts, following, scoring, gathering, questing } of opened) {
    const isKnown = read.has(player.id);
    const quests = isKnown ? questing : undefined;
    computed.push({
      player,
      followed: following.result(isKnown ? following.recounting?.result() : undefined),
      scores: resultOf(scoring, isKnown) ?? new Map(),
      days: resultOf(gathering, isKnown) ?? new Map(),
      goals: await paced(goalsOf(state, quests, { player, parts, nowMs }), steps),
    });
  }
  return computed;
};

/** Nothing is known of a player with too many events. */
const resultOf = <T>(found: { result(): T } | undefined, isKnown: boolean): T | undefined =>
  isKnown ? found?.result() : undefined;

const stepsOf = (
  { metrics, boardIndex, adventures }: RevertState["plan"],
  parts: readonly Part[],
): number => {
  let steps = 0;
  for (const { past } of parts)
    for (const { type } of past) {
      for (const metric of metrics.forEvent(type)) steps += metric.steps;
      for (const board of boardIndex.forEvent(type)) steps += board.steps;
      for (const adventure of adventures.forEvent(type))
        for (const { cost } of adventure.sourcesFor(type)) steps += cost;
    }
  return steps;
};

type Given = {
  byPlayer: readonly (readonly [PlayerState, readonly Part[]])[];
  rewards: ReadonlyMap<string, Rewards | undefined>;
  eventIds: readonly string[];
};

/** Reads which players on boards of XP have other XP than what is reverted. */
const readOtherXp = async (
  work: Work,
  { plan }: RevertState,
  { byPlayer, rewards, eventIds }: Given,
): Promise<Set<string>> => {
  if (plan.boardIndex.xp.length === 0) return new Set();
  const lines = byPlayer.flatMap(([{ id: playerId }, parts]) =>
    [...parts.map(({ own }) => own), ...(rewards.get(playerId)?.lost ?? [])]
      .flatMap(({ ledger }) => ledger)
      .filter(({ asset }) => asset === "XP")
      .map(({ id }) => ({ id, playerId })),
  );
  return readHasOtherXp(work, plan.projectId, {
    playerIds: [...new Set(lines.map(({ playerId }) => playerId))],
    lineIds: lines.map(({ id }) => id),
    eventIds,
  });
};

/** Takes out what becomes of quests and adventures by an event: with the first one that has changed them. */
const goalsBy = (goals: GoalsOfRecord, eventId: string): GoalsOfRecord => {
  const isBy = ({ by }: { by: ReadonlySet<string> }): boolean => by.has(eventId);
  const [outcomes, adventures] = [goals.outcomes.filter(isBy), goals.adventures.filter(isBy)];
  goals.outcomes = goals.outcomes.filter((one) => !isBy(one));
  goals.adventures = goals.adventures.filter((one) => !isBy(one));
  return { ...goals, outcomes, adventures };
};

const NOT_OWN: PlayerGroup["own"] = { longestRuns: new Map(), days: new Map(), scores: new Map() };

/** Returns what is to be reverted of one event for one player; to be called in the order of the parts. */
export const nextRecord = (
  { plan }: RevertState,
  groups: PlayerGroups,
  { part: { event, player, isOwn, own }, reversal }: { part: EventPart; reversal: Reversal },
): PlayerRecord => {
  const group = groups.get(player)!;
  const { followed, rewards, together, hasOtherXp, seen } = group;
  const keys = followed.badgesOf.get(event.id) ?? new Set();
  const ofAwards = group.log.filter(({ isOfEvent, eventId }) => isOfEvent && eventId === event.id);
  const keysNow = new Set([...keys, ...ofAwards.map(({ badgeKey }) => badgeKey)]);
  const goals = goalsBy(group.goals, event.id);
  const isNew = ({ key }: { key: string }): boolean => {
    const reward = rewardOfGoal(key);
    if (reward !== undefined)
      return [...goals.outcomes, ...goals.adventures].some((one) => one.lost.has(reward));
    const badgeKey = awardOfKey(key)?.badgeKey ?? "";
    return keysNow.has(badgeKey) && !seen.has(badgeKey);
  };
  const lost = (rewards?.lost ?? [])
    .map(({ atMs, ledger }) => ({ atMs, ledger: ledger.filter(isNew) }))
    .filter(({ ledger }) => ledger.length > 0);
  const grants = [...own.grants, ...(rewards?.grants ?? []).filter(isNew)];
  for (const key of keysNow) seen.add(key);
  for (const what of group.left.splice(0)) reversal.left.add(what);
  return {
    event,
    ...own,
    isOwn,
    recounted: followed.recounted,
    followed: new Map([...followed.followed].filter(([key]) => keys.has(key))),
    lost,
    submitted: submittedBy(plan, { player, firings: own.firings }, group.others),
    hasOtherXp,
    grants,
    goals,
    awards: group.log
      .filter(({ key }) => !together.taken.has(key))
      .map((award) => ({ ...award, isOfEvent: award.eventId === event.id && award.isOfEvent })),
    together,
    ...(isOwn ? group.own : NOT_OWN),
  };
};
