import { definitionKind } from "../definitions/definitions.ts";
import { invalid } from "../../kernel/errors.ts";
import { checkBundles, startCounting } from "../rewards/references.ts";
import { Badge, badgeShape } from "../../evaluation/badges/badge.ts";
import { sql } from "kysely";
import { awardReached } from "../../evaluation/badges/award.ts";
import { fnv1a } from "../../kernel/ids.ts";
import { changePlayers } from "../../progression/change.ts";
import { fittingPlayers } from "../../progression/load-states.ts";
import { changePage, DUE_PAGE, type EndingRows } from "../../progression/moved-ends.ts";

/** What decides whether progress awards a badge, as a number: other changes make nobody due. */
const measureOf = ({ tiers, repeatable, maxAwards, progressMetric, ...rest }: Badge): number => {
  const { availableFrom, availableUntil } = rest;
  const thresholds = tiers.map(({ threshold }) => threshold ?? null);
  return fnv1a(
    JSON.stringify([thresholds, repeatable, maxAwards, progressMetric, availableFrom, availableUntil]),
  );
};

/** The threshold of the next tier that has one, for holders of each tier. */
const nextThresholds = ({ tiers }: Badge): string =>
  `{${tiers.map((_, i) => tiers.slice(i).find(({ threshold }) => threshold !== undefined)?.threshold ?? "null").join(",")}}`;

/** Awards an edited badge to those who have reached by now what it asks: no further progress may ever come. */
export const BADGE_EDITS: EndingRows = {
  kind: "badge",
  endsOf: ({ badges }, key) => {
    const badge = badges.get(key);
    return badge && { openMs: Infinity, claimMs: Infinity, kept: [measureOf(badge.definition)] };
  },
  // In the order of an index. Who is awarded moves on in it and may be looked at again, which changes nothing.
  readPage: async (work, { projectId, key, after, plan }) => {
    const badge = plan.badges.get(key)!.definition;
    const [tier, playerId] = after.includes(" ") ? after.split(" ") : ["0", after];
    const { rows } = await sql<{ tier: number; id: string }>`
      select tier, player_id as id from player_badges
      where project_id = ${projectId}::uuid and badge_key = ${key}
        and (tier, player_id) > (${tier}::int, ${playerId}::uuid)
        and (${badge.repeatable}::boolean or tier < ${badge.tiers.length}::int)
        and (tier > 0 or progress >= (${nextThresholds(badge)}::float8[])[1])
      order by tier, player_id limit ${DUE_PAGE}`.execute(work.db);
    const ids = rows.map(({ id }) => id);
    const playerIds = await fittingPlayers(work, projectId, ids);
    const last = rows[playerIds.length - 1];
    const isAll = rows.length < DUE_PAGE && playerIds.length === rows.length;
    return { playerIds, after: isAll || !last ? undefined : `${last.tier} ${last.id}` };
  },
  moveDue: async (work, { projectId, key, playerIds }) => {
    await changePage(work, playerIds, (ids) =>
      changePlayers(work, projectId, ids, (turn) =>
        awardReached(turn, key, {
          cause: { kind: "BADGE", refKey: key },
          key: `edit:${turn.root.id}:bdg:${key}`,
        }),
      ),
    );
  },
};

/**
 * Tiers can be added and thresholds changed: players keep their tiers. A tier cannot be removed, since
 * players may hold it.
 */
const checkChange = (badge: Badge, before: Badge): void => {
  if (badge.tiers.length < before.tiers.length)
    throw invalid("tiers", `there are ${before.tiers.length}, which players may hold; none can be removed`);
};

export const badgeKind = definitionKind<Badge>({
  kind: "badge",
  example: {
    key: "explorer",
    name: "Explorer",
    rarity: "RARE",
    tiers: [{ tier: 1, name: "Bronze", threshold: 5, rewards: { xp: 50 } }],
  },
  plural: "badges",
  tag: "Badges",
  schema: Badge,
  shape: badgeShape,
  max: 1_000,
  check: async (work, projectId, badge, before) => {
    if (before) checkChange(badge, before);
    const { key, tiers, maxAwards } = badge;
    const bundles = tiers.map(({ rewards }, i) => ({ bundle: rewards, field: `tiers.${i}.rewards` }));
    const isKnown = before !== undefined;
    await checkBundles(work, projectId, { kind: "badge", key, bundles, tiers: tiers.length, isKnown });
    if (maxAwards !== undefined && before?.maxAwards === undefined)
      await startCounting(work, { projectId, kind: "badge", key });
  },
});
