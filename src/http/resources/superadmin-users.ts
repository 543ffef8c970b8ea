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
import { route } from "../route.ts";
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

const UserParams = z.object({ userId: z.string() });
const common = { ...superadmin, access: PEOPLE } as const;
const ofUser = { ...common, params: UserParams, response: UserBody } as const;

export const superadminUserRoutes = [
  route({
    ...common,
    method: "get",
    path: "/superadmin/users",
    id: "listPlatformUsers",
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
  route({
    ...ofUser,
    method: "get",
    path: "/superadmin/users/{userId}",
    id: "getPlatformUser",
    summary: "Get a user of any tenant",
    run: async (work, { params }) => showPlatformUser(await getPlatformUser(work, params.userId)),
  }),
  route({
    ...ofUser,
    method: "post",
    path: "/superadmin/users/{userId}/disable",
    id: "disableUser",
    summary: "Shut a user out of the platform",
    description:
      "Ends their sessions within 5 seconds, also those of a tenant's last OWNER. API keys they made stay.",
    body: ReasonBody,
    example: { reason: "Stolen account" },
    run: async (work, { params, body }) =>
      showPlatformUser(await disableUser(work, params.userId, body.reason)),
  }),
  route({
    ...ofUser,
    method: "post",
    path: "/superadmin/users/{userId}/enable",
    id: "enableUser",
    summary: "Let a user in again",
    description: "Sessions of before stay ended.",
    run: async (work, { params }) => showPlatformUser(await enableUser(work, params.userId)),
  }),
  route({
    ...ofUser,
    method: "post",
    path: "/superadmin/users/{userId}/reset-mfa",
    id: "resetUserMfa",
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
