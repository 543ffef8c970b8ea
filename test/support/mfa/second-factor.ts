import { sql } from "kysely";
import type { TestApp } from "../app/app.ts";
import { type Client, must } from "../http/client.ts";
import { Authenticator } from "./authenticator.ts";
import { totpCode } from "./totp.ts";

const MFA = "/api/v1/auth/mfa";

/** A user with a password who is signed in. */
export type Person = { userId: string; token: string; password: string };

/** An authenticator app that is switched on. */
export type AppFactor = { secret: string; recoveryCodes: string[]; code(): Promise<string> };

/** Makes the account forget which codes were used, so that the current one is new again. */
export const forgetSteps = ({ app }: TestApp, ownerId: string): Promise<unknown> =>
  app.transact(({ db }) =>
    sql`update totp_secrets set last_step = 0 where owner_id = ${ownerId}::uuid`.execute(db),
  );

const factorOf = (api: TestApp, ownerId: string, secret: string, recoveryCodes: string[]): AppFactor => ({
  secret,
  recoveryCodes,
  code: async () => {
    await forgetSteps(api, ownerId);
    return totpCode(secret, 0, api.app.clock());
  },
});

/** Switches codes of an app on for a user, by the API. */
export const withTotp = async (api: TestApp, { userId, token, password }: Person): Promise<AppFactor> => {
  const options = { token };
  const { secret } = must(await api.post(`${MFA}/totp/setup`, { currentPassword: password }, options), 200);
  const code = totpCode(secret, 0, api.app.clock());
  const { recoveryCodes } = must(await api.post(`${MFA}/totp/enable`, { code }, options), 200);
  return factorOf(api, userId, secret, recoveryCodes);
};

/** As `withTotp` for a super-admin; `token` is their new one. */
export const withAdminTotp = async (
  api: TestApp,
  { adminId, token, password }: { adminId: string; token: string; password: string },
): Promise<AppFactor & { token: string }> => {
  const path = "/api/v1/superadmin/auth/mfa/totp";
  const { secret } = must(await api.post(`${path}/setup`, { currentPassword: password }, { token }), 200);
  const code = totpCode(secret, 0, api.app.clock());
  const { recoveryCodes, login } = must(await api.post(`${path}/enable`, { code }, { token }), 200);
  return { ...factorOf(api, adminId, secret, recoveryCodes), token: login.accessToken };
};

/** The first login of a super-admin, who sets up codes of an app at once; returns the token of their work. */
export const firstAdminLogin = async (
  client: Client,
  login: { email: string; password: string },
): Promise<string> => {
  const path = "/api/v1/superadmin/auth";
  const { accessToken: token } = must(await client.post(`${path}/login`, login), 200);
  const proof = { currentPassword: login.password };
  const { secret } = must(await client.post(`${path}/mfa/totp/setup`, proof, { token }), 200);
  const code = totpCode(secret);
  return must(await client.post(`${path}/mfa/totp/enable`, { code }, { token }), 200).login.accessToken;
};

/** An authenticator of a browser at this server's own origin. */
export const anAuthenticator = ({ app }: TestApp): Authenticator =>
  new Authenticator({ origin: app.config.passkeys.origins[0]!, rpId: app.config.passkeys.rpId });

/** Options to prove a passkey. */
export const passkeyOptions = async (api: TestApp): Promise<{ challenge: string }> =>
  must(await api.post("/api/v1/auth/passkeys/options", {}), 200);

/** Adds a passkey to a user, by the API; `proof`: what is asked of a user who has a second factor. */
export const withPasskey = async (
  api: TestApp,
  { token, password }: Person,
  {
    authenticator = anAuthenticator(api),
    proof = {},
  }: { authenticator?: Authenticator; proof?: object } = {},
): Promise<{ authenticator: Authenticator; passkeyId: string; recoveryCodes?: string[] }> => {
  const asked = { currentPassword: password, ...proof };
  const options = must(await api.post(`${MFA}/passkeys/options`, asked, { token }), 200);
  const body = { name: "A phone", credential: authenticator.create(options) };
  const { passkey, recoveryCodes } = must(await api.post(`${MFA}/passkeys`, body, { token }), 201);
  return { authenticator, passkeyId: passkey.id, recoveryCodes };
};
