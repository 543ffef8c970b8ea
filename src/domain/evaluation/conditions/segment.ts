import { z } from "zod";
import { Key, mentionsAt } from "../language/syntax.ts";
import { conditionKind, reads } from "./condition.ts";

const SEGMENT_KEYS_MAX = 20;

/** Tests whether the player is in any, all or none of some segments. */
export const segment = conditionKind({
  type: "segment",
  summary: "The segments that the player is in",
  schema: z.strictObject({
    type: z.literal("segment"),
    segmentKeys: z.array(Key).min(1).max(SEGMENT_KEYS_MAX),
    match: z.enum(["ANY", "ALL", "NONE"]).default("ANY"),
  }),
  isExpensive: false,
  mentions: ({ segmentKeys }) => mentionsAt("segmentKeys", "segment", segmentKeys),
  metrics: () => [],
  inputs: ({ segmentKeys }) => ({ ...reads(), segmentKeys }),
  compile: ({ segmentKeys, match }) => {
    if (match === "ALL") return ({ player }) => segmentKeys.every((key) => player.segments.has(key));
    const isAny = match === "ANY";
    return ({ player }) => segmentKeys.some((key) => player.segments.has(key)) === isAny;
  },
  explain: ({ segmentKeys, match }, { player }) => ({
    expected: { segmentKeys, match },
    actual: segmentKeys.filter((key) => player.segments.has(key)),
  }),
});
