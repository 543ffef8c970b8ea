import { definitionKind } from "../definitions/definitions.ts";
import { isActiveKey } from "../definitions/references.ts";
import { invalid } from "../../kernel/errors.ts";
import type { Work } from "../../kernel/work.ts";
import { CampaignBoost, campaignBoostShape } from "../../evaluation/boosts/campaign-boost.ts";
import { changeFreePlayers, type PlayersOf } from "../../progression/moved-ends.ts";
import { endDueBoosts } from "../../evaluation/boosts/boosts.ts";

/** The table whose due rows are processed: see findDue. */
export const DUE_BOOSTS = { table: "player_boosts" } as const;

/** Ends the players' expired boosts. Idempotent. */
export const endPlayersBoosts = (work: Work, players: PlayersOf): Promise<void> =>
  changeFreePlayers(work, players, endDueBoosts);

/** A board may be created after its campaign; an unknown currency or segment is a mistake. */
const check = async (
  work: Work,
  projectId: string,
  { applies, segmentKey }: CampaignBoost,
): Promise<void> => {
  const [target, currencyKey] = applies.split(":") as [string, string?];
  if (target === "currency" && !(await isActiveKey(work, projectId, { kind: "currency", key: currencyKey! })))
    throw invalid("applies", `there is no currency ${currencyKey}`);
  if (segmentKey !== undefined && !(await isActiveKey(work, projectId, { kind: "segment", key: segmentKey })))
    throw invalid("segmentKey", `there is no segment ${segmentKey}`);
};

export const campaignBoostKind = definitionKind<CampaignBoost>({
  kind: "boost",
  example: {
    key: "double-weekend",
    name: "Double XP",
    applies: "xp",
    factor: 2,
    startsAt: "2026-03-07T00:00:00Z",
    expiresAt: "2026-03-09T00:00:00Z",
  },
  plural: "boosts",
  tag: "Boosts",
  schema: CampaignBoost,
  shape: campaignBoostShape,
  max: 100,
  check,
});
