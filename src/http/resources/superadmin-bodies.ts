import { z } from "zod";
import { group } from "../route.ts";

export const REASON_MAX = 500;

/** Properties shared by all super-admin operations. */
export const superadmin = group({ tag: "Super-admin", project: "none" });
/** Only for people, not for platform tokens. */
export const PEOPLE = { admin: "*" } as const;
/** As `PEOPLE`, also those who must set up a second factor first. */
export const PEOPLE_ENROLLING = { admin: "*", needs: { enrolling: true } } as const;

export const AdminSignedInBody = z
  .object({
    accessToken: z.string().meta({ description: "For the header Authorization: Bearer" }),
    tokenType: z.literal("Bearer"),
    expiresIn: z.int().meta({ description: "Seconds; there is no refresh", example: 3_600 }),
    mfaEnrolmentRequired: z
      .boolean()
      .meta({ description: "The token is good for nothing but setting up a second factor" }),
    admin: z.object({ id: z.uuid(), email: z.string(), name: z.string() }),
  })
  .meta({ id: "SuperAdminLogin" });

export const ReasonBody = z.object({
  reason: z.string().trim().min(1).max(REASON_MAX).meta({ example: "Fake address" }),
});
