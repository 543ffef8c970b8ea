import { sql } from "kysely";
import { type Passwords, provePassword } from "../auth/passwords.ts";
import type { Mail } from "../email/mail.ts";
import { factorAdded, factorRemoved, type FactorRules, recordChange, replaceCodes } from "./factors.ts";
import {
  confirmTotp,
  deleteTotp,
  type FactorOwner,
  type LoginRef,
  type OwnerRef,
  readOwner,
} from "./owner.ts";
import {
  deletePasskey,
  insertPasskey,
  type NewCredential,
  type PasskeyParts,
  verifyNewPasskey,
} from "./passkeys.ts";
import {
  type GivenFactor,
  orRefuse,
  type ProofParts,
  proveFactor,
  withinAttempts,
  WRONG_FACTOR,
  WrongFactor,
} from "./sign-in.ts";
import { hasPasswords } from "../sso/enforcement.ts";
import { conflict, type DomainError, forbidden, invalid } from "../../kernel/errors.ts";
import type { Transact, Work } from "../../kernel/work.ts";

/** How long the proof of a second factor, or a sign-in, counts for what is asked again. */
export const RECENT_MINUTES = 10;

/** Somebody who is signed in; a super-admin's logins have no session, but a version. */
export type SignedInOwner = LoginRef & { sessionId: string | undefined; ip: string };

/** Builds the error for a factor that a signed-in account did not prove. */
const wrongFactor = (): DomainError => forbidden("MFA_CODE_INVALID", WRONG_FACTOR);

const askAgain = (message: string): DomainError => forbidden("REAUTHENTICATION_REQUIRED", message);

const againFor = ({ kind }: OwnerRef): DomainError =>
  askAgain(
    kind === "admin"
      ? "Prove your second factor too: send code, or passkey"
      : "Prove your second factor with POST /auth/mfa/verify, then try again within 10 minutes",
  );

/** Whether a session began, and proved the second factor, a short while ago. What is cached may be old. */
type Recent = { isNew: boolean; hasProved: boolean | null };

const recentOf = async ({ db, now }: Work, sessionId: string | undefined): Promise<Recent> => {
  const since = sql`${new Date(now.getTime() - RECENT_MINUTES * 60_000).toISOString()}::timestamptz`;
  const { rows } = await sql<Recent>`
    select created_at >= ${since} as "isNew", mfa_at >= ${since} as "hasProved"
    from sessions where id = ${sessionId ?? null}::uuid`.execute(db);
  return rows[0] ?? { isNew: false, hasProved: false };
};

/** Records that a session has proved its second factor now. */
const noteProof = async ({ db, now }: Work, sessionId: string | undefined): Promise<void> => {
  if (sessionId === undefined) return;
  await sql`
    update sessions set mfa_at = ${now.toISOString()}::timestamptz
    where id = ${sessionId}::uuid`.execute(db);
};

/**
 * Requires that a session of an account with a second factor has proved it within 10 minutes: for what
 * destroys. @throws FORBIDDEN REAUTHENTICATION_REQUIRED
 */
export const requireRecentProof = async (
  { transact }: { transact: Transact },
  self: SignedInOwner,
): Promise<void> => {
  const isFine = await transact(async (work) => {
    const owner = await readOwner(work, self);
    return !owner.row.mfaEnabled || (await recentOf(work, self.sessionId)).hasProved;
  });
  if (!isFine) throw againFor(self);
};

/**
 * Proves the second factor of a session anew.
 * @returns until when that counts
 * @throws FORBIDDEN MFA_CODE_INVALID, RateLimited LOGIN_THROTTLED, VALIDATION_ERROR
 */
export const verifyAgain = (parts: ProofParts, self: SignedInOwner, given: GivenFactor): Promise<Date> => {
  const known = self.sessionId === undefined ? `admin:${self.id}` : `session:${self.sessionId}`;
  return orRefuse(
    () =>
      proveFactor(parts, { owner: self, ip: self.ip, known }, given, async (work) => {
        await noteProof(work, self.sessionId);
        return new Date(work.now.getTime() + RECENT_MINUTES * 60_000);
      }),
    wrongFactor,
  );
};

/** What is asked before a change of how an account is signed in to, and before what is hard to undo. */
export type ChangeProof = GivenFactor & { currentPassword?: string | undefined };

type ChangeParts = ProofParts & { passwords: Passwords };

/**
 * Requires before a change of how an account is signed in to, or what is hard to undo: the password, if the
 * account has one that it may sign in with; the second factor, if it has one, by code or passkey, or by its
 * session a short while ago; and of an account that has neither, a sign-in a short while ago. Not to be
 * called in a transaction.
 *
 * @throws FORBIDDEN INVALID_CREDENTIALS, MFA_CODE_INVALID, REAUTHENTICATION_REQUIRED, RateLimited
 * LOGIN_THROTTLED, VALIDATION_ERROR
 */
export const requireChangeProof = async (
  parts: ChangeParts,
  self: SignedInOwner,
  { currentPassword, ...given }: ChangeProof,
): Promise<void> => {
  const seen = await parts.transact(async (work) => {
    const owner = await readOwner(work, self);
    return {
      owner,
      ...(await recentOf(work, self.sessionId)),
      // One of before single sign-on was enforced can neither be used nor be set anew.
      asksPassword:
        currentPassword !== undefined || owner.kind === "admin" || (await hasPasswords(work, owner.row)),
    };
  });
  const { owner } = seen;
  const { passwordHash, mfaEnabled } = owner.row;
  if (passwordHash != null && seen.asksPassword) await proveOwnPassword(parts, self, owner, currentPassword);
  else if (!mfaEnabled && !seen.isNew)
    throw askAgain("Log in again first: this needs a sign-in of the last 10 minutes");
  if (!mfaEnabled) return;
  if (given.code !== undefined || given.passkey !== undefined) await verifyAgain(parts, self, given);
  else if (!seen.hasProved) throw againFor(self);
};

