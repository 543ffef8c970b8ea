import { createHash, randomBytes } from "node:crypto";
import { sql } from "kysely";
import { endLogins, findAdminByEmail, type PlatformAdmin } from "../admin/admins.ts";
import { audit } from "../audit/audit.ts";
import { revokeSessions } from "../auth/sessions.ts";
import type { User } from "../auth/user.ts";
import type { FactorChange, Mail } from "../email/mail.ts";
import { deleteTotp, type FactorOwner, findOwner, ownerColumns, tenantIdOf, totpSince } from "./owner.ts";
import { listPasskeys } from "./passkeys.ts";
import { isBreakGlass, refuseForBreakGlass } from "../sso/enforcement.ts";
import { lockTeam, requireAdmin, requireGrant, type TeamActor } from "../team/accept.ts";
import { Tenant } from "../tenants/tenant.ts";
import { type Challenge, conflict, notFound } from "../../kernel/errors.ts";
import { isId } from "../../kernel/ids.ts";
import type { Work } from "../../kernel/work.ts";

const RECOVERY_CODES = 10;
/** Without letters and digits that look alike; 32 of them, so that each byte's last 5 bits choose evenly. */
const ALPHABET = "abcdefghijkmnpqrstuvwxyz23456789";
/** 80 bits: nobody finds a code by trying, nor from its hash. */
const CHARACTERS = 16;
const GROUP = /.{4}(?=.)/g;

const newCode = (): string =>
  [...randomBytes(CHARACTERS)].map((byte) => ALPHABET[byte % ALPHABET.length]).join("");

/** Hashed with its owner, so that equal codes of two accounts do not look alike. */
const hashOf = (ownerId: string, code: string): string =>
  createHash("sha256").update(`${ownerId}\n${code}`).digest("hex");

/** Returns the code as it was shown, without its dashes; undefined for a text that cannot be one. */
const normalise = (text: string): string | undefined => {
  const code = text.toLowerCase().replaceAll(/[\s-]/g, "");
  return /^[a-z2-9]{16}$/.test(code) ? code : undefined;
};

/** Replaces the account's codes and returns the new ones, which are shown only here. */
export const replaceCodes = async (work: Work, owner: FactorOwner): Promise<string[]> => {
  const codes = Array.from({ length: RECOVERY_CODES }, newCode);
  await deleteCodes(work, owner);
  const hashes = JSON.stringify(codes.map((code) => hashOf(owner.row.id, code)));
  await sql`
    insert into recovery_codes (owner_id, user_id, admin_id, tenant_id, hash, created_at)
    select ${ownerColumns(owner)}, hash, ${work.now.toISOString()}::timestamptz
    from json_array_elements_text(${hashes}::json) as c(hash)`.execute(work.db);
  return codes.map((code) => code.replaceAll(GROUP, "$&-"));
};

/** Uses a code: of several uses at the same time, in whatever processes, one succeeds. */
export const useRecoveryCode = async ({ db }: Work, { row }: FactorOwner, text: string): Promise<boolean> => {
  const code = normalise(text);
  if (code === undefined) return false;
  const { rows } = await sql`
    delete from recovery_codes where owner_id = ${row.id}::uuid and hash = ${hashOf(row.id, code)}
    returning 1`.execute(db);
  return rows.length === 1;
};

const countCodes = async ({ db }: Work, { row }: FactorOwner): Promise<number> => {
  const { rows } = await sql<{ count: number }>`
    select count(*)::int as count from recovery_codes where owner_id = ${row.id}::uuid`.execute(db);
  return rows[0]?.count ?? 0;
};

const deleteCodes = async ({ db }: Work, { row }: FactorOwner): Promise<void> => {
  await sql`delete from recovery_codes where owner_id = ${row.id}::uuid`.execute(db);
};

/** Whether the tenant, or the server for super-admins, requires a second factor of the account. */
export type FactorRules = { isSuperadminMfaRequired: boolean };

