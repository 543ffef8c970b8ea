import { sql } from "kysely";
import type { Work } from "../kernel/work.ts";
import { readRewards, type Rewards } from "./read-rewards.ts";

/** Tiers and repeated awards of a badge whose rewards are taken back. */
export type LostOfBadge = {
  badgeKey: string;
  /** Tiers from this one to that one. */
  from: number;
  to: number;
  /** Awards with a higher number than this. */
  above: number;
  /** Only what events have given that were reverted before. */
  isOfReverted: boolean;
};

type Query = {
  /** By player. */
  lostOf: ReadonlyMap<string, readonly LostOfBadge[]>;
  /** Events whose effects are read elsewhere. */
  eventIds: readonly string[];
};

/** No badge has as many tiers or awards. */
const NUMBER_MAX = 2_147_483_647;
/** The number of an award, and its tier, in the keys of its rewards. */
const TIMES = "^bdg:[^:]+:([0-9]+)";
const TIER = "^bdg:[^:]+:[0-9]+:([0-9]+)";

/**
 * Reads what players were given for awards of badges that are lost, by other events; by player.
 * @throws DomainError CONFLICT EVENT_TOO_LARGE
 */
export const readRewardsOfTiers = async (
  work: Work,
  projectId: string,
  { lostOf, eventIds }: Query,
): Promise<Map<string, Rewards>> => {
  const wanted = [...lostOf].flatMap(([i, all]) =>
    all.map(({ badgeKey, from, to, above, isOfReverted }) => ({
      i,
      x: `bdg:${badgeKey}:`,
      f: from,
      t: Math.min(to, NUMBER_MAX),
      n: Math.min(above, NUMBER_MAX),
      r: isOfReverted,
    })),
  );
  if (wanted.length === 0) return new Map();
  const those = sql`(select i, json_agg(json_build_object('x', x, 'f', f, 't', t, 'n', n, 'r', r)) as xs
    from json_to_recordset(${JSON.stringify(wanted)}::json) as x(i uuid, x text, f int, t int, n int, r bool)
    group by i) w`;
  return readRewards(work, projectId, {
    those,
    isLost: (key, eventId) => sql`exists (
      select 1 from json_to_recordset(w.xs) as p(x text, f int, t int, n int, r bool)
      where starts_with(${key}, p.x)
        and (substring(${key} from ${TIER})::int between p.f and p.t
          or substring(${key} from ${TIMES})::int > p.n)
        and (not p.r or exists (select 1 from event_results e where e.project_id = ${projectId}
          and e.event_id = ${eventId} and e.status = 'REVERTED')))`,
    playerIds: [...lostOf.keys()],
    eventIds,
    what: "a tier of a badge",
  });
};