const proveOwnPassword = async (
  parts: ChangeParts,
  { id, sessionId, ip }: SignedInOwner,
  { kind, row }: FactorOwner,
  currentPassword: string | undefined,
): Promise<void> => {
  if (currentPassword === undefined) throw invalid("currentPassword", "is needed");
  // Counted with the logins of the account, as a super-admin's are.
  const email = kind === "admin" ? `superadmin:${row.email}` : row.email;
  const account = { email, passwordHash: row.passwordHash };
  const proof = { currentPassword, ip, sessionId: sessionId ?? id };
  await provePassword(parts, account, proof, () => askAgain("Set a password first"));
};

/** What a first factor brings: codes that are shown only here. */
type Added = { recoveryCodes: string[] | undefined; owner: FactorOwner };

const completeAddition = async (
  work: Work,
  mail: Mail,
  { self, owner }: { self: SignedInOwner; owner: FactorOwner },
  added: Omit<Parameters<typeof factorAdded>[3], "sessionId">,
): Promise<Added> => {
  const { sessionId } = self;
  const recoveryCodes = await factorAdded(work, mail, owner, { ...added, sessionId });
  await noteProof(work, sessionId);
  return { recoveryCodes, owner };
};

/**
 * Switches codes of an app on by the first code: of a first app, or of a new one, which ends the old one's
 * codes and all other sessions.
 * @throws FORBIDDEN MFA_CODE_INVALID, CONFLICT INVALID_STATE, RateLimited LOGIN_THROTTLED
 */
export const enableTotp = (parts: ProofParts, self: SignedInOwner, code: string): Promise<Added> => {
  const attempt = { ownerId: self.id, ip: self.ip, known: self.sessionId ?? self.id, isGuess: true };
  const enable = () =>
    parts.transact(async (work) => {
      const owner = await readOwner(work, self, true);
      const confirmed = await confirmTotp(work, parts.secretBox, owner, code.replaceAll(/\s/g, ""));
      if (!confirmed) throw new WrongFactor();
      const isReplacement = confirmed === "REPLACED";
      const data = isReplacement ? { isReplacement } : undefined;
      const added = { change: "TOTP_ENABLED", data, isReplacement } as const;
      return completeAddition(work, parts.mail, { self, owner }, added);
    });
  return orRefuse(() => withinAttempts(parts, attempt, enable), wrongFactor);
};

type RemovalParts = { mail: Mail; rules: FactorRules };

/** Switches codes of an app off. @throws CONFLICT INVALID_STATE */
export const disableTotp = async (
  work: Work,
  parts: RemovalParts,
  self: SignedInOwner,
): Promise<FactorOwner> => {
  const owner = await readOwner(work, self, true);
  if (!(await deleteTotp(work, owner)))
    throw conflict("INVALID_STATE", "Codes of an app are not switched on");
  await factorRemoved(work, parts, owner, { change: "TOTP_DISABLED", sessionId: self.sessionId });
  return owner;
};

/**
 * Adds a passkey that the browser has made.
 * @throws VALIDATION_ERROR PASSKEY_INVALID, CONFLICT ALREADY_EXISTS, LIMIT_REACHED
 */
export const addPasskey = async (
  parts: PasskeyParts & Pick<ProofParts, "transact" | "mail">,
  self: SignedInOwner,
  { name, credential }: { name: string; credential: NewCredential },
) => {
  // In the caller's own scope first: challenges are used up where every account is seen.
  await parts.transact((work) => readOwner(work, self));
  const verified = await verifyNewPasskey(parts, self, credential);
  return parts.transact(async (work) => {
    const owner = await readOwner(work, self, true);
    const passkey = await insertPasskey(work, owner, { name, verified });
    const data = { passkeyId: passkey.id, name };
    const added = { change: "PASSKEY_ADDED", data, isReplacement: false } as const;
    return { ...(await completeAddition(work, parts.mail, { self, owner }, added)), passkey };
  });
};

/** Removes a passkey. @throws NOT_FOUND, CONFLICT INVALID_STATE */
export const removePasskey = async (
  work: Work,
  parts: RemovalParts,
  self: SignedInOwner,
  passkeyId: string,
): Promise<FactorOwner> => {
  const owner = await readOwner(work, self, true);
  const { id, name } = await deletePasskey(work, owner, passkeyId);
  const data = { passkeyId: id, name };
  await factorRemoved(work, parts, owner, { change: "PASSKEY_REMOVED", sessionId: self.sessionId, data });
  return owner;
};

/** Replaces the recovery codes; those of before no longer work. @throws CONFLICT INVALID_STATE */
export const replaceRecoveryCodes = async (
  work: Work,
  mail: Mail,
  self: SignedInOwner,
): Promise<string[]> => {
  const owner = await readOwner(work, self, true);
  if (!owner.row.mfaEnabled) throw conflict("INVALID_STATE", "The account has no second factor yet");
  await recordChange(work, mail, owner, { change: "RECOVERY_CODES_REPLACED" });
  return replaceCodes(work, owner);
};
