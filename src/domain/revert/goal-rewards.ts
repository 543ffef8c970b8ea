import { sql } from "kysely";
import type { RewardBundle } from "../evaluation/rewards/bundle.ts";
import type { Work } from "../kernel/work.ts";
import { readRewards, type Rewards } from "./read-rewards.ts";

/** The reward of a quest or adventure in keys, for both JavaScript and PostgreSQL. */
const REWARD = "^(q:[^:]+:(?:complete|start|s:[^:~]+)|adv:[^:]+:(?:complete|t:[0-9]+:(?:FREE|PREMIUM)))";
const REWARD_KEY = new RegExp(REWARD);

/** Returns the reward of a quest or adventure that a key belongs to, however often it was given. */
export const rewardOfGoal = (key: string): string | undefined => REWARD_KEY.exec(key)?.[1];

const REMAINING = ["badges", "boosts", "streakFreezes", "addTags", "premium"] as const;

/** Returns the parts of a bundle that stay although it is taken back. */
export const remainderOf = (bundle: RewardBundle, isOfReverted: boolean): string[] =>
  REMAINING.filter((part) => {
    const isThere = Object.keys(bundle[part] ?? {}).length > 0;
    return isThere && !(isOfReverted && (part === "badges" || part === "boosts"));
  });

type Query = {
  /** Rewards of quests and adventures, as `rewardOfGoal` names them, by player. */
  lostOf: ReadonlyMap<string, ReadonlySet<string>>;
  /** Events whose effects are read elsewhere. */
  eventIds: readonly string[];
};

/**
 * Reads what players were given for steps, quests, tiers and adventures that are lost, by requests and other
 * events; by player.
 * @throws DomainError CONFLICT EVENT_TOO_LARGE
 */
export const readGoalRewards = async (
  work: Work,
  projectId: string,
  { lostOf, eventIds }: Query,
): Promise<Map<string, Rewards>> => {
  const wanted = [...lostOf].flatMap(([i, keys]) => (keys.size === 0 ? [] : [{ i, ks: [...keys] }]));
  if (wanted.length === 0) return new Map();
  return readRewards(work, projectId, {
    those: sql`json_to_recordset(${JSON.stringify(wanted)}::json) as w(i uuid, ks json)`,
    isLost: (key) => sql`(starts_with(${key}, 'q:') or starts_with(${key}, 'adv:'))
      and substring(${key} from ${REWARD}) in (select json_array_elements_text(w.ks))`,
    playerIds: [...lostOf.keys()],
    eventIds,
    what: "quests and adventures",
  });
};
