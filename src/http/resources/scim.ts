import { z } from "zod";
import { ADMINS, userOf } from "../../domain/kernel/caller.ts";
import {
  followSettings,
  readSettings,
  SCIM_MAPPINGS_MAX,
  SCIM_ROLES,
  writeSettings,
} from "../../domain/accounts/scim/roles.ts";
import { createScimToken, listScimTokens, revokeScimToken } from "../../domain/accounts/scim/tokens.ts";
import { Name } from "../../domain/accounts/tenants/tenant.ts";
import { IsoTime } from "../../domain/kernel/iso-time.ts";
import { group } from "../route.ts";
import { SCIM_PATH } from "../scim/discovery.ts";
import { provenAgain } from "./mfa-login.ts";
import { Deleted, deleted } from "./bodies.ts";

const common = group({ tag: "Single sign-on", project: "none" });
const owners = common.with({
  access: { roles: ["OWNER"], needs: { feature: "sso", verifiedEmail: true } },
  errors: ["PAYMENT_REQUIRED"],
});
const GROUP_NAME_MAX = 255;

const Role = z.enum(SCIM_ROLES);
const GroupName = z.string().min(1).max(GROUP_NAME_MAX);
const Groups = z
  .array(
    z.strictObject({
      displayName: GroupName.optional().meta({ description: "Its name, in any case" }),
      externalId: GroupName.optional().meta({ description: "Or the provider's id of it" }),
      role: Role,
    }),
  )
  .max(SCIM_MAPPINGS_MAX);

const TokenBody = z
  .object({
    id: z.uuid(),
    name: z.string(),
    status: z.enum(["ACTIVE", "EXPIRED", "REVOKED"]),
    createdBy: z.string(),
    lastUsedAt: z.iso.datetime().nullable().meta({ description: "Precise to a minute" }),
    expiresAt: z.iso.datetime().nullable(),
    revokedAt: z.iso.datetime().nullable(),
    createdAt: z.iso.datetime(),
  })
  .meta({ id: "ScimToken" });

const SettingsBody = z
  .object({
    baseUrl: z.string().meta({ description: "Where the provider finds SCIM" }),
    defaultRole: Role,
    groups: Groups,
    tokens: z.array(TokenBody).meta({ description: "Newest first, at most 50, with those that have ended" }),
  })
  .meta({ id: "ScimSettings" });

export const scimSettingsRoutes = [
  common.get("/enterprise/scim", "getScim", {
    summary: "Get the SCIM settings",
    description: "With the tokens, but not their secrets.",
    access: { roles: ADMINS },
    response: SettingsBody,
    run: async (work, { caller }, app) => {
      const { tenantId } = userOf(caller);
      const tokens = await listScimTokens(work, tenantId);
      const baseUrl = app.config.publicUrl + SCIM_PATH;
      return { baseUrl, ...(await readSettings(work, tenantId)), tokens };
    },
  }),
  owners.put("/enterprise/scim", "putScim", {
    summary: "Set the roles that SCIM gives",
    description:
      "`groups` gives the members of the provider's groups a role: of several the first of ADMIN, " +
      "DESIGNER, DEVELOPER, VIEWER. Who is in none of them has `defaultRole` when they are created, or " +
      "leave the last. OWNERs stay OWNERs. Members of groups whose role changes have it at once. OWNERs " +
      "with a second factor prove it within 10 minutes before.",
    body: z.strictObject({
      defaultRole: Role.default("VIEWER"),
      groups: Groups.default([]),
    }),
    example: {
      defaultRole: "VIEWER",
      groups: [
        { displayName: "Game designers", role: "DESIGNER" },
        { externalId: "00g1emaKYZTWRYYRRTSK", role: "DEVELOPER" },
      ],
    },
    response: SettingsBody,
    ...provenAgain,
    run: async (work, { caller, body }, app) => {
      const { tenantId } = userOf(caller);
      const before = await writeSettings(work, tenantId, body);
      await followSettings(work, tenantId, before, body);
      const tokens = await listScimTokens(work, tenantId);
      return { baseUrl: app.config.publicUrl + SCIM_PATH, ...body, tokens };
    },
  }),
  owners.post("/enterprise/scim/tokens", "createScimToken", {
    summary: "Create a SCIM token",
    description:
      "For the identity provider, which sends it as Authorization: Bearer. `token` is shown here alone. No " +
      "other operation accepts it. To exchange one, create the next, then revoke it: 5 work at a time. " +
      "OWNERs with a second factor prove it within 10 minutes before.",
    errors: ["PAYMENT_REQUIRED", "CONFLICT"],
    body: z.strictObject({
      name: Name.meta({ example: "Okta" }),
      expiresAt: IsoTime.nullish().meta({ description: "Left out, it does not expire" }),
    }),
    example: { name: "Okta" },
    status: 201,
    response: TokenBody.extend({ token: z.string() }).meta({ id: "CreatedScimToken" }),
    ...provenAgain,
    run: async (work, { caller, body: { name, expiresAt } }, app) => {
      const given = { name, ...(expiresAt == null ? {} : { expiresAt: new Date(expiresAt) }) };
      const { token, secret } = await createScimToken(work, app.apiKeys, userOf(caller).tenantId, given);
      return { ...token, token: secret };
    },
  }),
  common.delete("/enterprise/scim/tokens/{tokenId}", "revokeScimToken", {
    summary: "Revoke a SCIM token",
    description: "It stays in the list. It stops working at once, everywhere within 5 seconds.",
    access: { roles: ["OWNER"] },
    errors: ["CONFLICT"],
    response: Deleted,
    ...provenAgain,
    run: (work, { caller, params }) =>
      deleted(revokeScimToken(work, userOf(caller).tenantId, params.tokenId)),
  }),
];