/** Returns why the account must have one, as an error says it; undefined where it need not. */
const whyRequired = async (
  work: Work,
  rules: FactorRules,
  owner: FactorOwner,
): Promise<string | undefined> => {
  if (owner.kind === "admin")
    return rules.isSuperadminMfaRequired ? "This server requires a second factor" : undefined;
  const tenant = await work.em.findOne(Tenant, { id: owner.row.tenantId });
  if (tenant?.secondFactorRequired) return "Your tenant requires a second factor";
  if (owner.row.role === "OWNER" && (await isBreakGlass(work, owner.row)))
    return "The break-glass OWNER (breakGlassUserId of single sign-on) needs a second factor";
  return undefined;
};

/** Returns what the account has. */
export const showFactors = async (work: Work, rules: FactorRules, owner: FactorOwner) => {
  const since = await totpSince(work, owner);
  return {
    enabled: owner.row.mfaEnabled,
    required: (await whyRequired(work, rules, owner)) !== undefined,
    totp: since ? { enabledAt: since.toISOString() } : null,
    passkeys: await listPasskeys(work, owner),
    recoveryCodesLeft: await countCodes(work, owner),
  };
};

/** Returns with what the account can prove its second factor. */
export const methodsOf = async (work: Work, owner: FactorOwner): Promise<Challenge["methods"]> => {
  const of = sql`where owner_id = ${owner.row.id}::uuid`;
  const { rows } = await sql<Record<Challenge["methods"][number], boolean>>`
    select exists (select from totp_secrets ${of} and confirmed_at is not null) as "TOTP",
      exists (select from passkeys ${of}) as "PASSKEY",
      exists (select from recovery_codes ${of}) as "RECOVERY_CODE"`.execute(work.db);
  return (["TOTP", "PASSKEY", "RECOVERY_CODE"] as const).filter((method) => rows[0]![method]);
};

type Change = {
  change: FactorChange;
  /** The session that goes on; a super-admin's logins all end. */
  sessionId: string | undefined;
  data?: Record<string, unknown> | undefined;
};

/** Records what happened to a second factor in the audit log, and by mail to the owner of the account. */
export const recordChange = async (
  work: Work,
  mail: Mail | undefined,
  owner: FactorOwner,
  { change, data = {} }: Pick<Change, "change" | "data">,
): Promise<void> => {
  const { id, email: to, name } = owner.row;
  const [type, userId] = owner.kind === "user" ? ["user", id] : ["platform_admin", null];
  const tenantId = tenantIdOf(owner);
  const action = `${type}.${change === "RESET" ? "mfa_reset" : change.toLowerCase()}`;
  await audit(work, { action, target: { type, id }, tenantId, data });
  const values = { name, change };
  await mail?.queue(work, { template: "second-factor-changed", to, values, tenantId, userId });
};

/** Ends the account's sessions, except the one given. */
const endSessions = async (work: Work, owner: FactorOwner, except: string | undefined): Promise<void> => {
  if (owner.kind === "admin") return endLogins(work, owner.row);
  await revokeSessions(work, owner.row.id, { reason: "MFA_CHANGED", except });
};

/**
 * Completes the addition of a factor. With the first one, sessions that began without it end, and recovery
 * codes are made and returned; by an app in place of another, sessions end that the old one may have begun.
 */
export const factorAdded = async (
  work: Work,
  mail: Mail,
  owner: FactorOwner,
  { isReplacement, ...added }: Change & { isReplacement: boolean },
): Promise<string[] | undefined> => {
  await recordChange(work, mail, owner, added);
  const isFirst = !owner.row.mfaEnabled;
  owner.row.mfaEnabled = true;
  // Before the sessions end: a login that waits for this row must see the factor.
  await work.em.flush();
  if (isFirst || isReplacement) await endSessions(work, owner, added.sessionId);
  return isFirst ? replaceCodes(work, owner) : undefined;
};

const hasNone = async (work: Work, owner: FactorOwner): Promise<boolean> =>
  (await methodsOf(work, owner)).every((method) => method === "RECOVERY_CODE");

