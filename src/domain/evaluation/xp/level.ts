import { z } from "zod";
import { IconUrl, Name } from "../language/texts.ts";
import { RewardBundle } from "../rewards/bundle.ts";
import { LEVELS_MAX } from "./levels.ts";

/** Maximum perks of one level. */
const PERKS_MAX = 50;
/** Maximum bytes of a level's perks as JSON. */
const PERKS_MAX_BYTES = 8 * 1024;

/** Name and rewards of a level. */
export const Level = z.strictObject({
  key: z
    .string()
    .regex(/^[1-9]\d{0,3}$/, { error: "must be the number of a level, such as 5", abort: true })
    .refine((key) => Number(key) <= LEVELS_MAX, `must be at most ${LEVELS_MAX}`)
    .meta({ description: "The level's number as text", example: "5" }),
  name: Name,
  iconUrl: IconUrl.optional(),
  rewards: RewardBundle.default({}),
  perks: z
    .record(z.string().min(1).max(64), z.unknown())
    .refine((perks) => Object.keys(perks).length <= PERKS_MAX, `must be at most ${PERKS_MAX}`)
    .refine(
      (perks) => Buffer.byteLength(JSON.stringify(perks)) <= PERKS_MAX_BYTES,
      "must be at most 8 KiB of JSON",
    )
    .default({})
    .meta({ description: "Shown to players unchanged; not used by the service" }),
});

export type Level = z.output<typeof Level>;
