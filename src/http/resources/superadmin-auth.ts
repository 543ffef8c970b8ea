import { z } from "zod";
import { getAdmin, showAdmin } from "../../domain/accounts/admin/admins.ts";
import {
  adminLogin,
  adminLogout,
  changeAdminPassword,
  completeAdminLogin,
} from "../../domain/accounts/admin/login.ts";
import { adminOf } from "../../domain/kernel/caller.ts";
import { EMAIL_MAX } from "../../domain/accounts/email/address.ts";

import { CurrentPassword, NewPassword } from "./auth-bodies.ts";
import { Accepted, accepted } from "./plain-bodies.ts";
import { ChallengeAnswerBody, FactorCode, proofParts } from "./mfa-bodies.ts";
import { AdminSignedInBody, PEOPLE, PEOPLE_ENROLLING, superadmin } from "./superadmin-bodies.ts";

const AdminBody = z
  .object({
    id: z.uuid(),
    email: z.string(),
    name: z.string(),
    mfaEnabled: z.boolean(),
    lastLoginAt: z.iso.datetime().nullable(),
    disabledAt: z.iso.datetime().nullable(),
    createdAt: z.iso.datetime(),
  })
  .meta({ id: "SuperAdmin" });

export const superadminAuthRoutes = [
  superadmin.post("/superadmin/auth/login", "superadminLogin", {
    errors: ["UNAUTHORIZED"],
    summary: "Log in as a super-admin",
    description:
      "Super-admins are made with `laurel admin create` and are no users of any tenant. With a second " +
      "factor the password alone answers 401 with the reason MFA_REQUIRED, and `challenge` for POST " +
      "/superadmin/auth/login/mfa; with `mfaCode` one call does both. Without one, where the server " +
      "requires it, the token is good for nothing but setting one up.",
    access: "public",
    takesNoIdempotencyKey: true,
    body: z.object({
      email: z.string().max(EMAIL_MAX),
      password: CurrentPassword,
      mfaCode: FactorCode.optional(),
    }),
    example: { email: "root@example.com", password: "Engine-No-1" },
    response: AdminSignedInBody,
    outside: (app, { body, actor }) => adminLogin(proofParts(app, actor), { ...body, ip: actor.ip }),
  }),
  superadmin.post("/superadmin/auth/login/mfa", "completeSuperadminLogin", {
    errors: ["UNAUTHORIZED"],
    summary: "Complete a super-admin's login by the second factor",
    description: "As POST /auth/login/mfa.",
    access: "public",
    takesNoIdempotencyKey: true,
    body: ChallengeAnswerBody,
    example: { challengeToken: "header.payload.signature", code: "492039" },
    response: AdminSignedInBody,
    outside: (app, { body, actor }) => completeAdminLogin(proofParts(app, actor), { ...body, ip: actor.ip }),
  }),
  superadmin.post("/superadmin/auth/logout", "superadminLogout", {
    summary: "End every login of yours",
    access: PEOPLE_ENROLLING,
    takesNoIdempotencyKey: true,
    response: Accepted,
    run: (work, { caller }) => accepted(adminLogout(work, adminOf(caller).adminId)),
  }),
  superadmin.post("/superadmin/auth/change-password", "superadminChangePassword", {
    summary: "Change your password",
    description: "Ends every login of yours; the answer is a new one.",
    access: PEOPLE,
    takesNoIdempotencyKey: true,
    body: z.object({ currentPassword: CurrentPassword, newPassword: NewPassword }),
    example: { currentPassword: "Engine-No-1", newPassword: "Copper-Kettle-91" },
    response: AdminSignedInBody,
    outside: (app, { caller, body, actor }) =>
      changeAdminPassword(app, { adminId: adminOf(caller).adminId, ip: actor.ip }, body),
  }),
  superadmin.get("/superadmin/me", "getSuperadmin", {
    summary: "Get yourself",
    access: PEOPLE_ENROLLING,
    response: AdminBody,
    run: async (work, { caller }) => showAdmin(await getAdmin(work, adminOf(caller).adminId)),
  }),
];
