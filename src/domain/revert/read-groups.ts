import { sql } from "kysely";
import type { Board, List } from "../evaluation/boards/board.ts";
import { findList, isEnough, nextEntry, toRankScore, toUs } from "../evaluation/boards/lists.ts";
import type { PastEvent } from "../evaluation/metrics/count.ts";
import type { EntryState, PlayerState } from "../evaluation/player-state.ts";
import type { ProjectPlan } from "../evaluation/project-plan.ts";
import { pastEvent } from "../evaluation/rule-event.ts";
import { idFloor } from "../kernel/ids.ts";
import type { Steps } from "../kernel/slices.ts";
import type { Work } from "../kernel/work.ts";
import { adventuresWithout } from "./adventures/outcome.ts";
import { NO_QUESTS, openQuests, type QuestGathering, readQuestCycles } from "./quests/outcome.ts";
import { type Followed, openFollowing, readLost } from "./read-followed.ts";
import { type OwnedAward, readLongestRuns, rewardOfGoal, type Rewards } from "./read-record.ts";
import {
  type HistoryVisitor,
  openStreakDays,
  type OthersOfLists,
  readStreakStarts,
  readSubmitted,
  type StreakStarts,
  submittedBy,
  visitHistories,
} from "./read-submitted.ts";
import {
  awardOfKey,
  type GoalsOfRecord,
  isLost,
  keepAwards,
  type OtherScores,
  type PlayerRecord,
  type Reversal,
  type RevertedEvent,
  type RevertedTogether,
} from "./record.ts";
import { type BoardStarts, clamp, countsEvents, isFrom } from "./reverse-scores.ts";
import { pastEvents } from "./reverse.ts";
import type { EventPart, RevertState } from "./revert-state.ts";
import type { HistoryEvent } from "../rules/insight/history.ts";

type Query = {
  playerIds: readonly string[];
  /** The lines to be reverted, besides those of the events. */
  lineIds: readonly string[];
  eventIds: readonly string[];
};

/** Returns the players whose ledgers have lines of XP that stand, besides those to be reverted. */
const readHasOtherXp = async (
  { db }: Work,
  projectId: string,
  { playerIds, lineIds, eventIds }: Query,
): Promise<Set<string>> => {
  if (playerIds.length === 0) return new Set();
  const { rows } = await sql<{ id: string }>`
    select u.id from unnest(${`{${playerIds.join(",")}}`}::uuid[]) as u(id) cross join lateral (
      select 1 from ledger_entries l
      where l.project_id = ${projectId} and l.player_id = u.id and l.asset = 'XP' and l.reverses is null
        and l.id <> all(${`{${lineIds.join(",")}}`}::uuid[])
        and (l.event_id is null or l.event_id <> all(${`{${eventIds.join(",")}}`}::uuid[]))
        and not exists (select 1 from ledger_entries r where r.project_id = l.project_id
          and r.player_id = l.player_id and r.idempotency_key = 'rev:' || l.id)
      limit 1) l`.execute(db);
  return new Set(rows.map(({ id }) => id));
};

type ScoredPlayer = {
  plan: ProjectPlan;
  player: PlayerState;
  /** The player's events that are reverted together, in the order in which that is done. */
  events: readonly RevertedEvent[];
  starts: BoardStarts;
};

/** An entry as the player's events give it, with the reverted one and without. */
type Folded = { withEvent: EntryState | undefined; without: EntryState | undefined };

type Scoring = {
  board: Board;
  list: List;
  stored: EntryState;
  /** Of the events since the board was created, and of all: a backfill has counted earlier ones too. */
  since: Folded;
  all: Folded;
};

/** Adds up the scores of a player's other events. */
type OtherScoring = HistoryVisitor & {
  /** To be called after the last event. */
  result(): Map<string, OtherScores>;
};

/**
 * Opens the computation of the scores of the player's other events, by list: of boards whose entry the
 * reverted events may have made by themselves; undefined where there is none. Omits those that cannot be
 * determined.
 */
const openOtherScores = (whose: ScoredPlayer): OtherScoring | undefined => {
  const scorings = scoringsOf(whose);
  if (scorings.size === 0) return undefined;
  const reverted = new Set(whose.events.map(({ id }) => id));
  return {
    visit: (other) => addScores(whose, { scorings, other, reverted }),
    result: () => {
      const scores = new Map<string, OtherScores>();
      for (const [listId, scoring] of scorings) {
        const known = otherOf(scoring);
        if (known !== undefined) scores.set(listId, known);
      }
      return scores;
    },
  };
};

