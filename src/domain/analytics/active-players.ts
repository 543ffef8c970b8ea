import { type RawBuilder, sql } from "kysely";
import { eventsOf, textList } from "./events.ts";
import { eachPlayerStretches } from "./packed.ts";
import { type PropertyFilter, whereOf } from "./properties.ts";
import { bucketOf, type Frame } from "./range.ts";
import {
  areDivisible,
  eachRolledFirst,
  eachRolledPlayer,
  type RolledPlayer,
  type Stretches,
} from "./rollups/players.ts";
import { openRolled, type Who } from "./rollups/rolled.ts";
import type { Work } from "../kernel/work.ts";

/** Which events make a player active. Default: all. */
export type ActiveBy = {
  types?: readonly string[] | undefined;
  /** Rollups do not know properties: events are read. */
  filters?: readonly PropertyFilter[] | undefined;
};

type ActiveQuestion = Stretches &
  ActiveBy & {
    /** Only events that make active count, also as a player's first one. */
    isOfThese?: boolean | undefined;
    /** Players whose first event was before are left out; in ms. */
    sinceMs?: number | undefined;
  };

/** A player as `RolledPlayer`, by id where events were read. */
export type ActivePlayer = Omit<RolledPlayer, "who"> & { who: Who };

/** A query of when each player did anything: the columns player_id, at and c, the stretch, or -1. */
const stretchesOfEvents = (frame: Frame, question: ActiveQuestion): RawBuilder<unknown> => {
  const { cutsMs, untilMs, types, filters = [], isOfActive, isOfThese } = question;
  const where = whereOf(filters);
  const isSelected = isOfActive || isOfThese;
  const conditions = [...(types ? [sql`e.event_type in ${textList(types)}`] : []), ...(where ? [where] : [])];
  const stretch = bucketOf({ startsMs: cutsMs, endMs: untilMs }, sql`e.at`);
  const isActive = isSelected || conditions.length === 0;
  const events = eventsOf(frame, {
    ...(isOfActive ? { fromMs: cutsMs[0]! } : {}),
    untilMs,
    ...(isSelected ? { types, where } : {}),
  });
  return sql`
    select e.player_id, e.at,
      ${isActive ? stretch : sql`case when ${sql.join(conditions, sql` and `)} then ${stretch} else -1 end`} as c
    from (${events}) e`;
};

/**
 * Judges each player with an event before `untilMs`, one after the other in no order, by the stretches in
 * which there were events: from rollups where they can tell, else from events.
 * @throws DomainError VALIDATION_ERROR for more events than a question, or one player of it, may have
 */
export const eachActivePlayer = async (
  work: Work,
  frame: Frame,
  question: ActiveQuestion,
  judge: (player: ActivePlayer) => void,
): Promise<void> => {
  const { types, filters = [], isOfThese, sinceMs, untilMs } = question;
  const isKnown = filters.length === 0 && !(isOfThese && types) && areDivisible(question);
  const rolled = isKnown ? await openRolled(work, frame) : undefined;
  if (!rolled)
    return eachPlayerStretches(work, { events: stretchesOfEvents(frame, question), sinceMs }, judge);
  return eachRolledPlayer(work, rolled, question, (player) => {
    if (player.firstMs < untilMs && player.firstMs >= (sinceMs ?? -Infinity)) judge(player);
  });
};

/** Calls `take` with the time of the first event ever of all players who had one before `asOf`, in ms. */
export const eachFirstTime = async (
  work: Work,
  frame: Frame,
  take: (firstMs: number) => void,
): Promise<void> => {
  const rolled = await openRolled(work, frame);
  if (rolled) return eachRolledFirst(work, rolled, take);
  const question = { cutsMs: [], untilMs: frame.asOfMs };
  return eachActivePlayer(work, frame, question, ({ firstMs }) => take(firstMs));
};
