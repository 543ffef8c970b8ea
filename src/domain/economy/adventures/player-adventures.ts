import type { CompiledAdventure } from "../../evaluation/adventures/compile.ts";
import { hasJoined } from "../../evaluation/adventures/row.ts";
import { type PlayerAdventure, showAdventure } from "../../evaluation/adventures/show.ts";
import type { PlanTurn } from "../../evaluation/project-plan.ts";
import { notFound } from "../../kernel/errors.ts";
import type { Work } from "../../kernel/work.ts";
import type { Player } from "../../players/player.ts";
import { readTurn } from "../quests/player-quests.ts";

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

/** Finds an adventure by its UUID or key. @throws DomainError NOT_FOUND */
export const adventureOf = ({ adventures }: PlanTurn["project"], ref: string): CompiledAdventure => {
  const found =
    adventures.byKey.get(ref) ?? [...adventures.byKey.values()].find(({ id }) => id === ref.toLowerCase());
  if (!found) throw notFound("adventure");
  return found;
};

/** Returns a player's adventure. @throws DomainError NOT_FOUND for an unknown one */
export const readPlayerAdventure = async (
  work: Work,
  player: Player,
  adventureRef: string,
): Promise<PlayerAdventure> => {
  const turn = await readTurn(work, player);
  return showAdventure(turn, adventureOf(turn.project, adventureRef));
};
