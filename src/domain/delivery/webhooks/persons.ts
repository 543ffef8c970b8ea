import { type RawBuilder, sql } from "kysely";
import { isId } from "../../kernel/ids.ts";
import type { Happened } from "./body.ts";

/** Error of a delivery whose event concerned an erased person. */
export const ERASED_ERROR = "Its player was erased";

/** The event about the erasure itself, without any data of the person. */
export const ERASURE_TYPE = "player.erased";

/** Fields whose values are ids of players. */
const PLAYER_FIELD = /player|host|mention|sender|reporter|member/i;
/** Maximum difference between the clocks of the process that erases and that of an event, in ms. */
const CLOCKS_MS = 60_000;

/** Returns the ids of all players that an event refers to, wherever they are in it. */
export const playersOf = ({ playerId, data }: Pick<Happened, "playerId" | "data">): string[] => {
  const ids = new Set<string>(playerId === null ? [] : [playerId]);
  collect(data, { isPlayer: false, ids });
  return [...ids];
};

const collect = (value: unknown, at: { isPlayer: boolean; ids: Set<string> }): void => {
  const { isPlayer, ids } = at;
  if (typeof value === "string") {
    if (isPlayer && isId(value)) ids.add(value);
  } else if (Array.isArray(value)) {
    for (const one of value) collect(one, at);
  } else if (typeof value === "object" && value !== null) {
    for (const [key, one] of Object.entries(value)) collect(one, { isPlayer: PLAYER_FIELD.test(key), ids });
  }
};

type Columns = Record<"projectId" | "type" | "players" | "createdAt", RawBuilder<unknown>>;

/**
 * Condition: whether an event concerns a person who was erased after it. It looks players up by their ids, so
 * that it applies from the commit that erases on, however long the rest of the erasure takes. The limit makes
 * the planner look up each by its key: where statistics are old it would read all players for every event.
 */
export const concernsErased = ({ projectId, type, players, createdAt }: Columns): RawBuilder<boolean> => sql`(
  ${type} <> ${sql.lit(ERASURE_TYPE)} and exists (
    select from unnest(${players}) as n(id) cross join lateral (
      select external_user_id, updated_at from players
      where project_id = ${projectId} and id = n.id limit 1) p
    where p.external_user_id = 'erased:' || n.id::text
      and p.updated_at >= ${createdAt} - ${sql.lit(`${CLOCKS_MS} ms`)}::interval))`;
