import { changeFreePlayers, type PlayersOf } from "../../progression/change-free-players.ts";
import type { Work } from "../../kernel/work.ts";
import { endDueBoosts } from "../../evaluation/boosts/boosts.ts";

/** What is due where: see findDue. */
export const DUE_BOOSTS = { table: "player_boosts" } as const;

/** Ends the players' boosts whose time is over. Twice is once. */
export const endPlayersBoosts = (work: Work, players: PlayersOf): Promise<void> =>
  changeFreePlayers(work, players, async () => undefined, endDueBoosts);
