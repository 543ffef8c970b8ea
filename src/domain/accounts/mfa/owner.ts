import { LockMode } from "@mikro-orm/core";
import { type RawBuilder, sql } from "kysely";
import { PlatformAdmin } from "../admin/platform-admin.ts";
import type { Tokens } from "../auth/tokens.ts";
import { User } from "../auth/user.ts";
import { unauthorized } from "../../kernel/errors.ts";
import type { Work } from "../../kernel/work.ts";

/** Names the account of a user of a tenant, or of a super-admin. */
export type OwnerRef = { kind: "user" | "admin"; id: string };

/** The account that a second factor belongs to. */
export type FactorOwner = { kind: "user"; row: User } | { kind: "admin"; row: PlatformAdmin };

/** Returns the tenant of the account; a super-admin has none. */
export const tenantIdOf = (owner: FactorOwner): string | null =>
  owner.kind === "user" ? owner.row.tenantId : null;

/** Returns the account as the audit log names it. */
export const targetOf = ({ kind, row }: FactorOwner) => ({
  type: kind === "user" ? "user" : "platform_admin",
  id: row.id,
});

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
  const lock = isLocked ? { lockMode: LockMode.PESSIMISTIC_WRITE, refresh: true } : {};
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

/**
 * Returns what must not change between a password and the second factor: else the sign-in begins anew.
 * @param idp the identity provider that stands for the password
 */
export const stateOf = (tokens: Tokens, { kind, row }: FactorOwner, idp = ""): string => {
  const version = kind === "admin" ? row.sessionVersion : 0;
  return tokens.mac(["state", kind, row.id, row.email, row.passwordHash ?? "", version, idp].join("\n"));
};
