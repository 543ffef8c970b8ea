import { audit } from "../audit/audit.ts";
import type { Mail } from "../email/mail.ts";
import { invalid } from "../../kernel/errors.ts";
import type { SecretBox } from "../../kernel/secret-box.ts";
import type { Transact, Work } from "../../kernel/work.ts";
import { announce } from "./announce.ts";
import { type AttemptParts, withinAttempts, WrongFactor } from "./attempts.ts";
import { type FactorOwner, type OwnerRef, readOwner, targetOf, tenantIdOf } from "./owner.ts";
import { type PasskeyParts, type ProvedPasskey, provePasskey, usePasskey } from "./passkeys.ts";
import type { Assertion } from "./passkey-verifier.ts";
import { useRecoveryCode } from "./recovery-codes.ts";
import { useTotp } from "./totp.ts";

/** What a caller proves a second factor with: a code of the app or a recovery code, or a passkey. */
export type GivenFactor = { code?: string | undefined; passkey?: Assertion | undefined };

/** `accounts` sees the accounts of all tenants. */
export type ProofParts = AttemptParts &
  PasskeyParts & { transact: Transact; secretBox: SecretBox; mail: Mail };

/** @throws VALIDATION_ERROR unless one of them is given */
export const requireGiven = ({ code, passkey }: GivenFactor): void => {
  if (code === undefined && passkey === undefined) throw invalid("code", "is needed, or passkey instead");
  if (code !== undefined && passkey !== undefined) throw invalid("passkey", "must not come with code");
};

/** Whose factor it is, and from where it is proved. */
export type Prover = { owner: OwnerRef; ip: string; known: string | undefined };

/**
 * Proves the second factor of an account within the limits of attempts, and runs `then` in the transaction
 * that uses the code or passkey up: it fails or succeeds with that.
 *
 * @throws WrongFactor, RateLimited LOGIN_THROTTLED, VALIDATION_ERROR, UNAUTHORIZED SESSION_REVOKED
 */
export const proveFactor = async <T>(
  parts: ProofParts,
  { owner: ref, ip, known }: Prover,
  given: GivenFactor,
  then: (work: Work, owner: FactorOwner) => Promise<T>,
): Promise<T> => {
  requireGiven(given);
  const { code, passkey } = given;
  const attempt = { ownerId: ref.id, ip, known, isGuess: code !== undefined };
  return withinAttempts(parts, attempt, async () => {
    // In the caller's own scope first: passkeys and challenges are looked up where every account is seen.
    if (passkey) await parts.transact((work) => readOwner(work, ref));
    const proved = passkey && (await provePasskey(parts, passkey));
    return parts.transact(async (work) => {
      const owner = await readOwner(work, ref, true);
      const isRight =
        code === undefined
          ? await isPasskeyOf(work, owner, proved)
          : await isCodeOf(work, parts, owner, code);
      if (!isRight) throw new WrongFactor();
      return then(work, owner);
    });
  });
};

/** Uses a proved passkey up, if it is the account's. */
const isPasskeyOf = async (
  work: Work,
  owner: FactorOwner,
  proved: ProvedPasskey | undefined,
): Promise<boolean> =>
  proved !== undefined && proved.owner.kind === owner.kind && (await usePasskey(work, owner, proved));

/** Uses a code up: six digits are of the app, anything else may be a recovery code. */
const isCodeOf = async (
  work: Work,
  { secretBox, mail }: ProofParts,
  owner: FactorOwner,
  code: string,
): Promise<boolean> => {
  const digits = code.replaceAll(/\s/g, "");
  if (/^\d{6}$/.test(digits)) return useTotp(work, secretBox, owner, digits);
  if (!(await useRecoveryCode(work, owner, code))) return false;
  const action = `${targetOf(owner).type}.recovery_code_used`;
  await audit(work, { action, target: targetOf(owner), tenantId: tenantIdOf(owner) });
  await announce(work, mail, owner, "RECOVERY_CODE_USED");
  return true;
};
