import { z } from "zod";
import { IsoTime } from "../../kernel/iso-time.ts";
import { Key } from "../language/syntax.ts";
import { Description, IconUrl, Name } from "../language/texts.ts";
import { isEmptyBundle, RewardBundle } from "./bundle.ts";

/** Maximum pieces of a reward, for its stock and for each player. */
const PIECES_MAX = 1_000_000_000;

export const rewardShape = z.strictObject({
  key: Key,
  name: Name,
  description: Description.optional(),
  iconUrl: IconUrl.optional(),
  kind: z.enum(["BUNDLE", "PRIZE"], { error: "must be BUNDLE or PRIZE; MYSTERY_BOX is not available yet" }),
  bundle: RewardBundle.optional().meta({ description: "The contents of a BUNDLE" }),
  fulfilment: z.enum(["CODE", "EXTERNAL"]).optional().meta({
    description: "For kind PRIZE. CODE: a code of its pool; EXTERNAL: you deliver it and confirm with fulfil",
  }),
  price: z
    .strictObject({ currencyKey: Key, amount: z.int().min(1).max(Number.MAX_SAFE_INTEGER) })
    .optional()
    .meta({ description: "A reward without a price can only be granted, not bought" }),
  stock: z
    .int()
    .min(0)
    .max(PIECES_MAX)
    .optional()
    .meta({ description: "Maximum number granted to all players in total, including earlier grants" }),
  perPlayerLimit: z.int().min(1).max(PIECES_MAX).optional(),
  availableFrom: IsoTime.optional(),
  availableUntil: IsoTime.optional(),
  claimSeconds: z
    .int()
    .min(60)
    .max(31_536_000)
    .optional()
    .meta({ description: "How long a grant can be claimed; default: without limit" }),
});
type RewardShape = z.output<typeof rewardShape>;

const kindFault = ({ kind, bundle, fulfilment }: RewardShape): [string, string] | undefined => {
  if (kind === "BUNDLE") {
    if (!bundle || isEmptyBundle(bundle)) return ["bundle", "must give something: the kind is BUNDLE"];
    return fulfilment === undefined ? undefined : ["fulfilment", "is for the kind PRIZE"];
  }
  if (fulfilment === undefined) return ["fulfilment", "must be CODE or EXTERNAL: the kind is PRIZE"];
  return bundle ? ["bundle", "is for the kind BUNDLE"] : undefined;
};

/** A reward of the catalogue. */
export const Reward = rewardShape.superRefine((reward, context) => {
  const fault = kindFault(reward);
  if (fault) context.addIssue({ code: "custom", path: [fault[0]], message: fault[1] });
  const { availableFrom: from, availableUntil: until } = reward;
  if (from !== undefined && until !== undefined && Date.parse(until) <= Date.parse(from))
    context.addIssue({ code: "custom", path: ["availableUntil"], message: "must be after availableFrom" });
});
export type Reward = z.output<typeof Reward>;
