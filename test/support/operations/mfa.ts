import { type Admin, anAdmin } from "../app/admin.ts";
import { startApp, type TestApp } from "../app/app.ts";
import { aMemberWithPassword } from "../app/member.ts";
import { must } from "../http/client.ts";
import {
  anAuthenticator,
  type AppFactor,
  passkeyOptions,
  type Person,
  totpCode,
  withAdminTotp,
  withPasskey,
  withTotp,
} from "../mfa/second-factor.ts";
import type { Side } from "../app/sides.ts";
import type { Call, Known } from "./operations.ts";

/** That of every OWNER of a side: what is another's is not found, and not a wrong password. */
const PASSWORD = "Correct-horse-7";

type Somebody = Person & { email: string };

/** A member of their own for each call, with a password. */
const somebody = async ({ tenant }: Side): Promise<Somebody> =>
  aMemberWithPassword(await startApp(), tenant.tenantId, { role: "VIEWER", password: PASSWORD });

/** One of the two kinds of people who have a second factor, with what makes a call of theirs. */
type Kind = {
  path: string;
  /** Somebody new, with the proof that a change asks of those who have no factor. */
  start(side: Side): Promise<{ api: TestApp; token: string; currentPassword: string }>;
  /** Somebody with codes of an app, and the proof that a change asks of them. */
  withApp(side: Side): Promise<{ token: string; proof: object }>;
  /** Somebody with a passkey and an app. */
  withPasskey(side: Side): Promise<{ token: string; passkeyId: string; byCode: object; byPasskey: object }>;
};

const users: Kind = {
  path: "/auth/mfa",
  start: async (side) => {
    const { token, password } = await somebody(side);
    return { api: await startApp(), token, currentPassword: password };
  },
  withApp: async (side) => {
    const person = await somebody(side);
    await withTotp(await startApp(), person);
    return { token: person.token, proof: { currentPassword: person.password } };
  },
  withPasskey: async (side) => {
    const [api, person] = [await startApp(), await somebody(side)];
    await withTotp(api, person);
    const { passkeyId } = await withPasskey(api, person);
    const proof = { currentPassword: person.password };
    return { token: person.token, passkeyId, byCode: proof, byPasskey: proof };
  },
};

/** A super-admin with codes of an app, and a proof by one. */
const adminWithApp = async (): Promise<{
  admin: Admin;
  factor: AppFactor & { token: string };
  proof: object;
}> => {
  const api = await startApp();
  const admin = await anAdmin(api);
  const factor = await withAdminTotp(api, admin);
  return { admin, factor, proof: { currentPassword: admin.password, code: await factor.code() } };
};

const superadmins: Kind = {
  path: "/superadmin/auth/mfa",
  start: async () => {
    const api = await startApp();
    const { token, password } = await anAdmin(api);
    return { api, token, currentPassword: password };
  },
  withApp: async () => {
    const { factor, proof } = await adminWithApp();
    return { token: factor.token, proof };
  },
  withPasskey: async () => {
    const api = await startApp();
    const { admin, factor, proof } = await adminWithApp();
    const path = "/api/v1/superadmin/auth/mfa/passkeys";
    const options = must(await api.post(`${path}/options`, proof, { token: factor.token }), 200);
    const authenticator = anAuthenticator(api);
    const body = { name: "A key", credential: authenticator.create(options) };
    const { passkey } = must(await api.post(path, body, { token: factor.token }), 201);
    const currentPassword = admin.password;
    return {
      token: factor.token,
      passkeyId: passkey.id,
      byCode: { currentPassword, code: await factor.code() },
      byPasskey: { currentPassword, passkey: authenticator.get(await passkeyOptions(api)) },
    };
  },
};

const optionsOf = async (
  { path }: Kind,
  { api, token, currentPassword }: Awaited<ReturnType<Kind["start"]>>,
): Promise<{ challenge: string }> =>
  must(await api.post(`/api/v1${path}/passkeys/options`, { currentPassword }, { token }), 200);

