import type { PlayerAdventure } from "../../evaluation/adventures/show.ts";
import type { PlanTurn } from "../../evaluation/project-plan.ts";
import type { PlayerQuest } from "../../evaluation/quests/show.ts";
import { nextSlice } from "../../kernel/slices.ts";
import type { Work } from "../../kernel/work.ts";
import { Player } from "../../players/player.ts";
import { readTurns, shownQuests } from "../quests/player-quests.ts";
import { shownAdventures } from "./player-adventures.ts";

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