/** The entry without the event; null where there would be none, undefined where that is not known. */
const otherOf = ({ stored, since, all }: Scoring): OtherScores | undefined => {
  const explained = [since, all].filter(({ withEvent }) => withEvent?.rankScore === stored.rankScore);
  const [first, second] = explained.map(({ without }) => without);
  if (explained.length === 0 || (explained.length === 2 && first?.rankScore !== second?.rankScore))
    return undefined;
  return first ? { rankScore: first.rankScore, rankTie: first.rankTie, latestUs: first.latestUs } : null;
};

/** The relevant lists, by id. */
const scoringsOf = (whose: ScoredPlayer): Map<string, Scoring> => {
  const scorings = new Map<string, Scoring>();
  const rest = new Map<string, number>();
  for (const event of whose.events) {
    for (const { board, scoreOf } of whose.plan.boardIndex.forEvent(event.type)) {
      const score = scoreOf(pastEvent(event));
      const scored = score === undefined ? undefined : scoredOn(whose, board, event);
      if (score === undefined || !scored) continue;
      const { list, stored } = scored;
      const entry = { ...stored, rankScore: rest.get(list.id) ?? stored.rankScore };
      const rankScore = toRankScore(board, score);
      if (board.operator === "SUM") rest.set(list.id, clamp(entry.rankScore - rankScore));
      if (!scorings.has(list.id) && isFrom(board, entry, { rankScore, at: event.at }))
        scorings.set(list.id, { board, list, stored, since: nothing(), all: nothing() });
    }
  }
  return scorings;
};

/** The list on which an event has counted, with the player's entry; undefined where that does not matter. */
const scoredOn = (
  { player, starts }: ScoredPlayer,
  board: Board,
  event: RevertedEvent,
): { list: List; stored: EntryState } | undefined => {
  if (countsEvents(board) || event.receivedMs < (starts.get(board.id) ?? -Infinity)) return undefined;
  const list = findList(board, player, event);
  const stored = typeof list === "string" ? undefined : player.entries.get(list.id);
  return typeof list === "string" || !stored ? undefined : { list, stored };
};

const nothing = (): Folded => ({ withEvent: undefined, without: undefined });

type Adding = {
  scorings: ReadonlyMap<string, Scoring>;
  other: HistoryEvent;
  /** Ids of the reverted events. */
  reverted: ReadonlySet<string>;
};

const addScores = ({ plan, player, starts }: ScoredPlayer, { scorings, other, reverted }: Adding): void => {
  for (const { board, scoreOf } of plan.boardIndex.forEvent(other.type)) {
    const list = findList(board, player, other);
    const scoring = typeof list === "string" ? undefined : scorings.get(list.id);
    const score = scoring && scoreOf(pastEvent(other));
    if (!scoring || score === undefined) continue;
    const given = { rankScore: toRankScore(board, score), at: other.at, isReverted: reverted.has(other.id) };
    add(board, scoring.all, given);
    // Ids are in order of arrival.
    if (other.id >= idFloor(starts.get(board.id) ?? 0)) add(board, scoring.since, given);
  }
};

type GivenScore = { rankScore: number; at: number; isReverted: boolean };

const add = (board: Board, folded: Folded, { rankScore, at, isReverted }: GivenScore): void => {
  const after = (old: EntryState | undefined): EntryState | undefined => {
    const next = nextEntry(board, old, { operator: board.operator, rankScore, atUs: toUs(at) });
    return !next || (!old && !isEnough(board, next.rankScore)) ? old : next;
  };
  folded.withEvent = after(folded.withEvent);
  if (!isReverted) folded.without = after(folded.without);
};

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
): Steps<GoalsOfRecord> {
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
  const { plan, counterStarts, boardStarts, pace } = state;
  const nowMs = work.now.getTime();
  const cycles = await readQuestCycles(
    work,
    plan,
    byPlayer.map(([player, parts]) => ({ player, parts })),
  );
  const opened = [];
  for (const [player, parts] of byPlayer) {
    pace.check();
    await pace.pause();
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
      visit: (...event: Parameters<NonNullable<typeof scoring>["visit"]>): Steps<void> | void => {
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
      goals: await pace.run(goalsOf(state, quests, { player, parts, nowMs })),
    });
  }
  return computed;
};

/** Nothing is known of a player with too many events. */
const resultOf = <T>(found: { result(): T } | undefined, isKnown: boolean): T | undefined =>
  isKnown ? found?.result() : undefined;

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
