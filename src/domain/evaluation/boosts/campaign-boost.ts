import { z } from "zod";
import { Key, Name } from "../language/syntax.ts";
import type { Live } from "../live.ts";
import type { BoostView } from "../../kernel/events/shapes.ts";
import { isEmptySpan, IsoTime } from "../../kernel/iso-time.ts";

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
/** Number of gains after which a boost ends. */
export const BoostUses = z.int().min(1).max(USES_MAX);
export const BoostStacking = z.enum(["MAX", "MULTIPLY", "EXTEND", "REPLACE"]);

/** A boost as part of a definition. */
export const boostFields = {
  boostKey: Key,
  applies: BoostTarget,
  factor: BoostFactor,
  durationSeconds: z.int().min(DESIGNED_SECONDS_MIN).max(BOOST_SECONDS_MAX),
  uses: BoostUses.optional(),
};

const Time = IsoTime.refine((text) => Date.parse(text) < Date.UTC(9999, 0), {
  error: "must be a time before the year 9999",
});

export const campaignBoostShape = z.strictObject({
  key: Key.meta({
    description: "Of boosts with the same key only the highest counts, including players' own boosts",
  }),
  name: Name,
  applies: BoostTarget.meta({ description: "xp, currency:{key} or score:{key of a leaderboard}" }),
  factor: BoostFactor,
  startsAt: Time.meta({ description: "Applies to gains of events from this time on" }),
  expiresAt: Time.meta({ description: "Applies to gains of events before this time" }),
  segmentKey: Key.optional().meta({ description: "Only for players of this segment; absent: for all" }),
});

/** A boost for a segment or for all players of a project. */
export const CampaignBoost = campaignBoostShape.refine(
  ({ startsAt, expiresAt }) => !isEmptySpan(startsAt, expiresAt),
  { path: ["expiresAt"], error: "must be after startsAt" },
);
export type CampaignBoost = z.output<typeof campaignBoostShape>;

/** A campaign compiled for evaluation. */
export type ActiveCampaign = Live<CampaignBoost> & { startsMs: number; expiresMs: number };

export const compileCampaign = (live: Live<CampaignBoost>): ActiveCampaign => ({
  ...live,
  startsMs: Date.parse(live.definition.startsAt),
  expiresMs: Date.parse(live.definition.expiresAt),
});

/** Converts a campaign to the API representation, among a player's boosts. */
export const showCampaign = ({ id, startsMs, expiresMs, definition }: ActiveCampaign): BoostView => ({
  id,
  boostKey: definition.key,
  applies: definition.applies,
  factor: definition.factor,
  startsAt: new Date(startsMs).toISOString(),
  expiresAt: new Date(expiresMs).toISOString(),
  usesLeft: null,
  scope: definition.segmentKey === undefined ? "PROJECT" : "SEGMENT",
});
