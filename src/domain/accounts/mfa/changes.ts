import type { Mail } from "../email/mail.ts";
import { forgetSessions } from "../auth/sessions.ts";
import { conflict } from "../../kernel/errors.ts";
import type { Work } from "../../kernel/work.ts";
import { WrongFactor, withinAttempts, orRefuse } from "./attempts.ts";
import { factorAdded, factorRemoved, factorReplaced, type FactorRules, recordChange } from "./factors.ts";
import { type FactorOwner, readOwner } from "./owner.ts";
import {
  deletePasskey,
  insertPasskey,
  type PasskeyParts,
  type ShownPasskey,
  verifyNewPasskey,
} from "./passkeys.ts";
import type { NewCredential } from "./passkey-verifier.ts";
import type { ProofParts } from "./proof.ts";
import { replaceCodes } from "./recovery-codes.ts";
import { type SignedInOwner, noteProof, wrongFactor } from "./step-up.ts";
import { confirmTotp, deleteTotp } from "./totp.ts";

/** What a first factor brings: codes that are shown only here. */
export type Added = { recoveryCodes: string[] | undefined; owner: FactorOwner };

const completeAddition = async (
  work: Work,
  mail: Mail,
  { self, owner }: { self: SignedInOwner; owner: FactorOwner },
  added: { change: "TOTP_ENABLED" | "PASSKEY_ADDED"; data?: Record<string, unknown> },
): Promise<Added> => {
  const { sessionId } = self;
  const recoveryCodes = await factorAdded(work, mail, owner, { ...added, sessionId });
  await noteProof(work, sessionId);
  work.afterCommit(forgetSessions);
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
      if (confirmed === "FIRST")
        return completeAddition(work, parts.mail, { self, owner }, { change: "TOTP_ENABLED" });
      const { sessionId } = self;
      const replaced = { change: "TOTP_ENABLED", data: { isReplacement: true }, sessionId } as const;
      await factorReplaced(work, parts.mail, owner, replaced);
      await noteProof(work, sessionId);
      work.afterCommit(forgetSessions);
      return { recoveryCodes: undefined, owner };
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
  work.afterCommit(forgetSessions);
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
): Promise<Added & { passkey: ShownPasskey }> => {
  // In the caller's own scope first: challenges are used up where every account is seen.
  await parts.transact((work) => readOwner(work, self));
  const verified = await verifyNewPasskey(parts, self, credential);
  return parts.transact(async (work) => {
    const owner = await readOwner(work, self, true);
    const passkey = await insertPasskey(work, owner, { name, verified });
    const data = { passkeyId: passkey.id, name };
    const added = await completeAddition(
      work,
      parts.mail,
      { self, owner },
      { change: "PASSKEY_ADDED", data },
    );
    return { ...added, passkey };
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
  work.afterCommit(forgetSessions);
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
