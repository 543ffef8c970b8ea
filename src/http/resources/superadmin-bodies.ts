import { z } from "zod";

export const REASON_MAX = 500;

/** Properties shared by all super-admin operations. */
export const superadmin = { tag: "Super-admin", project: "none" } as const;
/** Only for people, not for platform tokens. */
export const PEOPLE = { admin: "*" } as const;

export const ReasonBody = z.object({
  reason: z.string().trim().min(1).max(REASON_MAX).meta({ example: "Fake address" }),
});
