import { z } from "zod";
import { Key } from "../language/syntax.ts";

/** Maximum segments of one audience. */
const SEGMENTS_MAX = 20;

/** The players to whom something is offered. */
export const Audience = z.strictObject({
  segmentKeys: z.array(Key).min(1).max(SEGMENTS_MAX),
  match: z.enum(["ANY", "ALL", "NONE"]).default("ANY"),
});
export type Audience = z.output<typeof Audience>;

type Keys = { has(key: string): boolean };

/** Returns whether a player in these segments belongs to an audience; without one everybody does. */
export const isInAudience = (audience: Audience | undefined, segments: Keys): boolean => {
  if (!audience) return true;
  const { segmentKeys, match } = audience;
  if (match === "ALL") return segmentKeys.every((key) => segments.has(key));
  return segmentKeys.some((key) => segments.has(key)) === (match === "ANY");
};

/** Compiles an audience to a test of the turn's player. */
export const audienceTest =
  (audience: Audience | undefined) =>
  ({ player }: { player: { segments: Keys } }): boolean =>
    isInAudience(audience, player.segments);
