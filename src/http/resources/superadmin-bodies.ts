import { z } from "zod";

export const REASON_MAX = 500;

/** What all operations of super-admins share. */
export const superadmin = { tag: "Super-admin", project: "none" } as const;
/** Of people: platform tokens have no use of them. */
export const PEOPLE = { admin: "*" } as const;

export const ReasonBody = z.object({
  reason: z.string().trim().min(1).max(REASON_MAX).meta({ example: "Fake address" }),
});
