import {
  createHash,
  createHmac,
  createPublicKey,
  generateKeyPairSync,
  hkdfSync,
  type KeyObject,
} from "node:crypto";
import { defineEntity, p } from "@mikro-orm/core";
import { errors, jwtVerify, SignJWT } from "jose";
import { sql } from "kysely";
import { z } from "zod";
import { limitKeyOf } from "../../kernel/networks.ts";
import { createSizedCache } from "../../kernel/caches.ts";
import { ROLES } from "../../kernel/caller.ts";
import { unauthorized } from "../../kernel/errors.ts";
import { newId } from "../../kernel/ids.ts";
import type { Work } from "../../kernel/work.ts";

/** Methods of authentication. */
export const SIGN_IN_METHODS = ["PASSWORD", "GOOGLE", "GITHUB", "INVITATION", "PASSKEY", "SSO"] as const;
export type SignInMethod = (typeof SIGN_IN_METHODS)[number];

const SessionSchema = defineEntity({
  name: "Session",
  tableName: "sessions",
  properties: {
    id: p.uuid().primary(),
    tenantId: p.uuid(),
    userId: p.uuid(),
    method: p.text().$type<SignInMethod>(),
    ip: p.text(),
    userAgent: p.text(),
    createdAt: p.datetime(3),
    lastUsedAt: p.datetime(3),
    /** When a second factor was last proved in it. */
    mfaAt: p.datetime(3).nullable(),
    /** Not changed by refreshing. */
    expiresAt: p.datetime(3),
    revokedAt: p.datetime(3).nullable(),
    /** LOGOUT, PASSWORD_CHANGED, MFA_CHANGED, REFRESH_TOKEN_REUSED, ... */
    revokedFor: p.text().nullable(),
  },
});
/** One sign-in of a user on one device. */
export class Session extends SessionSchema.class {}
SessionSchema.setClass(Session);

export const ACCESS_TOKEN_SECONDS = 604_800;
/** Lifetime of the token of a page that renews it by a cookie. */
const PAGE_TOKEN_SECONDS = 900;
/** Lifetime of the token returned by registration. */
export const REGISTRATION_TOKEN_SECONDS = 86_400;
const WS_TOKEN_SECONDS = 900;
const ADMIN_TOKEN_SECONDS = 3_600;
/** Lifetime of the token of a sign-in that lacks its second factor. */
const MFA_TOKEN_SECONDS = 300;
const TOKEN_MAX_BYTES = 4_096;
/** Between the clocks of two processes. */
const CLOCK_TOLERANCE_SECONDS = 5;

const AccessClaims = z.object({
  sub: z.uuid(),
  tid: z.uuid(),
  sid: z.uuid(),
  role: z.enum(ROLES),
  jti: z.uuid(),
  exp: z.int(),
});
/** `sub`: user id, `tid`: tenant id, `sid`: session id, `exp`: Unix seconds. */
type AccessClaims = z.infer<typeof AccessClaims>;

const WsClaims = z.object({
  sub: z.uuid(),
  pid: z.uuid(),
  tid: z.uuid(),
  kind: z.enum(["player", "console"]),
  externalUserId: z.string().optional(),
  exp: z.int(),
});
/** `sub`: player id (kind player) or user id (kind console), `pid`: project id, `exp`: Unix seconds. */
type WsClaims = z.infer<typeof WsClaims>;

const AdminClaims = z.object({
  sub: z.uuid(),
  ver: z.int(),
  enrol: z.literal(true).optional(),
  jti: z.uuid(),
  exp: z.int(),
});
/**
 * `sub`: platform admin, `ver`: their session version (incremented to end all), `enrol`: they may only set up
 * a second factor, `exp`: Unix seconds.
 */
type AdminClaims = z.infer<typeof AdminClaims>;

const MfaClaims = z.object({
  sub: z.uuid(),
  as: z.enum(["user", "admin"]),
  method: z.enum(SIGN_IN_METHODS),
  state: z.string(),
  jti: z.uuid(),
  exp: z.int(),
});
/**
 * A sign-in that lacks its second factor. `sub`: user or platform admin, `method`: what was proved so far,
 * `state`: of the account then, `exp`: Unix seconds.
 */
export type MfaClaims = z.infer<typeof MfaClaims>;

export type SignedToken = { token: string; expiresIn: number; expiresAt: Date };

