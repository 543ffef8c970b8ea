import { z } from "zod";
import {
  disableUser,
  enableUser,
  getPlatformUser,
  listPlatformUsers,
  showPlatformUser,
} from "../../domain/accounts/admin/users.ts";
import { resetUserMfa } from "../../domain/accounts/mfa/factors.ts";
import { MEMBER_STATUSES, ROLES } from "../../domain/kernel/caller.ts";
import { pageBody, PageQuery } from "../../domain/kernel/paging.ts";

import { Flag, Order, pageReply, Search } from "./list-bodies.ts";
import { PEOPLE, ReasonBody, superadmin } from "./superadmin-bodies.ts";

const UserBody = z
  .object({
    id: z.uuid(),
    tenantId: z.uuid(),
    email: z.string(),
    name: z.string(),
    role: z.enum(ROLES),
    status: z.enum(MEMBER_STATUSES),
    emailVerified: z.boolean(),
    mfaEnabled: z.boolean(),
    disabledAt: z.iso.datetime().nullable(),
    lastLoginAt: z.iso.datetime().nullable(),
    createdAt: z.iso.datetime(),
    updatedAt: z.iso.datetime(),
  })
  .meta({ id: "PlatformUser" });

const common = superadmin.with({ access: PEOPLE });
const ofUser = common.with({ response: UserBody });

export const superadminUserRoutes = [
  common.get("/superadmin/users", "listPlatformUsers", {
    summary: "List the users of all tenants",
    query: PageQuery.extend({
      sort: z.enum(["createdAt", "email", "lastLoginAt"]).default("createdAt"),
      order: Order,
      tenantId: z.uuid().optional(),
      status: z.enum(MEMBER_STATUSES).optional(),
      disabled: Flag,
      search: Search.meta({ description: "Part of the email address" }),
    }),
    response: pageBody(UserBody),
    run: async (work, { query: { disabled, ...query } }) => {
      const { users, ...total } = await listPlatformUsers(work, { ...query, isDisabled: disabled });
      return pageReply(users.map(showPlatformUser), total, query);
    },
  }),
  ofUser.get("/superadmin/users/{userId}", "getPlatformUser", {
    summary: "Get a user of any tenant",
    run: async (work, { params }) => showPlatformUser(await getPlatformUser(work, params.userId)),
  }),
  ofUser.post("/superadmin/users/{userId}/disable", "disableUser", {
    summary: "Shut a user out of the platform",
    description:
      "Ends their sessions within 5 seconds, also those of a tenant's last OWNER. API keys they made stay.",
    body: ReasonBody,
    example: { reason: "Stolen account" },
    run: async (work, { params, body }) =>
      showPlatformUser(await disableUser(work, params.userId, body.reason)),
  }),
  ofUser.post("/superadmin/users/{userId}/enable", "enableUser", {
    summary: "Let a user in again",
    description: "Sessions of before stay ended.",
    run: async (work, { params }) => showPlatformUser(await enableUser(work, params.userId)),
  }),
  ofUser.post("/superadmin/users/{userId}/reset-mfa", "resetUserMfa", {
    summary: "Reset a user's second factor",
    description:
      "For somebody who has lost it and whom no OWNER or ADMIN of their tenant can help. Removes their " +
      "authenticator app, passkeys and recovery codes, ends their sessions, and tells them by mail.",
    body: ReasonBody,
    example: { reason: "Lost phone; called back on the number of the contract" },
    run: async (work, { params, body }, app) =>
      showPlatformUser(await resetUserMfa(work, app.mail, params.userId, body.reason)),
  }),
];
