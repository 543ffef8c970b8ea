import { z } from "zod";
import type { App } from "../../app.ts";
import { type AdminSignedIn, signInAdmin } from "../../domain/accounts/admin/login.ts";
import {
  addPasskey,
  disableTotp,
  enableTotp,
  removePasskey,
  replaceRecoveryCodes,
  requireChangeProof,
} from "../../domain/accounts/mfa/step-up.ts";
import { refuseLastTotp, showFactors } from "../../domain/accounts/mfa/factors.ts";
import { type FactorOwner, readOwner, setUpTotp } from "../../domain/accounts/mfa/owner.ts";
import {
  NewCredentialInput,
  passkeyCreation,
  renamePasskey,
  requirePasskeyOrigin,
} from "../../domain/accounts/mfa/passkeys.ts";
import { Name } from "../../domain/accounts/tenants/tenant.ts";
import { type Actor, OWN_ENROLMENT } from "../../domain/kernel/caller.ts";
import { type Group, group, type Owned } from "../route.ts";
import {
  ASKED,
  ChangeProofBody,
  FactorCode,
  PASSKEY_PAGES,
  PasskeyOptionsBody,
  proofParts,
  selfOf,
} from "./mfa-login.ts";
import { AdminSignedInBody, PEOPLE_ENROLLING, superadmin } from "./superadmin.ts";

const PasskeyBody = z
  .object({
    id: z.uuid(),
    name: z.string(),
    isBackedUp: z.boolean().meta({ description: "Kept by a password manager, so it outlives the device" }),
    createdAt: z.iso.datetime(),
    lastUsedAt: z.iso.datetime().nullable(),
  })
  .meta({ id: "Passkey" });

const FactorsBody = z
  .object({
    enabled: z.boolean(),
    required: z
      .boolean()
      .meta({ description: "By the tenant, or for super-admins by the server: the last one stays" }),
    totp: z.object({ enabledAt: z.iso.datetime() }).nullable(),
    passkeys: z.array(PasskeyBody),
    recoveryCodesLeft: z.int(),
  })
  .meta({ id: "SecondFactors" });

const RecoveryCodes = z
  .array(z.string())
  .meta({ description: "10 codes, shown only here; each works once", example: ["k2vd-97qm-acpx-h4te"] });

/** A change that ends all logins of a super-admin answers with a new one. */
const Login = AdminSignedInBody.optional().meta({
  description: "For super-admins: all logins of before end",
});

const AddedBody = z.object({
  recoveryCodes: RecoveryCodes.optional().meta({ description: "With the first factor" }),
  login: Login,
});

/** The operations of users, and those of super-admins, differ in these. */
type Side = {
  prefix: "/auth/mfa" | "/superadmin/auth/mfa";
  mine: Group<Owned>;
  changing: Group<Owned>;
  /** Builds the id of an operation. */
  id(verb: string, noun: string): string;
};

const sideOf = (prefix: Side["prefix"], mine: Group<Owned>, id: Side["id"]): Side => ({
  prefix,
  mine,
  changing: mine.with({ takesNoIdempotencyKey: true }),
  id,
});
const USERS = sideOf(
  "/auth/mfa",
  group({ tag: "Second factor", access: OWN_ENROLMENT, project: "none" }),
  (verb, noun) => `${verb}${noun}`,
);
const SUPERADMINS = sideOf(
  "/superadmin/auth/mfa",
  superadmin.with({ access: PEOPLE_ENROLLING }),
  (verb, noun) => `${verb}Superadmin${noun}`,
);

/** Returns the new login of a super-admin whose logins have ended. */
const loginOf = async (app: App, owner: FactorOwner): Promise<{ login?: AdminSignedIn }> =>
  owner.kind === "admin" ? { login: await signInAdmin(app, owner.row) } : {};

/** Of changes that need the proof named above. */
const proved = {
  body: ChangeProofBody,
  prepare: (app: App, { actor, body }: { actor: Actor; body: z.output<typeof ChangeProofBody> }) =>
    requireChangeProof(proofParts(app, actor), selfOf(actor), body),
} as const;

const factorRoutes = ({ prefix, mine, changing, id }: Side) => [
  mine.get(prefix, id("get", "SecondFactors"), {
    summary: "Get your second factors",
    response: FactorsBody,
    run: async (work, { actor }, app) => showFactors(work, app.config, await readOwner(work, selfOf(actor))),
  }),
  changing.post(`${prefix}/recovery-codes`, id("replace", "RecoveryCodes"), {
    summary: "Replace your recovery codes",
    description: `Those of before no longer work. ${ASKED}`,
    response: z.object({ recoveryCodes: RecoveryCodes }),
    ...proved,
    run: async (work, { actor }, app) => ({
      recoveryCodes: await replaceRecoveryCodes(work, app.mail, selfOf(actor)),
    }),
  }),
];

const refuseLast = (app: App, actor: Actor): Promise<void> =>
  app.transact(async (work) => refuseLastTotp(work, app.config, await readOwner(work, selfOf(actor))));

