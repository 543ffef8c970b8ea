import { z } from "zod";
import { Description, IconUrl, Key, Name } from "../language/syntax.ts";

const amount = z.int().min(0).max(Number.MAX_SAFE_INTEGER);

export const currencyShape = z.strictObject({
  key: Key,
  name: Name,
  description: Description.optional(),
  iconUrl: IconUrl.optional(),
  /** For display only: amounts are whole numbers of the smallest unit. */
  decimals: z.int().min(0).max(4).default(0),
  minBalance: amount.default(0).meta({ description: "Minimum balance after spending" }),
  maxBalance: amount.optional(),
  initialBalance: amount
    .default(0)
    .meta({ description: "Initial balance; recorded in the ledger with the first change" }),
  overflow: z
    .enum(["CLAMP", "REJECT"])
    .default("CLAMP")
    .meta({ description: "Whether a gain beyond maxBalance is reduced to what fits, or refused" }),
  expiryDays: z
    .int()
    .min(1)
    .max(3_650)
    .optional()
    .meta({ description: "Gains expire at the end of the UTC day that lies this many days ahead" }),
});

/** A currency of a project. */
export const Currency = currencyShape.refine(
  ({ minBalance, maxBalance = Infinity }) => minBalance <= maxBalance,
  {
    path: ["maxBalance"],
    error: "must not be below minBalance",
  },
);
export type Currency = z.output<typeof currencyShape>;
