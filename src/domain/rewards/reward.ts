import { z } from "zod";
import { definitionKind } from "../definitions/kind.ts";
import { Key } from "../rules/syntax.ts";

const shape = z.strictObject({
  key: Key,
  name: z.string().min(1).max(100),
});

/** A reward of the catalogue. */
export const Reward = shape;
export type Reward = z.output<typeof Reward>;

export const rewardKind = definitionKind<Reward>({
  kind: "reward",
  plural: "rewards",
  tag: "Rewards",
  schema: Reward,
  shape,
  max: 500,
});
