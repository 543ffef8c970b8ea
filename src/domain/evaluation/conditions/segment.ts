import { z } from "zod";
import { mentionsAt } from "../language/syntax.ts";
import { Audience, audienceTest } from "../segments/audience.ts";
import { conditionKind, reads } from "./condition.ts";

/** Tests whether the player is in any, all or none of some segments. */
export const segment = conditionKind({
  type: "segment",
  summary: "The segments that the player is in",
  schema: z.strictObject({ type: z.literal("segment"), ...Audience.shape }),
  mentions: ({ segmentKeys }) => mentionsAt("segmentKeys", "segment", segmentKeys),
  inputs: ({ segmentKeys }) => ({ ...reads(), segmentKeys }),
  compile: audienceTest,
  explain: ({ segmentKeys, match }, { player }) => ({
    expected: { segmentKeys, match },
    actual: segmentKeys.filter((key) => player.segments.has(key)),
  }),
});
