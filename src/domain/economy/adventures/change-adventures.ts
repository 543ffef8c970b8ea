import { goalOf, readTurn, readTurns, shownQuests } from "../quests/player-quests.ts";
import { givePremium, joinNow, premiumProblem, settleDue } from "../../evaluation/adventures/advance.ts";
import type { CompiledAdventure } from "../../evaluation/adventures/compile.ts";
import {
  bundleOf,
  claimAdventure,
  claimTier,
  expireAdventure,
  isClaimed,
  NOT_IN_AUDIENCE,
  rowOf,
} from "../../evaluation/adventures/progress.ts";
import { hasJoined, type Track, wholePoints } from "../../evaluation/adventures/row.ts";
import { type PlayerAdventure, showAdventure } from "../../evaluation/adventures/show.ts";
import { adjustCurrency } from "../../evaluation/currencies/adjust.ts";
import { checkActive } from "../../evaluation/player-state.ts";
import type { PlanTurn } from "../../evaluation/project-plan.ts";
import type { PlayerQuest } from "../../evaluation/quests/show.ts";
import { conflict, notFound } from "../../kernel/errors.ts";
import { nextSlice } from "../../kernel/slices.ts";
import type { Work } from "../../kernel/work.ts";
import { Player } from "../../players/player.ts";
import { changePlayer, type PlayerKey } from "../../progression/change.ts";
import { sql } from "kysely";
import {
  dueIn,
  endAt,
  type EndingRows,
  type Ends,
  ENDS_PAGE,
  isOtherVersion,
  type PlayersOf,
  settleDueRows,
} from "../../progression/moved-ends.ts";

/** Those that are over are shown to players who took part. */
const isShown = ({ player, event }: PlanTurn, { key, phase, endMs }: CompiledAdventure): boolean =>
  hasJoined(player.adventures.get(key)) || (phase !== "ENDED" && event.at < endMs);

const orderOf = (a: CompiledAdventure, b: CompiledAdventure): number =>
  a.definition.sortOrder - b.definition.sortOrder || a.fromMs - b.fromMs || (a.key < b.key ? -1 : 1);

/** Lists a player's adventures as of now, those that could be joined or are to come included. */
export const listPlayerAdventures = async (work: Work, player: Player): Promise<PlayerAdventure[]> =>
  shownAdventures(await readTurn(work, player));

/** Returns the adventures of the turn's player, as they are listed. */
export const shownAdventures = (turn: PlanTurn): PlayerAdventure[] =>
  [...turn.project.adventures.byKey.values()]
    .filter((adventure) => isShown(turn, adventure))
    .toSorted(orderOf)
    .map((adventure) => showAdventure(turn, adventure));

const adventureOf = ({ adventures }: PlanTurn["project"], ref: string): CompiledAdventure =>
  goalOf(adventures.byKey, ref, "adventure");

/** Returns a player's adventure. @throws DomainError NOT_FOUND for an unknown one */
export const readPlayerAdventure = async (
  work: Work,
  player: Player,
  adventureRef: string,
): Promise<PlayerAdventure> => {
  const turn = await readTurn(work, player);
  return showAdventure(turn, adventureOf(turn.project, adventureRef));
};

/** Maximum bytes of JSON of a player's quests in a snapshot, and of the adventures. */
export const GOALS_BYTES_MAX = 64 * 1024;

/** Where a player stands, begun first; `isTruncated`: not everything had room. */
export type PlayerGoals = { quests: PlayerQuest[]; adventures: PlayerAdventure[]; isTruncated: boolean };

/** Returns the first of a list that have room together; those with an id, which are begun, come first. */
const fitting = <T extends { id: string | null }>(all: readonly T[]): T[] => {
  const begun = all.filter(({ id }) => id !== null);
  const found: T[] = [];
  let bytes = 0;
  for (const one of [...begun, ...all.filter(({ id }) => id === null)]) {
    bytes += Buffer.byteLength(JSON.stringify(one));
    if (bytes > GOALS_BYTES_MAX) break;
    found.push(one);
  }
  return found;
};

const goalsOf = async (turn: PlanTurn): Promise<PlayerGoals> => {
  const [allQuests, allAdventures] = [await shownQuests(turn), shownAdventures(turn)];
  const [quests, adventures] = [fitting(allQuests), fitting(allAdventures)];
  const isTruncated = quests.length < allQuests.length || adventures.length < allAdventures.length;
  return { quests, adventures, isTruncated };
};

