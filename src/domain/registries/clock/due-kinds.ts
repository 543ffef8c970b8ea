import { type RawBuilder, sql } from "kysely";
import { ADVENTURE_ENDS, DUE_ADVENTURES, settlePlayersAdventures } from "../../economy/adventures/due.ts";
import { DUE_BOOSTS, endPlayersBoosts } from "../../economy/boosts/sweep.ts";
import {
  DUE_HOLDS,
  DUE_LOTS,
  expirePlayersHolds,
  expirePlayersLots,
} from "../../economy/currencies/sweep.ts";
import { DUE_QUESTS, QUEST_ENDS, settlePlayersQuests } from "../../economy/quests/due.ts";
import { claimEndsOf, expireGrants } from "../../economy/rewards/player-rewards.ts";
import { DUE_STREAKS, settlePlayersStreaks } from "../../economy/streaks/due.ts";
import type { Work } from "../../kernel/work.ts";
import { beginClosing, closeTimesOf, closingListsOf, stepClosing } from "../../leaderboards/periods/close.ts";
import { openWindows, windowTimesOf } from "../../leaderboards/periods/open.ts";
import { stepRanking, windowsToRank } from "../../leaderboards/periods/values.ts";
import type { PlayersOf } from "../../progression/change-free-players.ts";
import { countDueOf, type DueRows, dueTimesOf, findDueOf } from "../../progression/due-players.ts";
import { type EndingRows, followEnd, movedEnds, movedEndsOf } from "../../progression/moved-ends.ts";
import { delayedTimesOf, requeueDelayed } from "../../progression/waiting-work.ts";
import { scheduleTimesOf, stepSchedules } from "../../rules/schedules.ts";

/** What was done of what is due: how many, or that others have to do something first. */
export type Settled = { count: number } | "BLOCKED";

/** One of the things that fall due with time. */
export type DueKind = {
  /** Selects the times `due_at` of a project's rows. */
  times(projectId: string): RawBuilder<unknown>;
  /** Does a bounded part of what is due in a project by `work.now`. */
  settle(work: Work, projectId: string): Promise<Settled>;
};

/** Grants that expire in one transaction. */
const GRANTS_AT_ONCE = 1_000;

const ofPlayers = (due: DueRows, settle: (work: Work, players: PlayersOf) => Promise<void>): DueKind => ({
  times: (projectId) => dueTimesOf(due, projectId),
  settle: async (work, projectId) => {
    const { playerIds, rows } = await findDueOf(work, due, projectId);
    const players = { projectId, playerIds };
    await settle(work, players);
    const left = await countDueOf(work, due, players);
    return left < rows ? { count: rows - left } : "BLOCKED";
  },
});

/** As `due`, after rows of definitions whose ends have been moved are due by these. */
const withEnds = (rows: EndingRows, due: DueKind): DueKind => ({
  times: (projectId) => sql`${due.times(projectId)} union all ${movedEndsOf(rows, projectId)}`,
  settle: async (work, projectId) => {
    const [moved] = await movedEnds(work, rows, projectId);
    if (!moved) return due.settle(work, projectId);
    return (await followEnd(work, rows, moved)) === "BUSY" ? "BLOCKED" : { count: 0 };
  },
});

const counted = (count: number): Settled => (count > 0 ? { count } : "BLOCKED");

/** Lists are counted when they begin to close: a step of one may be done by the sweep of all projects. */
const closeLists = async (work: Work, projectId: string): Promise<Settled> => {
  const [window] = await windowsToRank(work, projectId);
  if (window) return (await stepRanking(work, window)) === "BUSY" ? "BLOCKED" : { count: 0 };
  const [list] = await closingListsOf(work, projectId);
  if (!list) return counted(await beginClosing(work, projectId));
  const { step } = await stepClosing(work, list);
  return step === "NONE" ? "BLOCKED" : { count: 0 };
};

const runSchedule = async (work: Work, projectId: string): Promise<Settled> => {
  const step = await stepSchedules(work, undefined, { projectId });
  return !step || step.isFull ? "BLOCKED" : { count: step.players };
};

/** Everything that falls due with time; of what is due at once, the first is done first. */
export const DUE_KINDS = {
  eventsDelayed: {
    times: delayedTimesOf,
    settle: async (work, projectId) => counted(await requeueDelayed(work, projectId)),
  },
  periodsClosed: { times: closeTimesOf, settle: closeLists },
  periodsOpened: {
    times: windowTimesOf,
    settle: async (work, projectId) => counted(await openWindows(work, projectId)),
  },
  questsExpired: withEnds(QUEST_ENDS, ofPlayers(DUE_QUESTS, settlePlayersQuests)),
  adventuresSettled: withEnds(ADVENTURE_ENDS, ofPlayers(DUE_ADVENTURES, settlePlayersAdventures)),
  streaksSettled: ofPlayers(DUE_STREAKS, settlePlayersStreaks),
  holdsReleased: ofPlayers(DUE_HOLDS, expirePlayersHolds),
  lotsExpired: ofPlayers(DUE_LOTS, expirePlayersLots),
  boostsEnded: ofPlayers(DUE_BOOSTS, endPlayersBoosts),
  rewardsExpired: {
    times: claimEndsOf,
    settle: async (work, projectId) => counted(await expireGrants(work, GRANTS_AT_ONCE, { projectId })),
  },
  scheduledRuns: { times: scheduleTimesOf, settle: runSchedule },
} as const satisfies Record<string, DueKind>;

export type DueName = keyof typeof DUE_KINDS;
export const DUE_NAMES = Object.keys(DUE_KINDS) as DueName[];
