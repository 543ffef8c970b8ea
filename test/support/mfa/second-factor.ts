import { createHash, createHmac, generateKeyPairSync, type KeyObject, randomBytes, sign } from "node:crypto";
import { sql } from "kysely";
import type { Answer, Tenant, TestApp } from "../app/app.ts";
import { assertError } from "../http/assert-error.ts";
import { anAddress, type Client, must } from "../http/client.ts";

const ALPHABET = "ABCDEFGHIJKLMNOPQRSTUVWXYZ234567";
const STEP_SECONDS = 30;

const fromBase32 = (text: string): Buffer => {
  const bits = [...text].map((letter) => ALPHABET.indexOf(letter).toString(2).padStart(5, "0")).join("");
  return Buffer.from((bits.match(/.{8}/g) ?? []).map((byte) => parseInt(byte, 2)));
};

/**
 * The six digits of RFC 6238 with SHA-1, as an app on a phone shows them; `steps` of 30 seconds later or
 * earlier. Written from the RFC, apart from the library that the server uses.
 */
export const totpCode = (secret: string, steps = 0, now = new Date()): string => {
  const counter = Buffer.alloc(8);
  counter.writeBigUInt64BE(BigInt(Math.floor(now.getTime() / 1_000 / STEP_SECONDS) + steps));
  const mac = createHmac("sha1", fromBase32(secret)).update(counter).digest();
  const offset = mac[mac.length - 1]! & 0xf;
  return String((mac.readUInt32BE(offset) & 0x7fffffff) % 1_000_000).padStart(6, "0");
};

/** A code of six digits that none of the steps around now has. */
export const wrongCode = (secret: string): string => {
  const near = new Set([-3, -2, -1, 0, 1, 2, 3].map((steps) => totpCode(secret, steps)));
  for (let code = 0; ; code++) {
    const text = String(code).padStart(6, "0");
    if (!near.has(text)) return text;
  }
};

const LOGIN = "/api/v1/auth/login";

/** How a tenant's OWNER logs in with a second factor, from an address of its own each time. */
export const loginsOf = (api: TestApp, { email, password, token }: Tenant) => {
  const from = (address: string) => ({ headers: { "X-Forwarded-For": address } });
  const logIn = (more: object = {}): Promise<Answer> =>
    api.post(LOGIN, { email, password, ...more }, from(anAddress()));
  const own = { token };
  return {
    own,
    /** With the password, and what else is given. */
    logIn,
    /** The token that a login with the password alone is answered. */
    challenge: async (): Promise<string> => {
      const answer = await logIn();
      assertError(answer, 401, "MFA_REQUIRED");
      return answer.body.error.challenge.token;
    },
    complete: (challengeToken: string, code: string, address = anAddress()): Promise<Answer> =>
      api.post(`${LOGIN}/mfa`, { challengeToken, code }, from(address)),
    factors: async () => must(await api.get("/api/v1/auth/mfa", own), 200),
  };
};

/** The few kinds of CBOR that WebAuthn needs. */
type Cbor = number | string | Buffer | Map<Cbor, Cbor>;

const head = (major: number, value: number): Buffer => {
  if (value < 24) return Buffer.from([(major << 5) | value]);
  if (value < 256) return Buffer.from([(major << 5) | 24, value]);
  return Buffer.from([(major << 5) | 25, value >> 8, value & 255]);
};

const cbor = (value: Cbor): Buffer => {
  if (typeof value === "number") return value < 0 ? head(1, -1 - value) : head(0, value);
  if (typeof value === "string")
    return Buffer.concat([head(3, Buffer.byteLength(value)), Buffer.from(value)]);
  if (Buffer.isBuffer(value)) return Buffer.concat([head(2, value.length), value]);
  return Buffer.concat([head(5, value.size), ...[...value].flatMap(([key, one]) => [cbor(key), cbor(one)])]);
};

const sha256 = (data: string | Buffer): Buffer => createHash("sha256").update(data).digest();
const FLAGS = { present: 0x01, verified: 0x04, attested: 0x40 };

