import { type RawBuilder, sql } from "kysely";
import { Secret, TOTP } from "otpauth";
import { PlatformAdmin } from "../admin/admins.ts";
import { User } from "../auth/user.ts";
import { conflict, DomainError, unauthorized } from "../../kernel/errors.ts";
import type { SecretBox } from "../../kernel/secret-box.ts";
import { LOCKED, type Work } from "../../kernel/work.ts";

/** Names the account of a user of a tenant, or of a super-admin. */
export type OwnerRef = { kind: "user" | "admin"; id: string };

/** The account that a second factor belongs to. */
export type FactorOwner = { kind: "user"; row: User } | { kind: "admin"; row: PlatformAdmin };

/** Returns the tenant of the account; a super-admin has none. */
export const tenantIdOf = (owner: FactorOwner): string | null =>
  owner.kind === "user" ? owner.row.tenantId : null;

const ENDED = "The session of this access token has ended; log in again";

/**
 * Returns an account, unless it is disabled; with `isLocked`, locks it until the commit, so that changes of
 * its factors follow one another.
 */
export const findOwner = async (
  { em }: Work,
  { kind, id }: OwnerRef,
  isLocked = false,
): Promise<FactorOwner | undefined> => {
  const lock = isLocked ? LOCKED : {};
  const where = { id, disabledAt: null };
  if (kind === "admin") {
    const row = await em.findOne(PlatformAdmin, where, lock);
    return row ? { kind, row } : undefined;
  }
  const row = await em.findOne(User, where, lock);
  return row ? { kind, row } : undefined;
};

/** An account and the login by which it is asked about: a user's session, or a super-admin's version. */
export type LoginRef = OwnerRef & { sessionId?: string | undefined; loginVersion?: number | undefined };

const isAlive = async (
  { db, now }: Work,
  { sessionId, loginVersion }: LoginRef,
  owner: FactorOwner,
): Promise<boolean> => {
  if (owner.kind === "admin") return loginVersion === undefined || loginVersion === owner.row.sessionVersion;
  if (sessionId === undefined) return true;
  const { rows } = await sql`
    select 1 from sessions where id = ${sessionId}::uuid and user_id = ${owner.row.id}::uuid
      and revoked_at is null and expires_at > ${now.toISOString()}::timestamptz`.execute(db);
  return rows.length === 1;
};

/**
 * As `findOwner`, for somebody who is signed in. The login is looked up: what authenticates requests may be
 * some seconds old, and what ended meanwhile must not change how the account is secured.
 * @throws UNAUTHORIZED SESSION_REVOKED
 */
export const readOwner = async (work: Work, ref: LoginRef, isLocked = false): Promise<FactorOwner> => {
  const owner = await findOwner(work, ref, isLocked);
  if (!owner || !(await isAlive(work, ref, owner))) throw unauthorized("SESSION_REVOKED", ENDED);
  return owner;
};

/** Returns the values of the columns that name the owner of a row: owner_id, user_id, admin_id, tenant_id. */
export const ownerColumns = (owner: FactorOwner): RawBuilder<unknown> => {
  const { id } = owner.row;
  const [userId, adminId] = owner.kind === "user" ? [id, null] : [null, id];
  return sql`${id}::uuid, ${userId}::uuid, ${adminId}::uuid, ${tenantIdOf(owner)}::uuid`;
};

/** Parameters of RFC 6238 that every authenticator app supports. */
const SHAPE = { algorithm: "SHA1", digits: 6, period: 30 } as const;
/** RFC 4226, 4: 160 bits are recommended. */
const SECRET_BYTES = 20;
/** Steps before and after the current one whose codes count: RFC 6238, 5.2 recommends one. */
const WINDOW = 1;
/** How long a new secret waits for its first code. */
const SETUP_SECONDS = 3_600;
const ISSUER = "Laurel";

/** What an authenticator app needs: the secret in base32, and the same with its parameters as a URL. */
type TotpSetup = { secret: string; otpauthUrl: string };

/** Names the row in which a secret is sealed. */
export const totpContext = (ownerId: string): string => `totp_secrets:${ownerId}`;

/**
 * Makes a new secret, which counts once a code of it has confirmed it, within an hour. Until then a confirmed
 * one stays valid; a secret that was not confirmed is replaced at once.
 */
export const setUpTotp = async (work: Work, box: SecretBox, owner: FactorOwner): Promise<TotpSetup> => {
  const { id, email } = owner.row;
  const secret = new Secret({ size: SECRET_BYTES });
  const sealed = box.seal(secret.base32, totpContext(id));
  const at = sql`${work.now.toISOString()}::timestamptz`;
  const replaced = await sql`
    update totp_secrets set next_sealed = ${sealed}, next_created_at = ${at}
    where owner_id = ${id}::uuid and confirmed_at is not null
    returning 1`.execute(work.db);
  if (replaced.rows.length === 0)
    await sql`
      insert into totp_secrets (owner_id, user_id, admin_id, tenant_id, sealed, created_at)
      values (${ownerColumns(owner)}, ${sealed}, ${at})
      on conflict (owner_id) do update
        set sealed = excluded.sealed, created_at = excluded.created_at, last_step = 0`.execute(work.db);
  const otpauthUrl = new TOTP({ issuer: ISSUER, label: email, secret, ...SHAPE }).toString();
  return { secret: secret.base32, otpauthUrl };
};