const refuseRequired = async (work: Work, rules: FactorRules, owner: FactorOwner): Promise<void> => {
  const why = await whyRequired(work, rules, owner);
  if (why !== undefined) throw conflict("INVALID_STATE", `${why}: set up another one first`);
};

/**
 * Refuses to switch codes off where they are the only factor and one is required: before a proof is asked
 * for, which may use a recovery code up. @throws CONFLICT INVALID_STATE
 */
export const refuseLastTotp = async (work: Work, rules: FactorRules, owner: FactorOwner): Promise<void> => {
  const methods = await methodsOf(work, owner);
  if (methods.includes("TOTP") && !methods.includes("PASSKEY")) await refuseRequired(work, rules, owner);
};

/**
 * Completes the removal of a factor: other sessions end, and with the last factor the recovery codes go.
 * @throws CONFLICT INVALID_STATE for the last one where one is required
 */
export const factorRemoved = async (
  work: Work,
  { mail, rules }: { mail: Mail; rules: FactorRules },
  owner: FactorOwner,
  removed: Change,
): Promise<void> => {
  const isLast = await hasNone(work, owner);
  if (isLast) await refuseRequired(work, rules, owner);
  await recordChange(work, mail, owner, removed);
  if (isLast) {
    await deleteCodes(work, owner);
    owner.row.mfaEnabled = false;
    await work.em.flush();
  }
  await endSessions(work, owner, removed.sessionId);
};

/**
 * Removes every factor of an account and ends its sessions, for somebody who has lost them.
 * @throws CONFLICT INVALID_STATE when it has none
 */
export const resetFactors = async (
  work: Work,
  mail: Mail | undefined,
  owner: FactorOwner,
  data?: Record<string, unknown>,
): Promise<void> => {
  if (!owner.row.mfaEnabled) throw conflict("INVALID_STATE", "The account has no second factor");
  await deleteTotp(work, owner);
  await sql`delete from passkeys where owner_id = ${owner.row.id}::uuid`.execute(work.db);
  await deleteCodes(work, owner);
  owner.row.mfaEnabled = false;
  await work.em.flush();
  await endSessions(work, owner, undefined);
  await recordChange(work, mail, owner, { change: "RESET", data });
};

/**
 * Removes the second factor of a member who has lost it, and ends their sessions. The caller has just
 * reauthenticated.
 *
 * @throws NOT_FOUND, FORBIDDEN INSUFFICIENT_ROLE for an OWNER's by an ADMIN, CONFLICT INVALID_STATE for one's
 * own, a member without one, or the break-glass OWNER
 */
export const resetMemberMfa = async (
  work: Work,
  mail: Mail,
  actor: TeamActor,
  memberId: string,
): Promise<User> => {
  const { caller, member } = await lockTeam(work, actor, memberId);
  requireGrant(requireAdmin(caller).role, member.role);
  if (member.id === caller.id)
    throw conflict("INVALID_STATE", "This is for others: change your own second factor under /auth/mfa");
  await refuseForBreakGlass(work, member);
  await resetFactors(work, mail, { kind: "user", row: member });
  return member;
};

/** Removes the second factor of a user of any tenant. @throws NOT_FOUND, CONFLICT INVALID_STATE */
export const resetUserMfa = async (work: Work, mail: Mail, userId: string, reason: string): Promise<User> => {
  const owner = isId(userId) ? await findOwner(work, { kind: "user", id: userId }, true) : undefined;
  if (owner?.kind !== "user") throw notFound("User");
  await resetFactors(work, mail, owner, { reason });
  return owner.row;
};

/**
 * Removes the second factor of a super-admin and ends their logins: for the command, which sends no mail.
 * @throws NOT_FOUND, CONFLICT INVALID_STATE
 */
export const resetAdminMfa = async (work: Work, email: string): Promise<PlatformAdmin> => {
  const row = await findAdminByEmail(work, email);
  await resetFactors(work, undefined, { kind: "admin", row });
  return row;
};
