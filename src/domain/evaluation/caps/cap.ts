import { z } from "zod";
import { CALENDAR_UNITS } from "../../kernel/zones.ts";

/** Maximum caps of a rule, and of a project. */
export const CAPS_MAX = 10;

/** The most of XP or of a currency that rules give a player in a window. */
export const Cap = z.strictObject({
  asset: z
    .string()
    .regex(/^(xp|currency:[a-z0-9][a-z0-9_-]{0,63})$/, "must be xp or currency:<key>")
    .meta({ description: "xp or currency:{key}" }),
  max: z.int().min(1).max(Number.MAX_SAFE_INTEGER),
  window: z
    .enum(["LIFETIME", ...CALENDAR_UNITS], { error: "must be LIFETIME, DAY, WEEK or MONTH" })
    .meta({ description: "Days, weeks and months of the player's time zone" }),
  counts: z.enum(["GAINS", "NET"]).default("GAINS").meta({
    description: "GAINS: what is given. NET: also what is taken away, which makes room again",
  }),
});
export type Cap = z.output<typeof Cap>;

/** Caps with the name under which a player's amounts are kept: the id of a rule, or PROJECT_SCOPE. */
export type CapSet = { scope: string; caps: readonly Cap[] };

export const PROJECT_SCOPE = "*";

/** The asset of a line of the ledger, as caps name it; undefined for one that cannot be capped. */
export const assetOfLine = ({
  asset,
  currencyKey,
}: {
  asset: "XP" | "CURRENCY" | "LIVES";
  currencyKey: string | null;
}): string | undefined => {
  if (asset === "XP") return "xp";
  return asset === "CURRENCY" ? `currency:${currencyKey}` : undefined;
};