type Row = {
  sealed: string;
  confirmedAt: Date | null;
  createdAt: Date;
  nextSealed: string | null;
  nextCreatedAt: Date | null;
};

const find = async ({ db }: Work, ownerId: string): Promise<Row | undefined> => {
  const { rows } = await sql<Row>`
    select sealed, confirmed_at as "confirmedAt", created_at as "createdAt",
      next_sealed as "nextSealed", next_created_at as "nextCreatedAt"
    from totp_secrets where owner_id = ${ownerId}::uuid`.execute(db);
  return rows[0];
};

/** @throws SERVICE_UNAVAILABLE MFA_SECRET_LOST */
const opened = (box: SecretBox, ownerId: string, sealed: string): string => {
  try {
    return box.open(sealed, totpContext(ownerId));
  } catch {
    const message =
      "This server has lost the key of your authenticator app's secret; use a recovery code or a passkey";
    throw new DomainError("SERVICE_UNAVAILABLE", message, { reason: "MFA_SECRET_LOST" });
  }
};

/** Returns the step of the code; undefined when it belongs to no step of the window. */
const stepOf = (secret: string, code: string, timestamp: number): number | undefined => {
  // Of other texts of six characters the library compares bytes of different lengths, which throws.
  if (!/^\d{6}$/.test(code)) return undefined;
  const given = { secret: Secret.fromBase32(secret), token: code, timestamp, window: WINDOW, ...SHAPE };
  const delta = TOTP.validate(given);
  return delta === null ? undefined : TOTP.counter({ period: SHAPE.period, timestamp }) + delta;
};

/**
 * Uses a code of the app. It is valid once, and none of an earlier step is after it: of several uses at the
 * same time, in whatever processes, one succeeds.
 */
export const useTotp = async (
  work: Work,
  box: SecretBox,
  { row: { id } }: FactorOwner,
  code: string,
): Promise<boolean> => {
  const found = await find(work, id);
  if (!found?.confirmedAt) return false;
  const used = usedAt(work, box, { id, sealed: found.sealed, code });
  if (!used) return false;
  // Sealed anew, so that a key that was replaced is not needed for ever.
  const { rows } = await sql`
    update totp_secrets set last_step = ${used.step}::bigint, sealed = ${used.sealedAnew}
    where owner_id = ${id}::uuid and sealed = ${found.sealed} and last_step < ${used.step}::bigint
    returning 1`.execute(work.db);
  return rows.length === 1;
};

/** Returns the step of a secret's code, and the secret sealed anew; undefined for a wrong code. */
const usedAt = (
  { now }: Work,
  box: SecretBox,
  { id, sealed, code }: { id: string; sealed: string; code: string },
): { step: number; sealedAnew: string } | undefined => {
  const secret = opened(box, id, sealed);
  const step = stepOf(secret, code, now.getTime());
  return step === undefined ? undefined : { step, sealedAnew: box.seal(secret, totpContext(id)) };
};

/** Returns the sealed secret that waits for its first code. @throws CONFLICT INVALID_STATE */
const waitingIn = (found: Row | undefined, now: Date): string => {
  const [sealed, since] = found?.confirmedAt
    ? [found.nextSealed, found.nextCreatedAt]
    : [found?.sealed, found?.createdAt];
  if (sealed != null && since && now.getTime() - since.getTime() < SETUP_SECONDS * 1_000) return sealed;
  throw conflict("INVALID_STATE", "No secret waits for a code; get one with POST totp/setup, for an hour");
};

/**
 * Switches codes on by the first one of the secret that waits for it, which is used up by that: of a first
 * app, or of one that replaces another; undefined for a wrong one.
 * @throws CONFLICT INVALID_STATE when no secret waits for a code
 */
export const confirmTotp = async (
  work: Work,
  box: SecretBox,
  { row: { id } }: FactorOwner,
  code: string,
): Promise<"FIRST" | "REPLACED" | undefined> => {
  const { now, db } = work;
  const found = await find(work, id);
  const sealed = waitingIn(found, now);
  const used = usedAt(work, box, { id, sealed, code });
  if (!used) return undefined;
  const { rows } = await sql`
    update totp_secrets
    set sealed = ${used.sealedAnew}, last_step = ${used.step}::bigint,
      confirmed_at = ${now.toISOString()}::timestamptz, created_at = coalesce(next_created_at, created_at),
      next_sealed = null, next_created_at = null
    where owner_id = ${id}::uuid
      and (case when confirmed_at is null then sealed else next_sealed end) = ${sealed}
    returning 1`.execute(db);
  if (rows.length === 0) return undefined;
  return found?.confirmedAt ? "REPLACED" : "FIRST";
};

/** Deletes the secret; false when codes were not switched on. */
export const deleteTotp = async ({ db }: Work, { row }: FactorOwner): Promise<boolean> => {
  const { rows } = await sql<{ was: boolean }>`
    delete from totp_secrets where owner_id = ${row.id}::uuid
    returning confirmed_at is not null as was`.execute(db);
  return rows[0]?.was === true;
};

/** Returns since when codes are switched on. */
export const totpSince = async (work: Work, { row }: FactorOwner): Promise<Date | undefined> => {
  const found = await find(work, row.id);
  return found?.confirmedAt ?? undefined;
};
