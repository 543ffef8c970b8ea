import { together } from "../../kernel/together.ts";
import type { Work } from "../../kernel/work.ts";
import { Player } from "../../players/player.ts";
import type { PlayerKey } from "../reference.ts";
import { type ShownPlayer, showPlayers } from "./show.ts";

/** Reads players as they are now in the transaction, detached from its unit of work. */
const readAgain = async ({ em }: Work, keys: readonly PlayerKey[]): Promise<Map<string, Player>> => {
  const where = { projectId: keys[0]!.projectId, id: { $in: [...new Set(keys.map(({ id }) => id))] } };
  const players = await em.find(Player, where, { disableIdentityMap: true });
  return new Map(players.map((player) => [player.id, player]));
};

/** Returns a player after a change in this transaction, as the API shows players. */
export const showChanged = together({
  phase: "SHOW",
  isWrite: false,
  run: async (work, keys: readonly PlayerKey[]) => {
    const players = await readAgain(work, keys);
    const shown = await showPlayers(work, keys[0]!.projectId, [...players.values()]);
    const byId = new Map<string, ShownPlayer>(shown.map((one) => [one.id, one]));
    return keys.map(({ id }) => ({ value: byId.get(id)! }));
  },
});

/** Returns a player after a change in this transaction. */
export const readChanged = together({
  phase: "SHOW",
  isWrite: false,
  run: async (work, keys: readonly PlayerKey[]) => {
    const players = await readAgain(work, keys);
    return keys.map(({ id }) => ({ value: players.get(id)! }));
  },
});