const totpRoutes = ({ prefix, changing, id }: Side) => [
  changing.post(`${prefix}/totp/setup`, id("setUp", "Totp"), {
    summary: "Get a secret for an authenticator app",
    description:
      `It counts once a code of it went to POST ${prefix}/totp/enable, within an hour; ` +
      `an app that is switched on already works until then. ${ASKED}`,
    ...proved,
    response: z.object({
      secret: z.string().meta({ description: "Base32, shown only here", example: "JBSWY3DPEHPK3PXP" }),
      otpauthUrl: z.string().meta({ description: "The same for a QR code" }),
    }),
    run: async (work, { actor }, app) =>
      setUpTotp(work, app.secretBox, await readOwner(work, selfOf(actor), true)),
  }),
  changing.post(`${prefix}/totp/enable`, id("enable", "Totp"), {
    summary: "Switch codes of an authenticator app on",
    description:
      "With the first factor your other sessions end, and the answer has recovery codes. " +
      "A new app in place of another one ends your other sessions too.",
    body: z.object({ code: FactorCode }),
    response: AddedBody,
    outside: async (app, { actor, body }) => {
      const { recoveryCodes, owner } = await enableTotp(proofParts(app, actor), selfOf(actor), body.code);
      return { ...(recoveryCodes ? { recoveryCodes } : {}), ...(await loginOf(app, owner)) };
    },
  }),
  changing.post(`${prefix}/totp/disable`, id("disable", "Totp"), {
    summary: "Switch codes of an authenticator app off",
    description: `Your other sessions end. With the last factor the recovery codes go. ${ASKED}`,
    ...proved,
    response: z.object({ disabled: z.literal(true), login: Login }),
    prepare: async (app, asked) => {
      await refuseLast(app, asked.actor);
      await proved.prepare(app, asked);
    },
    outside: async (app, { actor }) => {
      const parts = { mail: app.mail, rules: app.config };
      const owner = await app.transact((work) => disableTotp(work, parts, selfOf(actor)));
      return { disabled: true as const, ...(await loginOf(app, owner)) };
    },
  }),
];

const passkeyRoutes = ({ prefix, changing, id }: Side) => [
  changing.post(`${prefix}/passkeys/options`, id("start", "Passkey"), {
    summary: "Begin to add a passkey",
    description: `Options for \`navigator.credentials.create()\`, for 5 minutes. ${PASSKEY_PAGES} ${ASKED}`,
    ...proved,
    response: PasskeyOptionsBody,
    prepare: async (app, asked) => {
      requirePasskeyOrigin(app.config.passkeys, asked.origin);
      await proved.prepare(app, asked);
    },
    run: async (work, { actor }, app) => {
      const self = selfOf(actor);
      return passkeyCreation(work, app, { owner: await readOwner(work, self), self });
    },
  }),
  changing.post(`${prefix}/passkeys`, id("add", "Passkey"), {
    summary: "Add a passkey",
    description:
      "At most 20. With the first factor your other sessions end, and the answer has recovery codes.",
    body: z.object({ name: Name.meta({ example: "Ada's phone" }), credential: NewCredentialInput }),
    status: 201,
    response: AddedBody.extend({ passkey: PasskeyBody }),
    outside: async (app, { actor, body }) => {
      const parts = proofParts(app, actor);
      const { passkey, recoveryCodes, owner } = await addPasskey(parts, selfOf(actor), body);
      return { passkey, ...(recoveryCodes ? { recoveryCodes } : {}), ...(await loginOf(app, owner)) };
    },
  }),
];

const knownPasskeyRoutes = ({ prefix, mine, id }: Side) => [
  mine.patch(`${prefix}/passkeys/{passkeyId}`, id("rename", "Passkey"), {
    summary: "Rename a passkey",
    body: z.object({ name: Name }),
    response: PasskeyBody,
    run: async (work, { actor, params: { passkeyId }, body: { name } }) =>
      renamePasskey(work, await readOwner(work, selfOf(actor)), { passkeyId, name }),
  }),
  mine.delete(`${prefix}/passkeys/{passkeyId}`, id("remove", "Passkey"), {
    summary: "Remove a passkey",
    description: `Your other sessions end. With the last factor the recovery codes go. ${ASKED}`,
    ...proved,
    response: z.object({ deleted: z.literal(true), login: Login }),
    outside: async (app, { actor, params }) => {
      const parts = { mail: app.mail, rules: app.config };
      const owner = await app.transact((work) => removePasskey(work, parts, selfOf(actor), params.passkeyId));
      return { deleted: true as const, ...(await loginOf(app, owner)) };
    },
  }),
];

const routesOf = (side: Side) => [
  ...factorRoutes(side),
  ...totpRoutes(side),
  ...passkeyRoutes(side),
  ...knownPasskeyRoutes(side),
];

/** A user's own second factors. */
export const mfaRoutes = routesOf(USERS);
/** A super-admin's own. */
export const superadminMfaRoutes = routesOf(SUPERADMINS);