/** What a hostile or broken authenticator does otherwise. */
export type Twist = {
  origin?: string;
  rpId?: string;
  challenge?: string;
  type?: string;
  isVerified?: boolean;
  counter?: number;
  userHandle?: string | null;
  fmt?: string;
  attStmt?: Map<Cbor, Cbor>;
};

type Options = { challenge: string; user?: { id: string }; rp?: { id?: string }; rpId?: string };

/** One passkey of a software authenticator, with what a browser at `origin` adds. */
export class Authenticator {
  readonly origin: string;
  readonly rpId: string;
  readonly id = randomBytes(32);
  counter = 0;
  userHandle: string | null = null;
  readonly #keys: { publicKey: KeyObject; privateKey: KeyObject };

  constructor({ origin, rpId }: { origin: string; rpId: string }) {
    this.origin = origin;
    this.rpId = rpId;
    this.#keys = generateKeyPairSync("ec", { namedCurve: "P-256" });
  }

  #clientData(type: string, challenge: string, twist: Twist): Buffer {
    const data = {
      type: twist.type ?? type,
      challenge: twist.challenge ?? challenge,
      origin: twist.origin ?? this.origin,
      crossOrigin: false,
    };
    return Buffer.from(JSON.stringify(data));
  }

  #authData(twist: Twist, attested: Buffer): Buffer {
    const counter = Buffer.alloc(4);
    counter.writeUInt32BE(twist.counter ?? this.counter);
    const verified = twist.isVerified === false ? 0 : FLAGS.verified;
    const flags = FLAGS.present | verified | (attested.length > 0 ? FLAGS.attested : 0);
    return Buffer.concat([sha256(twist.rpId ?? this.rpId), Buffer.from([flags]), counter, attested]);
  }

  #publicKey(): Buffer {
    const { x = "", y = "" } = this.#keys.publicKey.export({ format: "jwk" });
    const key = new Map<Cbor, Cbor>([
      [1, 2],
      [3, -7],
      [-1, 1],
      [-2, Buffer.from(x, "base64url")],
      [-3, Buffer.from(y, "base64url")],
    ]);
    return cbor(key);
  }

  #credential<R extends object>(response: R) {
    const id = this.id.toString("base64url");
    return {
      id,
      rawId: id,
      type: "public-key",
      authenticatorAttachment: "platform",
      clientExtensionResults: {},
      response,
    };
  }

  /** Answers `navigator.credentials.create()`. */
  create({ challenge, user }: Options, twist: Twist = {}) {
    this.userHandle = user?.id ?? null;
    const length = Buffer.from([this.id.length >> 8, this.id.length & 255]);
    const attested = Buffer.concat([Buffer.alloc(16), length, this.id, this.#publicKey()]);
    const attestation = new Map<Cbor, Cbor>([
      ["fmt", twist.fmt ?? "none"],
      ["attStmt", twist.attStmt ?? new Map<Cbor, Cbor>()],
      ["authData", this.#authData(twist, attested)],
    ]);
    return this.#credential({
      clientDataJSON: this.#clientData("webauthn.create", challenge, twist).toString("base64url"),
      attestationObject: cbor(attestation).toString("base64url"),
      transports: ["internal"],
    });
  }

  /** Answers `navigator.credentials.get()`; the counter grows first. */
  get({ challenge }: Options, twist: Twist = {}) {
    this.counter += 1;
    const clientData = this.#clientData("webauthn.get", challenge, twist);
    const authData = this.#authData(twist, Buffer.alloc(0));
    const signed = Buffer.concat([authData, sha256(clientData)]);
    return this.#credential({
      clientDataJSON: clientData.toString("base64url"),
      authenticatorData: authData.toString("base64url"),
      signature: sign("sha256", signed, this.#keys.privateKey).toString("base64url"),
      userHandle: twist.userHandle === undefined ? this.userHandle : twist.userHandle,
    });
  }
}

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
