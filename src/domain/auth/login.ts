import { unauthorized } from "../errors.ts";
import type { Transact } from "../work.ts";
import { NOBODYS_HASH, type Passwords } from "./passwords.ts";
import { normaliseEmail, type SignedIn, startSession } from "./sessions.ts";
import type { Tokens } from "./tokens.ts";
import { User } from "./user.ts";

export type LoginParts = { transact: Transact; tokens: Tokens; passwords: Passwords };

/**
 * Checks a password and starts a session. An unknown address and a wrong password are told apart neither by
 * the answer nor by the time it takes. @throws UNAUTHORIZED INVALID_CREDENTIALS
 */
export const login = async (
  { transact, tokens, passwords }: LoginParts,
  body: { email: string; password: string },
): Promise<SignedIn> => {
  const email = normaliseEmail(body.email);
  const found = await transact(({ em }) => em.findOne(User, { email, disabledAt: null }));
  const isRight = await passwords.verify(found?.passwordHash ?? NOBODYS_HASH, body.password);
  if (!found || !isRight) throw unauthorized("INVALID_CREDENTIALS", "Email or password is wrong");
  return transact(async (work) => {
    const user = await work.em.findOneOrFail(User, { id: found.id });
    return startSession(work, tokens, user, { method: "PASSWORD" });
  });
};
