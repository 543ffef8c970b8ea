import { changeFreePlayers, type PlayersOf } from "../../progression/moved-ends.ts";
import type { Work } from "../../kernel/work.ts";
import { endDueBoosts } from "../../evaluation/boosts/boosts.ts";

/** The table whose due rows are processed: see findDue. */
export const DUE_BOOSTS = { table: "player_boosts" } as const;

/** Ends the players' expired boosts. Idempotent. */
export const endPlayersBoosts = (work: Work, players: PlayersOf): Promise<void> =>
  changeFreePlayers(work, players, endDueBoosts);
