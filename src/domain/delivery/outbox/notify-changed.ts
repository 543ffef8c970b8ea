import { setTimeout as delay } from "node:timers/promises";
import { DomainError } from "../../kernel/errors.ts";
import { deferNotices } from "../../leaderboards/notices/due.ts";
import {
  type ChangedList,
  type NoticeList,
  readNoticeLists,
} from "../../leaderboards/notices/notice-lists.ts";
import type { NotifiedPlayer } from "../../leaderboards/notices/decide.ts";
import { type SeenRanks, seeRanks } from "../../leaderboards/notices/seen-ranks.ts";
import { type SentNotices, sendNotices } from "../../leaderboards/notices/send.ts";
import type { RankStore, Standing } from "../../evaluation/boards/ranks.ts";
import { fromRankScore } from "../../evaluation/boards/scoring.ts";
import type { PlayerNotice } from "../../kernel/events/realtime-events.ts";
import { type MessageFor, noticeTopic, type Topics } from "../../kernel/events/topics.ts";
import type { Transact, Work } from "../../kernel/work.ts";

/** How long a relay waits for ranks, in ms: building a large index takes longer. */
const RANKS_PATIENCE_MS = 500;
/** As above, for a backlog: nobody else waits for its round. */
const BACKLOG_PATIENCE_MS = 5_000;
/**
 * Attempts to read ranks when another relay sends notices of the same lists; then they are left to the sweep.
 */
const TRIES = 3;

type Parts = { transact: Transact; ranks: RankStore; topics: Topics };

/** Data read with the rows of a round: players whose entries changed, and lists with notices. */
export type Changed = { changed: readonly ChangedList[]; lists: readonly NoticeList[] };
type Notifying = Changed & { isBacklog: boolean };

/** Returns the ranks of all lists; undefined when they cannot be read now. */
const seeInTime = async (
  ranks: RankStore,
  { changed, lists, isBacklog }: Notifying,
): Promise<SeenRanks[] | undefined> => {
  const players = new Map(changed.map(({ periodId, playerIds }) => [periodId, playerIds]));
  const seen = Promise.all(lists.map((list) => seeRanks(ranks, list, players.get(list.ref.periodId)!)));
  const patience = new AbortController();
  const patienceMs = isBacklog ? BACKLOG_PATIENCE_MS : RANKS_PATIENCE_MS;
  const late = delay(patienceMs, undefined, { signal: patience.signal }).catch(() => undefined);
  try {
    return await Promise.race([seen, late]);
  } catch (error) {
    if (error instanceof DomainError) return undefined;
    throw error;
  } finally {
    patience.abort();
    // A late failure is ignored.
    seen.catch(() => undefined);
  }
};

/**
 * Sends notices of a round's rank changes, in one transaction with `finish`, which removes the round's rows:
 * a crash before it repeats both, and a crash after it neither. If ranks cannot be read, the sweep sends
 * them.
 */
export const notifyChanged = async (
  { transact, ranks, topics }: Parts,
  round: Notifying,
  finish: (work: Work) => Promise<void>,
): Promise<void> => {
  if (round.lists.length === 0) return transact(finish);
  const open = new Set(round.lists.map(({ ref }) => ref.periodId));
  const changed = round.changed.filter(({ periodId }) => open.has(periodId));
  let lists = round.lists;
  for (let tried = 1; tried <= TRIES; tried++) {
    const seen = tried < TRIES ? await seeInTime(ranks, { ...round, changed, lists }) : undefined;
    const sent = await transact(async (work) => {
      const done = seen ? await sendNotices(work, seen) : "LATER";
      if (done === "LATER") await deferNotices(work, lists, changed);
      if (done) await finish(work);
      return done;
    });
    if (sent && sent !== "LATER") await publishPlaces(topics, seen!, sent);
    if (sent) return;
    lists = await transact((work) => readNoticeLists(work, changed));
  }
};

type PlaceNotice = Extract<PlayerNotice, { name: "leaderboard.me" }>;

/** Publishes players' current places on their own streams. Losing such a message is harmless. */
const publishPlaces = async (
  topics: Topics,
  seen: readonly SeenRanks[],
  { known, decisions }: SentNotices,
): Promise<void> => {
  const sentOf = new Map(
    decisions.map(({ list, changes }) => [list.ref.periodId, changes.map(({ playerId }) => playerId)]),
  );
  const notices = seen.flatMap((one) => {
    const { projectId, periodId } = one.list.ref;
    const playerIds = new Set([...one.changed, ...(sentOf.get(periodId) ?? [])]);
    return [...playerIds].flatMap((playerId): MessageFor[] => {
      const standing = one.standings.get(playerId);
      const before = known.get(periodId)?.get(playerId);
      return standing ? [[noticeTopic(projectId, playerId), () => placeOf(one, standing, before)]] : [];
    });
  });
  await topics.publishIfSubscribed(notices);
};

const placeOf = (
  { list, participants }: SeenRanks,
  { rank, rankScore }: Standing,
  before: NotifiedPlayer | undefined,
): PlaceNotice => ({
  name: "leaderboard.me",
  data: {
    leaderboardKey: list.leaderboardKey,
    periodKey: list.periodKey,
    board: list.board,
    rank,
    previousRank: before?.rank ?? null,
    score: fromRankScore(list.scoring, rankScore),
    participants,
  },
});