/** Reads the quests and adventures of players of one project as of now, by id; the statements do not grow. */
export const readPlayersGoals = async (
  work: Work,
  projectId: string,
  playerIds: readonly string[],
): Promise<Map<string, PlayerGoals>> => {
  const players = await work.em.find(Player, { projectId, id: { $in: [...playerIds] } });
  const turns = await readTurns(work, projectId, players);
  const goals = new Map<string, PlayerGoals>();
  for (const turn of turns) {
    goals.set(turn.player.id, await goalsOf(turn));
    await nextSlice();
  }
  return goals;
};

/** Changes an adventure of a player after settling what is over. */
const changeAdventure = async (
  work: Work,
  player: PlayerKey,
  adventureRef: string,
  change: (turn: PlanTurn, adventure: CompiledAdventure, key: string) => void,
): Promise<PlayerAdventure> => {
  const applied = (turn: PlanTurn, key: string) => {
    const adventure = adventureOf(turn.project, adventureRef);
    checkActive(turn.player);
    expireAdventure(turn, adventure);
    change(turn, adventure, key);
    return () => showAdventure(turn, adventure);
  };
  return (await changePlayer(work, player, applied)).value;
};

/** Makes a player join. @throws DomainError NOT_FOUND; CONFLICT: ADVENTURE_NOT_AVAILABLE, PLAYER_INACTIVE */
export const joinPlayerAdventure = (
  work: Work,
  player: PlayerKey,
  adventureRef: string,
): Promise<PlayerAdventure> =>
  changeAdventure(work, player, adventureRef, (turn, adventure) => refuse(joinNow(turn, adventure)));

/** Throws why an adventure cannot be joined, or premium not be given, if it cannot. */
const refuse = (problem: string | undefined): void => {
  if (problem !== undefined) throw conflict("ADVENTURE_NOT_AVAILABLE", problem);
};

const refuseLate = ({ event }: PlanTurn, { claimMs }: CompiledAdventure): void => {
  if (event.at >= claimMs) throw conflict("CLAIM_EXPIRED", "the time to claim rewards is over");
};

/**
 * Claims the rewards of a completed adventure.
 * @throws DomainError NOT_FOUND; CONFLICT: ALREADY_CLAIMED, CLAIM_EXPIRED, INVALID_STATE
 */
export const claimPlayerAdventure = (
  work: Work,
  player: PlayerKey,
  adventureRef: string,
): Promise<PlayerAdventure> =>
  changeAdventure(work, player, adventureRef, (turn, adventure) => {
    const row = rowOf(turn, adventure);
    if (row?.state === "CLAIMED") throw conflict("ALREADY_CLAIMED", "the rewards have been claimed");
    if (row?.completedMs !== undefined && row.completedMs !== null) refuseLate(turn, adventure);
    if (row?.state !== "COMPLETED")
      throw conflict("INVALID_STATE", `the adventure is not completed: it is ${row?.state ?? "not joined"}`);
    claimAdventure(turn, adventure);
  });

/**
 * Claims the rewards of a tier on one track.
 * @throws DomainError NOT_FOUND; CONFLICT: ALREADY_CLAIMED, CLAIM_EXPIRED, PREMIUM_REQUIRED, INVALID_STATE
 */
export const claimPlayerTier = (
  work: Work,
  player: PlayerKey,
  { adventureRef, tier: number, track }: { adventureRef: string; tier: number; track: Track },
): Promise<PlayerAdventure> =>
  changeAdventure(work, player, adventureRef, (turn, adventure) => {
    const tier = adventure.definition.tiers.find((one) => one.tier === number);
    if (!tier) throw notFound(`tier ${number}`);
    const row = rowOf(turn, adventure);
    const reached = row?.tiers[number];
    if (isClaimed(reached, track)) throw conflict("ALREADY_CLAIMED", "the rewards have been claimed");
    if (!bundleOf(tier, track))
      throw conflict("INVALID_STATE", `tier ${number} has no rewards on the ${track} track`);
    if (!reached) {
      const why = `it needs ${tier.points} points, and the player has ${wholePoints(row)}`;
      throw conflict("INVALID_STATE", `tier ${number} is not reached: ${why}`);
    }
    refuseLate(turn, adventure);
    if (track === "PREMIUM" && row?.premiumMs === null)
      throw conflict("PREMIUM_REQUIRED", "the player does not have premium");
    claimTier(turn, adventure, tier, track);
  });