export type Tokens = {
  /** Signs a console user's token; `expiresIn` in seconds. */
  signAccess(claims: Omit<AccessClaims, "jti" | "exp">, expiresIn?: number): Promise<SignedToken>;
  /** @throws UNAUTHORIZED TOKEN_INVALID, TOKEN_EXPIRED */
  verifyAccess(token: string): Promise<AccessClaims>;
  /** Signs a token for one project's rooms, valid 15 minutes. */
  signWs(claims: Omit<WsClaims, "exp">): Promise<SignedToken>;
  /** @throws UNAUTHORIZED TOKEN_INVALID, TOKEN_EXPIRED */
  verifyWs(token: string): Promise<WsClaims>;
  /** Signs a super-admin's token, valid one hour. */
  signAdmin(claims: Omit<AdminClaims, "jti" | "exp">): Promise<SignedToken>;
  /** @throws UNAUTHORIZED TOKEN_INVALID, TOKEN_EXPIRED */
  verifyAdmin(token: string): Promise<AdminClaims>;
  /** Signs the token of a sign-in that lacks its second factor, valid 5 minutes. */
  signMfa(claims: Omit<MfaClaims, "jti" | "exp">): Promise<SignedToken>;
  /** @throws UNAUTHORIZED TOKEN_INVALID, TOKEN_EXPIRED */
  verifyMfa(token: string): Promise<MfaClaims>;
  /** Returns the keyed hash of a text that only this server can make. */
  mac(text: string): string;
  /** Signs an access token that looks genuine and is never accepted. */
  signDecoy(claims: Omit<AccessClaims, "jti" | "exp">, expiresIn: number): Promise<SignedToken>;
  /** Returns the keyed hash of an address: without the server's key it cannot be found by enumeration. */
  hashAddress(address: string): string;
};

/** `typ` and audience separate the kinds: a token of one kind is never valid as another. */
type Kind<C> = { typ: string; audience: string; claims: z.ZodType<C>; invalid: string; expired: string };

const ACCESS: Kind<AccessClaims> = {
  typ: "at+jwt",
  audience: "laurel-admin",
  claims: AccessClaims,
  invalid: "The access token is not valid; log in with POST /auth/login",
  expired: "The access token has expired; log in with POST /auth/login",
};
const WS: Kind<WsClaims> = {
  typ: "ws+jwt",
  audience: "laurel-ws",
  claims: WsClaims,
  invalid: "The WebSocket token is not valid; get one with POST /auth/ws-token",
  expired: "The WebSocket token has expired; get a new one with POST /auth/ws-token",
};

const ADMIN: Kind<AdminClaims> = {
  typ: "admin+jwt",
  audience: "laurel-superadmin",
  claims: AdminClaims,
  invalid: "The token is not valid; log in with POST /superadmin/auth/login",
  expired: "The token has expired; log in with POST /superadmin/auth/login",
};

const MFA: Kind<MfaClaims> = {
  typ: "mfa+jwt",
  audience: "laurel-mfa",
  claims: MfaClaims,
  invalid: "The challenge is not valid; log in again",
  expired: "The challenge has expired; log in again",
};

type TokenParts = {
  /** Ed25519. */
  privateKey: KeyObject;
  /** The `iss` claim, the same in every process. */
  issuer: string;
  clock: () => Date;
};

/** Maximum tokens for rooms that are remembered, and their bytes; and those of one beside its text. */
const WS_KEPT = { items: 20_000, bytes: 16 * 1024 * 1024 };
const WS_CLAIMS_BYTES = 500;

/**
 * Verifies tokens for rooms once: a client joins several rooms with one, and what its signature proves does
 * not change before it ends.
 */
const remembering = (
  clock: () => Date,
  verify: (token: string) => Promise<WsClaims>,
): ((token: string) => Promise<WsClaims>) => {
  const known = createSizedCache<WsClaims>(WS_KEPT);
  return async (token) => {
    const found = known.get(token);
    if (found && found.exp * 1_000 > clock().getTime()) return { ...found };
    // One that has ended is refused as any other.
    const claims = await verify(token);
    const bytes = 2 * token.length + WS_CLAIMS_BYTES;
    known.keep(token, claims, { owner: claims.tid, bytes });
    return { ...claims };
  };
};

/** Returns the keyed hash that `purpose` names, by a key derived from the server's own. */
const macOf = (der: Buffer, purpose: string): ((text: string) => string) => {
  const key = Buffer.from(hkdfSync("sha256", der, "", purpose, 32));
  return (text) => createHmac("sha256", key).update(text).digest("base64url");
};

