import { setTimeout as delay } from "node:timers/promises";
import { DomainError } from "../../kernel/errors.ts";
import { tellLater } from "../../leaderboards/notices/due.ts";
import {
  type ChangedList,
  type NoticeList,
  readNoticeLists,
} from "../../leaderboards/notices/notice-lists.ts";
import type { Known } from "../../leaderboards/notices/decide.ts";
import { type SeenRanks, seeRanks } from "../../leaderboards/notices/seen-ranks.ts";
import { type Told, tellRanks } from "../../leaderboards/notices/tell.ts";
import type { RankStore, Standing } from "../../evaluation/boards/ranks.ts";
import { fromRankScore } from "../../evaluation/boards/scoring.ts";
import type { PlayerNotice } from "../../kernel/events/realtime-events.ts";
import { type MessageFor, noticeTopic, type Topics } from "../../kernel/events/topics.ts";
import type { Transact, Work } from "../../kernel/work.ts";

/** How long a relay waits for ranks, in ms: a large index that is being built takes longer. */
const RANKS_PATIENCE_MS = 500;
/** Another relay tells of the same lists: ranks are read again this often, then left to the sweep. */
const TRIES = 3;

type Parts = { transact: Transact; ranks: RankStore; topics: Topics };

/** What was read with the rows of a round: whose entries changed, and which lists tell of it. */
export type Changed = { changed: readonly ChangedList[]; lists: readonly NoticeList[] };

/** The ranks of all lists; undefined when they cannot be read now. */
const seeInTime = async (ranks: RankStore, { changed, lists }: Changed): Promise<SeenRanks[] | undefined> => {
  const players = new Map(changed.map(({ periodId, playerIds }) => [periodId, playerIds]));
  const seen = Promise.all(lists.map((list) => seeRanks(ranks, list, players.get(list.ref.periodId)!)));
  const patience = new AbortController();
  const late = delay(RANKS_PATIENCE_MS, undefined, { signal: patience.signal }).catch(() => undefined);
  try {
    return await Promise.race([seen, late]);
  } catch (error) {
    if (error instanceof DomainError) return undefined;
    throw error;
  } finally {
    patience.abort();
    // Whoever was too late is heard no more.
    seen.catch(() => undefined);
  }
};

/**
 * Tells what a round has changed in ranks, in one transaction with `finish`, which lets the round's rows go:
 * a crash before repeats both, and none comes after. Where ranks cannot be read they are told by the sweep.
 */
export const tellChanged = async (
  { transact, ranks, topics }: Parts,
  round: Changed,
  finish: (work: Work) => Promise<void>,
): Promise<void> => {
  if (round.lists.length === 0) return transact(finish);
  const open = new Set(round.lists.map(({ ref }) => ref.periodId));
  const changed = round.changed.filter(({ periodId }) => open.has(periodId));
  let lists = round.lists;
  for (let tried = 1; tried <= TRIES; tried++) {
    const seen = tried < TRIES ? await seeInTime(ranks, { changed, lists }) : undefined;
    const told = await transact(async (work) => {
      const done = seen ? await tellRanks(work, seen) : "LATER";
      if (done === "LATER") await tellLater(work, lists, changed);
      if (done) await finish(work);
      return done;
    });
    if (told && told !== "LATER") await publishPlaces(topics, seen!, told);
    if (told) return;
    lists = await transact((work) => readNoticeLists(work, changed));
  }
};

type PlaceNotice = Extract<PlayerNotice, { name: "leaderboard.me" }>;

/** Tells players on their own streams where they are now. Nothing is lost when this is. */
const publishPlaces = async (
  topics: Topics,
  seen: readonly SeenRanks[],
  { known, decisions }: Told,
): Promise<void> => {
  const toldOf = new Map(
    decisions.map(({ list, changes }) => [list.ref.periodId, changes.map(({ playerId }) => playerId)]),
  );
  const notices = seen.flatMap((one) => {
    const { projectId, periodId } = one.list.ref;
    const playerIds = new Set([...one.changed, ...(toldOf.get(periodId) ?? [])]);
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
  before: Known | undefined,
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
