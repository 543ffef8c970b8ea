import { definitionKind } from "../definitions/definitions.ts";
import { Currency, currencyShape } from "../../evaluation/currencies/currency.ts";
import { sql } from "kysely";
import { changeFreePlayers, type PlayersOf } from "../../progression/moved-ends.ts";
import type { Work } from "../../kernel/work.ts";
import { expireLots } from "../../evaluation/currencies/adjust.ts";
import { freeHeld } from "./holds.ts";

/** The table whose due rows are processed: see findDue. */
export const DUE_LOTS = { table: "currency_lots" } as const;
export const DUE_HOLDS = { table: "currency_holds", where: sql`status = 'HELD'` } as const;

type HoldRow = { player_id: string; currency_key: string; amount: number };

/** Removes the players' expired currency lots. Idempotent. */
export const expirePlayersLots = (work: Work, players: PlayersOf): Promise<void> =>
  changeFreePlayers(work, players, (turn) => {
    for (const currencyKey of turn.player.lots.keys()) expireLots(turn, currencyKey);
  });

/** Releases the players' expired holds. Idempotent. */
export const expirePlayersHolds = (work: Work, players: PlayersOf): Promise<void> =>
  changeFreePlayers(
    work,
    players,
    (turn, held: readonly HoldRow[]) => {
      for (const { player_id: playerId, currency_key: key, amount } of held)
        if (playerId === turn.player.id) freeHeld(turn, key, amount);
    },
    (playerIds) => endHolds(work, { projectId: players.projectId, playerIds }),
  );

/** The players are locked, so that no other transaction settles their holds. */
const endHolds = async ({ db, now }: Work, { projectId, playerIds }: PlayersOf): Promise<HoldRow[]> => {
  const at = now.toISOString();
  const { rows } = await sql<HoldRow>`
    update currency_holds set status = 'EXPIRED', settled_at = ${at}::timestamptz
    where project_id = ${projectId} and player_id = any(${`{${playerIds.join(",")}}`}::uuid[])
      and status = 'HELD' and expires_at <= ${at}::timestamptz
    returning player_id, currency_key, amount`.execute(db);
  return rows;
};

export const currencyKind = definitionKind<Currency>({
  kind: "currency",
  example: { key: "coins", name: "Coins", maxBalance: 1000000 },
  plural: "currencies",
  tag: "Currencies",
  schema: Currency,
  shape: currencyShape,
  max: 20,
});