/** The only place where tokens are signed and verified. */
export const createTokens = ({ privateKey, issuer, clock }: TokenParts): Tokens => {
  const publicKey = createPublicKey(privateKey);
  const kid = thumbprint(publicKey);
  const der = privateKey.export({ format: "der", type: "pkcs8" });
  const decoyKey = generateKeyPairSync("ed25519").privateKey;

  const sign = async <C>(
    kind: Kind<C>,
    key: KeyObject,
    claims: object,
    expiresIn: number,
  ): Promise<SignedToken> => {
    const nowSeconds = Math.floor(clock().getTime() / 1_000);
    const { sub, ...rest } = claims as { sub: string };
    const token = await new SignJWT(rest)
      .setProtectedHeader({ alg: "EdDSA", kid, typ: kind.typ })
      .setIssuer(issuer)
      .setAudience(kind.audience)
      .setSubject(sub)
      .setJti(newId())
      .setIssuedAt(nowSeconds)
      .setExpirationTime(nowSeconds + expiresIn)
      .sign(key);
    return { token, expiresIn, expiresAt: new Date((nowSeconds + expiresIn) * 1_000) };
  };

  const verify = async <C>(kind: Kind<C>, token: string): Promise<C> => {
    if (Buffer.byteLength(token) > TOKEN_MAX_BYTES) throw unauthorized("TOKEN_INVALID", kind.invalid);
    const verified = await jwtVerify(token, publicKey, {
      issuer,
      audience: kind.audience,
      typ: kind.typ,
      algorithms: ["EdDSA"],
      clockTolerance: CLOCK_TOLERANCE_SECONDS,
      currentDate: clock(),
      requiredClaims: ["sub", "iat", "exp", "jti"],
    }).catch((error: unknown) => {
      if (error instanceof errors.JWTExpired) throw unauthorized("TOKEN_EXPIRED", kind.expired);
      throw unauthorized("TOKEN_INVALID", kind.invalid);
    });
    const claims = kind.claims.safeParse(verified.payload);
    if (!claims.success || verified.protectedHeader.kid !== kid)
      throw unauthorized("TOKEN_INVALID", kind.invalid);
    return claims.data;
  };

  return {
    signAccess: (claims, expiresIn = ACCESS_TOKEN_SECONDS) => sign(ACCESS, privateKey, claims, expiresIn),
    verifyAccess: (token) => verify(ACCESS, token),
    signWs: (claims) => sign(WS, privateKey, claims, WS_TOKEN_SECONDS),
    verifyWs: remembering(clock, (token) => verify(WS, token)),
    signAdmin: (claims) => sign(ADMIN, privateKey, claims, ADMIN_TOKEN_SECONDS),
    verifyAdmin: (token) => verify(ADMIN, token),
    signMfa: (claims) => sign(MFA, privateKey, claims, MFA_TOKEN_SECONDS),
    verifyMfa: (token) => verify(MFA, token),
    mac: macOf(der, "laurel challenges"),
    signDecoy: (claims, expiresIn) => sign(ACCESS, decoyKey, claims, expiresIn),
    hashAddress: macOf(der, "laurel known addresses"),
  };
};

/** Returns tokens of users that live as long as a page needs them until it renews them. */
export const forPages = (tokens: Tokens): Tokens => ({
  ...tokens,
  signAccess: (claims, seconds = PAGE_TOKEN_SECONDS) =>
    tokens.signAccess(claims, Math.min(seconds, PAGE_TOKEN_SECONDS)),
  signDecoy: (claims, seconds) => tokens.signDecoy(claims, Math.min(seconds, PAGE_TOKEN_SECONDS)),
});

/** Returns the key's id, RFC 7638. */
const thumbprint = (publicKey: KeyObject): string => {
  const { crv, kty, x } = publicKey.export({ format: "jwk" });
  return createHash("sha256").update(JSON.stringify({ crv, kty, x })).digest("base64url");
};

/** How long an address is known after the last sign-in from it, in days. */
const KNOWN_DAYS = 90;
/** Maximum addresses of one account; the oldest are forgotten. */
const KNOWN_ADDRESSES_MAX = 20;

/** The owner of addresses: `tenantId` is null for a super-admin. */
type AddressOwner = { id: string; tenantId: string | null };
/** Tables of accounts with an email column. */
type Accounts = "users" | "platform_admins";

const addressHash = (tokens: Tokens, ip: string): string => tokens.hashAddress(limitKeyOf(ip));

/**
 * Returns the hash of an address from which an account was signed in to before; undefined for a stranger's.
 * One statement, whether the account exists or not.
 */
export const findKnownAddress = async (
  { db, now }: Work,
  tokens: Tokens,
  { accounts, email, ip }: { accounts: Accounts; email: string; ip: string },
): Promise<string | undefined> => {
  const { rows } = await sql<{ origin: string }>`
    select k.origin from known_origins k join ${sql.ref(accounts)} a on a.id = k.owner_id
    where a.email = ${email} and k.expires_at > ${now.toISOString()}::timestamptz
      and k.origin = ${addressHash(tokens, ip)}`.execute(db);
  return rows[0]?.origin;
};

/** Records that an account was signed in to, or given a password, from this address. */
export const rememberAddress = async (
  { db, now }: Work,
  tokens: Tokens,
  owner: AddressOwner,
  ip: string | undefined,
): Promise<void> => {
  if (ip === undefined || ip === "") return;
  const until = new Date(now.getTime() + KNOWN_DAYS * 86_400_000).toISOString();
  await sql`
    insert into known_origins (owner_id, origin, tenant_id, seen_at, expires_at)
    values (${owner.id}::uuid, ${addressHash(tokens, ip)}, ${owner.tenantId}::uuid,
      ${now.toISOString()}::timestamptz, ${until}::timestamptz)
    on conflict (owner_id, origin) do update
      set seen_at = excluded.seen_at, expires_at = excluded.expires_at`.execute(db);
  await sql`
    delete from known_origins where owner_id = ${owner.id}::uuid and origin not in (
      select origin from known_origins where owner_id = ${owner.id}::uuid
      order by seen_at desc, origin limit ${KNOWN_ADDRESSES_MAX})`.execute(db);
};

/**
 * Forgets the known addresses of an account when it has a new password, since those who knew the old one may
 * be others.
 */
export const forgetAddresses = async ({ db }: Work, ownerId: string): Promise<void> => {
  await sql`delete from known_origins where owner_id = ${ownerId}::uuid`.execute(db);
};
