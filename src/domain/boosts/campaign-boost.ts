import { z } from "zod";
import { definitionKind } from "../definitions/kind.ts";
import { Key } from "../rules/syntax.ts";

const shape = z.strictObject({
  key: Key,
  name: z.string().min(1).max(100),
});

/** A boost for a segment or for all players of a project. */
export const CampaignBoost = shape;
export type CampaignBoost = z.output<typeof CampaignBoost>;

export const campaignBoostKind = definitionKind<CampaignBoost>({
  kind: "boost",
  plural: "boosts",
  tag: "Boosts",
  schema: CampaignBoost,
  shape,
  max: 100,
});