const ofKind = (kind: Kind, id: (verb: string, noun: string) => string): Record<string, Known> => ({
  [id("get", "SecondFactors")]: {
    call: async (side) => ({ path: kind.path, token: (await kind.withPasskey(side)).token }),
  },
  [id("setUp", "Totp")]: {
    call: async (side) => {
      const { token, currentPassword } = await kind.start(side);
      return { path: `${kind.path}/totp/setup`, body: { currentPassword }, token };
    },
  },
  [id("enable", "Totp")]: {
    call: async (side) => {
      const { api, token, currentPassword } = await kind.start(side);
      const path = `${kind.path}/totp`;
      const setup = await api.post(`/api/v1${path}/setup`, { currentPassword }, { token });
      const { secret } = must(setup, 200);
      // The code of when it is sent: sweeps make all their calls before.
      return {
        path: `${path}/enable`,
        get body() {
          return { code: totpCode(secret) };
        },
        token,
      };
    },
  },
  [id("disable", "Totp")]: {
    call: async (side) => {
      const { token, byPasskey: body } = await kind.withPasskey(side);
      return { path: `${kind.path}/totp/disable`, body, token };
    },
  },
  [id("replace", "RecoveryCodes")]: {
    call: async (side) => {
      const { token, proof: body } = await kind.withApp(side);
      return { path: `${kind.path}/recovery-codes`, body, token };
    },
  },
  [id("start", "Passkey")]: {
    call: async (side) => {
      const { token, currentPassword } = await kind.start(side);
      return { path: `${kind.path}/passkeys/options`, body: { currentPassword }, token };
    },
  },
  [id("add", "Passkey")]: {
    success: 201,
    call: async (side) => {
      const begun = await kind.start(side);
      const credential = anAuthenticator(begun.api).create(await optionsOf(kind, begun));
      return { path: `${kind.path}/passkeys`, body: { name: "A phone", credential }, token: begun.token };
    },
  },
  [id("rename", "Passkey")]: {
    call: async (side) => {
      const { token, passkeyId } = await kind.withPasskey(side);
      return { path: `${kind.path}/passkeys/${passkeyId}`, body: { name: "My phone" }, token };
    },
  },
  [id("remove", "Passkey")]: {
    call: async (side) => {
      const { token, passkeyId, byCode: body } = await kind.withPasskey(side);
      return { path: `${kind.path}/passkeys/${passkeyId}`, body, token };
    },
  },
});

const challengeOf = async (path: string, { email, password }: { email: string; password: string }) => {
  const api = await startApp();
  const { body } = await api.post(`/api/v1${path}`, { email, password });
  return body.error.challenge.token as string;
};

const withAppOf = async (side: Side) => {
  const person = await somebody(side);
  return { person, factor: await withTotp(await startApp(), person) };
};

export const mfaOperations: Record<string, Known> = {
  ...ofKind(users, (verb, noun) => `${verb}${noun}`),
  ...ofKind(superadmins, (verb, noun) => `${verb}Superadmin${noun}`),
  completeLogin: {
    call: async (side) => {
      const { person, factor } = await withAppOf(side);
      const challengeToken = await challengeOf("/auth/login", person);
      return { path: "/auth/login/mfa", body: { challengeToken, code: await factor.code() } };
    },
  },
  completeSuperadminLogin: {
    call: async () => {
      const { admin, factor } = await adminWithApp();
      const challengeToken = await challengeOf("/superadmin/auth/login", admin);
      return { path: "/superadmin/auth/login/mfa", body: { challengeToken, code: await factor.code() } };
    },
  },
  startPasskeyLogin: { call: () => ({ path: "/auth/passkeys/options", body: {} }) },
  loginWithPasskey: {
    call: async (side) => {
      const api = await startApp();
      const { authenticator } = await withPasskey(api, await somebody(side));
      const credential = authenticator.get(await passkeyOptions(api));
      return { path: "/auth/passkeys/login", body: { credential } };
    },
  },
  verifySecondFactor: {
    call: async (side): Promise<Call> => {
      const { person, factor } = await withAppOf(side);
      return {
        path: "/auth/mfa/verify",
        // That of now was used when it was set up.
        get body() {
          return { code: totpCode(factor.secret, 1) };
        },
        token: person.token,
      };
    },
  },
  resetMemberMfa: {
    call: async (side) => {
      const { person } = await withAppOf(side);
      const path = `/team/members/${person.userId}/reset-mfa`;
      // Those whose token the sweeps take may have no password.
      return { path, body: { currentPassword: PASSWORD }, token: side.tenant.token };
    },
  },
  resetUserMfa: {
    call: async (side) => {
      const { person } = await withAppOf(side);
      return { path: `/superadmin/users/${person.userId}/reset-mfa`, body: { reason: "Lost phone" } };
    },
  },
};
