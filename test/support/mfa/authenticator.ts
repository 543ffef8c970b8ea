import { createHash, generateKeyPairSync, type KeyObject, randomBytes, sign } from "node:crypto";

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
