import { z } from "zod";
import { IsoTime } from "../../domain/kernel/iso-time.ts";
import {
  createPlatformToken,
  GRANTABLE_SCOPES,
  listPlatformTokens,
  revokePlatformToken,
  showPlatformToken,
} from "../../domain/accounts/admin/admins.ts";
import { ADMIN_SCOPES } from "../../domain/kernel/caller.ts";
import { Name } from "../../domain/accounts/tenants/text.ts";

import { PEOPLE, superadmin } from "./superadmin-bodies.ts";

const PlatformTokenBody = z
  .object({
    id: z.uuid(),
    name: z.string(),
    scopes: z.array(z.enum(ADMIN_SCOPES)),
    status: z.enum(["ACTIVE", "EXPIRED", "REVOKED"]),
    createdBy: z.string().meta({ example: "admin:0199a3c0-0000-7000-8000-000000000001" }),
    lastUsedAt: z.iso.datetime().nullable().meta({ description: "Exact to a minute" }),
    expiresAt: z.iso.datetime().nullable(),
    revokedAt: z.iso.datetime().nullable(),
    createdAt: z.iso.datetime(),
  })
  .meta({ id: "PlatformToken" });

export const superadminTokenRoutes = [
  superadmin.post("/superadmin/tokens", "createPlatformToken", {
    summary: "Create a platform token",
    description:
      "For machines, such as a CI job that syncs blog posts. `token` is shown only here; send it as " +
      "Authorization: Bearer.",
    access: PEOPLE,
    body: z.object({
      name: Name.meta({ example: "Site build" }),
      scopes: z.array(z.enum(GRANTABLE_SCOPES)).min(1).max(GRANTABLE_SCOPES.length),
      expiresAt: IsoTime.nullish(),
    }),
    example: { name: "Site build", scopes: ["blog:sync"] },
    status: 201,
    response: PlatformTokenBody.extend({
      token: z.string().meta({ example: "svc_admin_..." }),
    }),
    run: async (work, { body: { expiresAt, ...body } }, app) => {
      const { token, secret } = await createPlatformToken(work, app.apiKeys, {
        ...body,
        expiresAt: expiresAt == null ? undefined : new Date(expiresAt),
      });
      return { ...showPlatformToken(token, work.now), token: secret };
    },
  }),
  superadmin.get("/superadmin/tokens", "listPlatformTokens", {
    summary: "List platform tokens",
    description: "Newest first, at most 500; those that have ended too.",
    access: PEOPLE,
    response: z.array(PlatformTokenBody),
    run: async (work) => (await listPlatformTokens(work)).map((token) => showPlatformToken(token, work.now)),
  }),
  superadmin.delete("/superadmin/tokens/{tokenId}", "revokePlatformToken", {
    summary: "Revoke a platform token",
    description: "For good; within 5 seconds no process accepts it.",
    access: PEOPLE,
    params: z.object({ tokenId: z.string() }),
    response: PlatformTokenBody,
    run: async (work, { params }) =>
      showPlatformToken(await revokePlatformToken(work, params.tokenId), work.now),
  }),
];