const pay = (turn: PlanTurn, { key: adventureKey, definition }: CompiledAdventure, key: string): void => {
  const { premiumPrice: price } = definition;
  if (!price) throw conflict("NOT_FOR_SALE", `premium of ${adventureKey} has no price`);
  const { problem } = adjustCurrency(turn, {
    currencyKey: price.currencyKey,
    amount: -price.amount,
    cause: { kind: "ADVENTURE", refKey: adventureKey },
    key: `${key}:price`,
    reason: `premium:${adventureKey}`,
  });
  if (problem === "UNKNOWN_CURRENCY")
    throw conflict("NOT_FOR_SALE", `the currency ${price.currencyKey} is archived`);
  if (problem !== undefined) throw conflict(problem, `premium costs ${price.amount} ${price.currencyKey}`);
};

/**
 * Gives a player premium: for its price, or granted. One who has it already gets it granted without effect.
 * @throws DomainError NOT_FOUND; CONFLICT: ADVENTURE_NOT_AVAILABLE, ALREADY_PREMIUM, NOT_FOR_SALE,
 * INSUFFICIENT_FUNDS
 */
export const givePlayerPremium = (
  work: Work,
  player: PlayerKey,
  { adventureRef, isGranted }: { adventureRef: string; isGranted: boolean },
): Promise<PlayerAdventure> =>
  changeAdventure(work, player, adventureRef, (turn, adventure, key) => {
    const row = rowOf(turn, adventure);
    const hasPremium = row !== undefined && row.premiumMs !== null;
    if (hasPremium && isGranted) return;
    if (hasPremium) throw conflict("ALREADY_PREMIUM", "the player has premium already");
    refuse(premiumProblem(turn, adventure));
    if (!isGranted) {
      if (!row && !adventure.isForPlayer(turn)) refuse(NOT_IN_AUDIENCE);
      pay(turn, adventure, key);
    }
    givePremium(turn, adventure);
  });

/** The table whose due rows are processed: see findDue. */
export const DUE_ADVENTURES = dueIn("player_adventures");

/** Unlocks and expires the adventures of players of which something is due. Idempotent. */
export const settlePlayersAdventures = (work: Work, players: PlayersOf): Promise<void> =>
  settleDueRows(work, DUE_ADVENTURES, players, (turn) => {
    if (turn.player.status !== "ERASED") settleDue(turn);
    dropUnknown(turn);
  });

/** Nothing is due any more in an archived adventure. */
const dropUnknown = ({ player, project }: PlanTurn): void => {
  for (const [key, row] of player.adventures) {
    if (row.dueMs === null || project.adventures.byKey.has(key)) continue;
    player.adventures.set(key, { ...row, dueMs: null, isChanged: true });
    player.dirty.adventures.add(key);
  }
};

/** When a row `s` is due at the latest: now, where its player takes part by another version. */
const latest = ({ now }: Work, ends: Ends) =>
  sql`case
    when s.started_at is not null and s.state <> 'EXPIRED' and ${isOtherVersion("adventure_version", ends)}
      then ${endAt(now.getTime())}
    when s.state in ('IN_PROGRESS', 'WAITING') then ${endAt(ends.openMs)}
    when s.state = 'COMPLETED' then ${endAt(ends.claimMs)} else 'infinity' end`;

/** Rows of players who have joined, or have premium, that fall due with the end of their adventure. */
export const ADVENTURE_ENDS: EndingRows = {
  kind: "adventure",
  endsOf: ({ adventures }, key) => {
    const adventure = adventures.byKey.get(key);
    if (!adventure) return undefined;
    return { openMs: adventure.endMs, claimMs: adventure.claimMs, kept: [adventure.version] };
  },
  readPage: async (work, { projectId, key, after, ends }) => {
    const { rows } = await sql<{ id: string; is_late: boolean | null }>`
      select s.player_id as id, coalesce(s.due_at, 'infinity') > ${latest(work, ends)} as is_late from player_adventures s
      where s.project_id = ${projectId}::uuid and s.adventure_key = ${key} and s.player_id > ${after}::uuid
      order by s.player_id limit ${ENDS_PAGE}`.execute(work.db);
    const playerIds = rows.flatMap(({ id, is_late: isLate }) => (isLate === true ? [id] : []));
    return { playerIds, after: rows.length === ENDS_PAGE ? rows.at(-1)!.id : undefined };
  },
  moveDue: async (work, { projectId, key, playerIds, ends }) => {
    await sql`
      update player_adventures s set due_at = ${latest(work, ends)}
      where s.project_id = ${projectId}::uuid and s.adventure_key = ${key}
        and s.player_id = any(${`{${playerIds.join(",")}}`}::uuid[])
        and coalesce(s.due_at, 'infinity') > ${latest(work, ends)}`.execute(work.db);
  },
};
