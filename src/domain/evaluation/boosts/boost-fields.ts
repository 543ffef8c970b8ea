import { z } from "zod";

/** Maximum duration of a boost, in seconds: also of one of a bundle that is granted several times. */
export const BOOST_SECONDS_MAX = 30 * 86_400;
/** Minimum duration of a boost that rules or bundles start, in seconds. */
const DESIGNED_SECONDS_MIN = 60;
const USES_MAX = 10_000;

/** The target whose gains a boost multiplies. */
export const BoostTarget = z
  .string()
  .regex(
    /^(xp|(currency|score):[a-z0-9][a-z0-9_-]{0,63})$/,
    "must be xp, currency:{key} or score:{key of a leaderboard}",
  );
export const BoostFactor = z.number().gt(0).max(100);
/** Duration of a boost started through the API. */
export const BoostSeconds = z.int().min(1).max(BOOST_SECONDS_MAX);
/** Duration of a boost that is part of a definition. */
export const DesignedBoostSeconds = z.int().min(DESIGNED_SECONDS_MIN).max(BOOST_SECONDS_MAX);
/** Number of gains after which a boost ends. */
export const BoostUses = z.int().min(1).max(USES_MAX);
export const BoostStacking = z.enum(["MAX", "MULTIPLY", "EXTEND", "REPLACE"]);
